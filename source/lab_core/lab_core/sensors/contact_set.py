"""Where an entity touches, or nearly touches, what is around it: geometry without forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from lab_core.sensors.sensor import SensorCfg, SensorData

TOKEN_SIZE = 15
"""Numbers of a contact, see :class:`ContactSetData`."""
GEOMETRY_SIZE = TOKEN_SIZE - 2
"""Continuous numbers among them."""


@dataclass(kw_only=True)
class ContactSetCfg(SensorCfg):
    """Contacts of an entity, found from geometry alone before every physics substep, whoever collides in the solver."""

    capacity: int = 32
    """Contacts per environment; one between two parts of the entity counts twice."""
    distance: float = 0.05
    """Gap between surfaces up to which they count [m]; more than what the entity moves in a physics substep."""


class TokenParts(NamedTuple):
    """What tokens (..., 15) hold."""

    valid: torch.Tensor
    """(...) bool, where there is a contact."""
    owner: torch.Tensor
    """(...) int64, index of the part that feels it."""
    geometry: torch.Tensor
    """(..., 13) continuous numbers."""


def split_tokens(tokens: torch.Tensor) -> TokenParts:
    """Returns the parts of tokens (..., 15)."""
    return TokenParts(tokens[..., 0] > 0.5, tokens[..., 1].long(), tokens[..., 2:])


class ContactSetData(SensorData):
    """Contacts of N environments, K places in each.

    A token is [1, owner, point 3, normal 3, arm 3, gap 1, velocity 3], in the frame of the entity's root: the point on
    the owner, relative to the root's origin [m]; the unit normal, from the other party towards the owner; the point
    relative to the centre of mass of the body it is on [m]; the distance between the surfaces [m], negative inside;
    the velocity of the owner's point relative to the other's [m/s]. A contact between two parts of the entity is two
    tokens. Contacts come in the same order in every run; places without one are 0.
    """

    traceable = ("tokens", "excess")

    def __init__(self, cfg: ContactSetCfg, num_envs: int, part_names: Sequence[str], device: torch.device) -> None:
        """``part_names`` are the names of the bodies that owners count: the root if it is free, then the body that each
        joint moves, in the order of the joints. Bodies welded to another one belong to that."""
        self.part_names = tuple(part_names)
        self.distance = cfg.distance
        self.tokens = torch.zeros(num_envs, cfg.capacity, TOKEN_SIZE, device=device)
        """(N, K, 15) contacts at the beginning of the latest physics substep."""
        self.excess = torch.zeros(num_envs, device=device)
        """(N,) contacts that found no place then; 0 where the set is complete."""
