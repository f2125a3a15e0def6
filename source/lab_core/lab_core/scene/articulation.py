"""A robot: its configuration, and reading and writing its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from lab_core.config import MISSING, Positive
from lab_core.masks import masked_copy_
from lab_core.scene.actuators import ActuatorCfg
from lab_core.scene.articulation_data import ArticulationData
from lab_core.scene.entity import Entity, EntityCfg, EntityPhysics
from lab_core.scene.root_state import RootStateCfg


@dataclass(kw_only=True)
class InitialStateCfg(RootStateCfg):
    """State of an environment after a reset, before any reset event."""

    joint_pos: Mapping[str, float] = field(default_factory=dict)
    """Joint name or regular expression -> position [rad or m]; 0 for joints that are not named."""
    joint_vel: Mapping[str, float] = field(default_factory=dict)
    """Joint name or regular expression -> velocity [rad/s or m/s]; 0 for joints that are not named."""


@dataclass(kw_only=True)
class ArticulationCfg(EntityCfg):
    """A robot: its model file, its actuators and its default state."""

    asset: str = MISSING
    """Model file: a path, or ``package:path/inside/package``."""
    root: str | None = None
    """Body that is the root, of an MJCF file with several trees of bodies that move. Each is an entity of its own,
    made from the same file, and what stands still belongs to the first. None: the file has one tree."""
    init_state: InitialStateCfg = field(default_factory=InitialStateCfg)
    actuators: dict[str, ActuatorCfg] = MISSING
    soft_joint_pos_limit_factor: Positive = 1.0
    """Soft limits are the middle of the range plus and minus this share of half the range."""
    self_collision: bool = True
    """Whether the robot's bodies may touch each other."""
    fixed_base: bool | None = None
    """Whether the root is fixed to the world. None: as the model file says; in a URDF file it is fixed."""
    package_folders: tuple[str, ...] = ()
    """Folders with the packages that a URDF file names in ``package://``, besides the folders above the file."""

    def make_entity(self, name: str, physics: EntityPhysics) -> Articulation:
        data = physics.entities[name]
        assert isinstance(data, ArticulationData), "the backend builds what the configuration says"
        cfg = physics.resolved.get(name, self)
        assert isinstance(cfg, ArticulationCfg), "what is filled in does not change the kind"
        return Articulation(name, cfg, data, physics)


class Articulation(Entity[ArticulationCfg, ArticulationData]):
    """Access to one robot in all environments."""

    kind = "articulation"

    def write_state(self, state: Mapping[str, torch.Tensor], mask: torch.Tensor, is_relative: bool = False) -> None:
        """As :meth:`Entity.write_state`; joint targets become the positions of the state, so that nothing pulls
        before the first action."""
        super().write_state(state, mask, is_relative)
        masked_copy_(self.data.joint_pos_target, state["joint_position"], mask)
