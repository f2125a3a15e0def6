"""Sensors of the Newton backend: they fill the buffers of :mod:`lab_core.sensors` inside its graphs."""

from __future__ import annotations

from lab_core.sensors import (
    ContactSensorCfg,
    ContactSetCfg,
    FrameTransformCfg,
    GapSensorCfg,
    ImuCfg,
    JointWrenchCfg,
    RayCasterCfg,
)
from lab_newton.sensors.contact import ContactSensor
from lab_newton.sensors.contact_set import ContactSetSensor
from lab_newton.sensors.frame_transform import FrameTransformSensor
from lab_newton.sensors.gap import GapSensor
from lab_newton.sensors.imu import ImuSensor
from lab_newton.sensors.joint_wrench import JointWrenchSensor
from lab_newton.sensors.ray_caster import RayCaster
from lab_newton.sensors.sensor import Sensor, SensorContext, make_sensor, share_with_warp

__all__ = ["Sensor", "SensorContext", "make_sensor", "share_with_warp"]

make_sensor.register(ContactSensorCfg, ContactSensor)
make_sensor.register(ContactSetCfg, ContactSetSensor)
make_sensor.register(FrameTransformCfg, FrameTransformSensor)
make_sensor.register(GapSensorCfg, GapSensor)
make_sensor.register(ImuCfg, ImuSensor)
make_sensor.register(JointWrenchCfg, JointWrenchSensor)
make_sensor.register(RayCasterCfg, RayCaster)
