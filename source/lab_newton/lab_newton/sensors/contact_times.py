"""What sensors of forces and of gaps share: which bodies they look at, and for how long those touch something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import warp as wp

from lab_core.errors import ConfigError
from lab_core.sensors import ContactSensorCfg, ContactTimesData, GapSensorCfg
from lab_newton.sensors.contact_times_kernels import ContactTimes
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp

_DTYPES: dict[str, Any] = {
    "contact_steps": wp.int32,
    "air_steps": wp.int32,
    "current_contact_time": wp.float32,
    "current_air_time": wp.float32,
    "last_contact_time": wp.float32,
    "last_air_time": wp.float32,
}


class TouchSensor(Sensor):
    """Base of the sensors that see touches of some bodies."""

    def __init__(self, cfg: ContactSensorCfg | GapSensorCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown, or the history has no length.
            UnknownNameError: a body is unknown.
        """
        super().__init__(cfg, name, context)
        if cfg.history_length < 1:
            raise ConfigError(f"scene.sensors[{name!r}].history_length must be at least 1, got {cfg.history_length}.")
        layout = self.entity.layout
        found = sorted(self.find_bodies(cfg.body_names))
        self.bodies = [layout.body[body] for body in found]
        """Places of the bodies in the slice of a world."""
        self.body_names = [layout.body_names[body] for body in found]
        self.dim = (self.num_envs, len(found))
        """(N, B), what kernels are launched over."""
        self.dt = context.dt

    def share(self, data: ContactTimesData, dtypes: Mapping[str, Any]) -> Any:
        """Shares the times of ``data``, and its buffers named in ``dtypes``, with Warp; returns the times, a
        ``ContactTimes``."""
        share_with_warp(data, {**_DTYPES, **dtypes})
        times = ContactTimes()
        for field in _DTYPES:
            setattr(times, field, getattr(data.warp, field))
        return times
