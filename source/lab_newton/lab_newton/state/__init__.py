"""What the backend holds of each entity, and its exchange with Newton's arrays."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg
from lab_newton.robot_files import EntityLayout
from lab_newton.state.articulation import NewtonArticulation
from lab_newton.state.entity import NewtonEntity, make_entity

__all__ = ["EntityLayout", "NewtonArticulation", "NewtonEntity", "make_entity"]

make_entity.register(ArticulationCfg, NewtonArticulation)
