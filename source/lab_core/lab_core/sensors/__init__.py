"""Sensors: what they measure, as tensors that a physics backend fills."""

from lab_core.sensors.contact import ContactSensorCfg, ContactSensorData
from lab_core.sensors.contact_set import GEOMETRY_SIZE, TOKEN_SIZE, ContactSetCfg, ContactSetData, split_tokens
from lab_core.sensors.contact_times import ContactTimesData
from lab_core.sensors.frame_transform import FrameTransformCfg, FrameTransformData
from lab_core.sensors.gap import GapSensorCfg, GapSensorData
from lab_core.sensors.imu import ImuCfg, ImuData
from lab_core.sensors.joint_wrench import JointWrenchCfg, JointWrenchData
from lab_core.sensors.ray_caster import GridPatternCfg, RayCasterCfg, RayCasterData
from lab_core.sensors.sensor import SensorCfg, SensorData

__all__ = [
    "GEOMETRY_SIZE",
    "TOKEN_SIZE",
    "ContactSensorCfg",
    "ContactSensorData",
    "ContactTimesData",
    "ContactSetCfg",
    "ContactSetData",
    "FrameTransformCfg",
    "FrameTransformData",
    "GapSensorCfg",
    "GapSensorData",
    "GridPatternCfg",
    "ImuCfg",
    "ImuData",
    "JointWrenchCfg",
    "JointWrenchData",
    "RayCasterCfg",
    "RayCasterData",
    "SensorCfg",
    "SensorData",
    "split_tokens",
]
