"""What a physics engine must offer."""

from lab_core.physics.backend import CapacityError, HealthReport, PhysicsBackend, PhysicsCfg
from lab_core.physics.fingerprint import Fingerprint, differences, plain
from lab_core.physics.ghosts import Ghost, GhostSource
from lab_core.physics.traces import ENTERING, ENTITY_FIELDS, TraceBuffers
from lab_core.physics.viewer import CommandComponent, SettableCommand, Viewer

__all__ = [
    "ENTERING",
    "ENTITY_FIELDS",
    "CapacityError",
    "CommandComponent",
    "Fingerprint",
    "Ghost",
    "GhostSource",
    "HealthReport",
    "PhysicsBackend",
    "PhysicsCfg",
    "SettableCommand",
    "TraceBuffers",
    "Viewer",
    "differences",
    "plain",
]
