"""One rigid object: from its shape to its body."""

from __future__ import annotations

import newton

from lab_core.scene import RigidObjectCfg, RigidObjectData, fill_root_default
from lab_newton.robot_files import EntityLayout
from lab_newton.state.bodies import NewtonBodies
from lab_newton.state.shapes import ShapeConfig, add_shape


class NewtonRigidObject(NewtonBodies[RigidObjectCfg, RigidObjectData]):
    """A rigid object in all worlds: bodies without joints, of which there is one."""

    data_type = RigidObjectData
    has_own_colors_as_ghost = True

    def add_ghost_to(self, world: newton.ModelBuilder) -> EntityLayout:
        return add_rigid_object(world, self.name, self.cfg)

    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        return add_rigid_object(world, self.name, self.cfg)

    def _fill_defaults(self) -> None:
        fill_root_default(self.name, self.cfg.init_state, self.data)


def add_rigid_object(world: newton.ModelBuilder, name: str, cfg: RigidObjectCfg) -> EntityLayout:
    """Adds a rigid object to the builder of one world, at the origin.

    Raises:
        ConfigError: a value of ``cfg`` is impossible; see :meth:`RigidObjectCfg.check`.
    """
    cfg.check(name)
    root_coord, root_dof = world.joint_coord_count, world.joint_dof_count
    body = world.add_body(label=name)
    # Newton computes mass and inertia of the solid shape.
    surface = ShapeConfig(density=cfg.total_mass / cfg.shape.volume, mu=cfg.friction)
    priority = {"mujoco:geom_priority": cfg.friction_priority}
    add_shape(cfg.shape, world, body, surface, priority)
    return EntityLayout(
        joint_names=(),
        body_names=(name,),
        joint_coord=(),
        joint_dof=(),
        body=(body,),
        root_coord=root_coord,
        root_dof=root_dof,
        floating=True,
    )
