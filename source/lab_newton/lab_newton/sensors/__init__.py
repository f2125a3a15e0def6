"""Sensors of the Newton backend: they fill the buffers of :mod:`lab_core.sensors` inside its graphs."""

from __future__ import annotations

from collections.abc import Mapping

from lab_core.errors import ConfigError
from lab_core.sensors import ContactSensorCfg, FrameTransformCfg, ImuCfg, JointWrenchCfg, RayCasterCfg, SensorCfg
from lab_newton.sensors.contact import ContactSensor
from lab_newton.sensors.frame_transform import FrameTransformSensor
from lab_newton.sensors.imu import ImuSensor
from lab_newton.sensors.joint_wrench import JointWrenchSensor
from lab_newton.sensors.ray_caster import RayCaster
from lab_newton.sensors.sensor import Sensor
from lab_newton.state.entity import Entity
from lab_newton.terrain import Ground

__all__ = ["Sensor", "make_sensor"]


def make_sensor(
    name: str, cfg: SensorCfg, entities: Mapping[str, Entity], ground: Ground, dt: float, solver_steps: int
) -> Sensor:
    """Returns the sensor of ``cfg``.

    Args:
        ground: What rays hit.
        dt: Physics substep [s].
        solver_steps: Solver steps per substep.

    Raises:
        ConfigError: the configuration is of an unknown kind, or names what the scene does not have.
    """
    if isinstance(cfg, ContactSensorCfg):
        return ContactSensor(name, cfg, entities, dt, solver_steps)
    if isinstance(cfg, RayCasterCfg):
        return RayCaster(name, cfg, entities, ground)
    if isinstance(cfg, JointWrenchCfg):
        return JointWrenchSensor(name, cfg, entities)
    if isinstance(cfg, ImuCfg):
        return ImuSensor(name, cfg, entities)
    if isinstance(cfg, FrameTransformCfg):
        return FrameTransformSensor(name, cfg, entities)
    raise ConfigError(f"scene.sensors[{name!r}]: the Newton backend has no sensor for a {type(cfg).__name__}.")
