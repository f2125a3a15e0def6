"""Robots and other entities of a scene, and their state as tensors."""

from lab_core.scene.actuators import (
    ActuatorCfg,
    DCMotorActuatorCfg,
    FileActuatorCfg,
    IdealPDActuatorCfg,
    LSTMActuatorCfg,
    MotorCurveCfg,
    RemotizedPDActuatorCfg,
    clip_to_motor_curve,
    require_number,
)
from lab_core.scene.articulation import Articulation, ArticulationCfg, InitialStateCfg
from lab_core.scene.articulation_data import ArticulationData
from lab_core.scene.buffers import Buffer, Kind, Notice, Role
from lab_core.scene.defaults import actuated_joints, fill_defaults
from lab_core.scene.described import actuator_fields
from lab_core.scene.entity import Entity, EntityCfg, EntityPhysics
from lab_core.scene.entity_data import EntityData
from lab_core.scene.rigid_object import RigidObject, RigidObjectCfg, RigidObjectData
from lab_core.scene.root_state import RootStateCfg, fill_root_default
from lab_core.scene.scene import CameraCfg, GroundCfg, Scene, SceneCfg, SceneState
from lab_core.scene.shapes import SIX_COLORS, BoxCfg, CapsuleCfg, CylinderCfg, FaceColors, ShapeCfg, SphereCfg

__all__ = [
    "ActuatorCfg",
    "Articulation",
    "ArticulationCfg",
    "ArticulationData",
    "BoxCfg",
    "Buffer",
    "CameraCfg",
    "CapsuleCfg",
    "CylinderCfg",
    "DCMotorActuatorCfg",
    "Entity",
    "EntityCfg",
    "EntityData",
    "EntityPhysics",
    "FaceColors",
    "FileActuatorCfg",
    "GroundCfg",
    "IdealPDActuatorCfg",
    "InitialStateCfg",
    "Kind",
    "LSTMActuatorCfg",
    "MotorCurveCfg",
    "Notice",
    "RemotizedPDActuatorCfg",
    "RigidObject",
    "RigidObjectCfg",
    "RigidObjectData",
    "Role",
    "RootStateCfg",
    "SIX_COLORS",
    "Scene",
    "SceneCfg",
    "SceneState",
    "ShapeCfg",
    "SphereCfg",
    "actuated_joints",
    "actuator_fields",
    "clip_to_motor_curve",
    "fill_defaults",
    "fill_root_default",
    "require_number",
]
