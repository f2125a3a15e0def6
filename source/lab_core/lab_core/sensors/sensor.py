"""What every sensor has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from lab_core.config import Settings
from lab_core.markers import Markers
from lab_core.state import Stateful


@dataclass(kw_only=True)
class SensorCfg(Settings):
    """Base of the sensor configurations; the scene holds them by name."""

    entity: str = "robot"
    """Entity of the scene that carries the sensor."""


class Carrier(Protocol):
    """What a sensor that draws may use of the entity that carries it; see :class:`~lab_core.scene.EntityData`."""

    body_names: tuple[str, ...]
    body_mass: torch.Tensor
    """(N, B) [kg]."""
    body_link_pose_w: torch.Tensor
    """(N, B, 7) world frame: position [m], then quaternion xyzw."""


class SensorData(Stateful):
    """Base of the sensor data: tensors (N, ...) that keep their addresses and are fresh in every observation.

    The backend fills them in every substep or at the end of a step, as each sensor says, and clears the rows of
    environments that are reset; after a reset they show the new state.
    """

    traceable: ClassVar[tuple[str, ...]] = ()
    """Buffers that change in every physics substep, and can be recorded in each."""
    warp: Any = None
    """The same buffers as Warp arrays under the same names, where the backend is built on Warp."""

    def markers(self, carrier: Carrier) -> Sequence[Markers]:
        """Returns what shows the measurements in pictures, by default nothing. Called where somebody looks,
        between steps, and never captured."""
        return ()
