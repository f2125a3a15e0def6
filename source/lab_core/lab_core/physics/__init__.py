"""What a physics engine must offer."""

from lab_core.physics.backend import CapacityError, HealthReport, PhysicsBackend, PhysicsCfg, Viewer

__all__ = ["CapacityError", "HealthReport", "PhysicsBackend", "PhysicsCfg", "Viewer"]
