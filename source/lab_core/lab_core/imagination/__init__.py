"""A task without its simulation: what a manager's own terms say of states that come from elsewhere, with gradients."""

from lab_core.imagination.errors import ImaginationError
from lab_core.imagination.imagination import Imagination
from lab_core.imagination.state import ArticulationState
from lab_core.imagination.view import ImaginedEnv

__all__ = ["ArticulationState", "ImaginationError", "Imagination", "ImaginedEnv"]
