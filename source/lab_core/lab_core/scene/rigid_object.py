"""One body that moves freely, made of a shape: its configuration, and reading and writing its state."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab_core.config import MISSING, NonNegative, Positive, check_kinds
from lab_core.errors import ConfigError
from lab_core.scene.entity import Entity, EntityCfg, EntityPhysics
from lab_core.scene.entity_data import EntityData
from lab_core.scene.root_state import RootStateCfg
from lab_core.scene.shapes import ShapeCfg


@dataclass(kw_only=True)
class RigidObjectCfg(EntityCfg):
    """A cube, a ball or the like, which needs no file. Its only body has the name of the entity."""

    shape: ShapeCfg = MISSING
    """What it looks like and collides with; its inertia is that of the solid shape."""
    mass: Positive | None = None
    """[kg]. Either this or ``density``."""
    density: Positive | None = None
    """[kg/m^3]."""
    friction: NonNegative = 1.0
    """Sliding friction coefficient."""
    friction_priority: int = 0
    """In a contact the friction of the shape of higher priority counts; of equal ones, the larger coefficient."""
    init_state: RootStateCfg = field(default_factory=RootStateCfg)
    """State after a reset; at the environment's origin if it says nothing else."""

    @property
    def total_mass(self) -> float:
        """Mass [kg], whichever way it is given."""
        if self.mass is not None:
            return self.mass
        assert self.density is not None, "check() has been called"
        return self.density * self.shape.volume

    def check(self, name: str) -> None:
        """Checks the values; ``name`` is the entity's key in the scene.

        Raises:
            ConfigError: a value is impossible, or mass and density are both given, or neither.
        """
        where = f"scene.entities[{name!r}]"
        check_kinds(self, where, type(self))
        if (self.mass is None) == (self.density is None):
            raise ConfigError(f"{where}: give either mass or density, got mass={self.mass} and density={self.density}.")

    def make_entity(self, name: str, physics: EntityPhysics) -> RigidObject:
        data = physics.entities[name]
        assert isinstance(data, RigidObjectData), "the backend builds what the configuration says"
        return RigidObject(name, self, data, physics)


class RigidObjectData(EntityData):
    """Tensors of one rigid object in N environments: those of every entity, with one body and no joints."""


class RigidObject(Entity[RigidObjectCfg, RigidObjectData]):
    """Access to one rigid object in all environments."""

    kind = "rigid_object"
