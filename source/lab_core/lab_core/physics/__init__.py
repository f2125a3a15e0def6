"""What a physics engine must offer."""

from lab_core.physics.backend import HealthReport, PhysicsBackend, PhysicsCfg, Viewer

__all__ = ["HealthReport", "PhysicsBackend", "PhysicsCfg", "Viewer"]
