"""What the backend holds of each entity, and its exchange with Newton's arrays."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg, RigidObjectCfg
from lab_newton.robot_files import EntityLayout
from lab_newton.state.articulation import NewtonArticulation
from lab_newton.state.entity import NewtonEntity, make_entity
from lab_newton.state.rigid_object import NewtonRigidObject
from lab_newton.state.shapes import add_shape

__all__ = ["EntityLayout", "NewtonArticulation", "NewtonEntity", "NewtonRigidObject", "add_shape", "make_entity"]

make_entity.register(ArticulationCfg, NewtonArticulation)
make_entity.register(RigidObjectCfg, NewtonRigidObject)
