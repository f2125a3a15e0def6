"""Sensors of the Newton backend: they fill the buffers of :mod:`lab_core.sensors` inside its graphs."""

from __future__ import annotations

from collections.abc import Mapping

from lab_core.errors import ConfigError
from lab_core.sensors import ContactSensorCfg, SensorCfg
from lab_newton.entity import Entity
from lab_newton.sensors.contact import ContactSensor
from lab_newton.sensors.sensor import Sensor

__all__ = ["ContactSensor", "Sensor", "make_sensor"]


def make_sensor(name: str, cfg: SensorCfg, entities: Mapping[str, Entity], dt: float, solver_steps: int) -> Sensor:
    """Returns the sensor of ``cfg``.

    Args:
        dt: Physics substep [s].
        solver_steps: Solver steps per substep.

    Raises:
        ConfigError: the configuration is of an unknown kind, or names what the scene does not have.
    """
    if isinstance(cfg, ContactSensorCfg):
        return ContactSensor(name, cfg, entities, dt, solver_steps)
    raise ConfigError(f"scene.sensors[{name!r}]: the Newton backend has no sensor for a {type(cfg).__name__}.")
