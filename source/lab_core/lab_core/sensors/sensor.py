"""What every sensor has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lab_core.state import Stateful


@dataclass(kw_only=True)
class SensorCfg:
    """Base of the sensor configurations; the scene holds them by name."""

    entity: str = "robot"
    """Entity of the scene that carries the sensor."""


class SensorData(Stateful):
    """Base of the sensor data: tensors (N, ...) that keep their addresses and are fresh in every observation.

    The backend fills them in every substep or at the end of a step, as each sensor says, and clears the rows of
    environments that are reset; after a reset they show the new state.
    """

    traceable: ClassVar[tuple[str, ...]] = ()
    """Buffers that change in every physics substep, and can be recorded in each."""
    warp: Any = None
    """The same buffers as Warp arrays under the same names, where the backend is built on Warp."""
