"""What the backend holds of each entity, and its exchange with Newton's arrays."""

from lab_newton.state.entity import Entity

__all__ = ["Entity"]
