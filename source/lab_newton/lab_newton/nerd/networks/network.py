"""What all networks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from lab_newton.nerd.networks.contacts import ContactEncoder, Contacts

if TYPE_CHECKING:
    from lab_newton.nerd.representation import Representation
    from lab_newton.nerd.wrenches.robot import RobotProperties


class Network(nn.Module, ABC):
    """From windows of frames to what happens in the step after each of their frames.

    A frame is encoded by itself, then frames are mixed: what is encoded can be kept from step to step. Causal: what it
    says of a frame depends on that and earlier ones only, so that one pass trains all lengths of history.

    Args:
        input_owners: Body that each of the F channels of a frame belongs to.
        output_owners: Body that each of the P outputs belongs to.
        context: T, most frames that it looks at.
        contact_channels: C, numbers of a contact; 0: it sees no contacts.
        contact_size: Numbers that the contacts of a body are made into.
    """

    in_units: ClassVar[bool] = False
    """Whether it takes features and contacts in SI units, and gives changes of velocity in them."""
    needs_masses: ClassVar[bool] = False
    """Whether it is for robots alone whose masses are known."""

    def __init__(
        self,
        input_owners: Sequence[int],
        output_owners: Sequence[int],
        context: int,
        contact_channels: int = 0,
        contact_size: int = 16,
    ) -> None:
        super().__init__()
        self.context = context
        self.contact_channels = contact_channels
        self.num_inputs, self.num_outputs = len(input_owners), len(output_owners)
        self.num_bodies = max((*input_owners, *output_owners)) + 1
        self.token_size = self.num_inputs
        """E, numbers of an encoded frame."""
        self.contact_encoder = None
        if contact_channels:
            self.contact_encoder = ContactEncoder(self.num_bodies, contact_channels, contact_size)
            self.token_size += self.num_bodies * contact_size

    @classmethod
    def for_robot(
        cls, representation: Representation, options: Mapping[str, Any], robot: RobotProperties | None = None
    ) -> Self:
        """Returns one for the channels of a robot, whose masses are ``robot`` where they are known.

        Raises:
            TypeError: it does not take one of the options.
            ValueError: an option cannot be.
        """
        return cls(representation.feature_owners, representation.change_owners, **options)

    def encode(self, frames: Tensor, contacts: Contacts | None = None) -> Tensor:
        """Returns frames (B, T, F), with their contacts, as tokens (B, T, E).

        Raises:
            ValueError: it sees contacts and is given none.
        """
        if self.contact_encoder is None:
            return frames
        if contacts is None:
            raise ValueError(f"This {type(self).__name__} looks at contacts, and was given none.")
        return torch.cat((frames, self.contact_encoder(contacts).flatten(-2).to(frames.dtype)), dim=-1)

    @abstractmethod
    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        """Returns outputs (B, T, P) for tokens (B, T, E); ``length`` (B,): how many of them count, all if None.

        Outputs beyond the length mean nothing.
        """

    def forward(self, frames: Tensor, contacts: Contacts | None = None, length: Tensor | None = None) -> Tensor:
        """Returns outputs (B, T, P) for frames (B, T, F) on the common scale, oldest first; see :meth:`mix`."""
        return self.mix(self.encode(frames, contacts), length)


def keep_first(tokens: Tensor, length: Tensor | None) -> Tensor:
    """Returns tokens (B, T, E) with zeros beyond the first ``length`` (B,), even in place of NaN."""
    if length is None:
        return tokens
    counted = torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]
    return torch.where(counted[..., None], tokens, 0.0)
