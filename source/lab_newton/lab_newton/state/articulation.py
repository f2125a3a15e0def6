"""One articulation: from its model file to its bodies, and what its joints exchange with Newton's arrays."""

from __future__ import annotations

import newton
import warp as wp

from lab_core.scene import ArticulationCfg, ArticulationData, fill_defaults
from lab_newton.robot_files import EntityLayout, add_articulation
from lab_newton.robot_files.filled_in import fill_in
from lab_newton.state import entity_kernels as kernels
from lab_newton.state.bodies import NewtonBodies


class NewtonArticulation(NewtonBodies[ArticulationCfg, ArticulationData]):
    """An articulation in all worlds."""

    data_type = ArticulationData

    def __init__(self, cfg: ArticulationCfg, name: str, num_envs: int, device: wp.Device) -> None:
        super().__init__(cfg, name, num_envs, device)
        self.actuators = cfg.actuators

    def add_ghost_to(self, world: newton.ModelBuilder) -> EntityLayout:
        return add_articulation(world, self.name, self.cfg).layout

    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        self.imported = add_articulation(world, self.name, self.cfg)
        self.cfg = fill_in(self.name, self.cfg, self.imported)
        self.actuators = self.cfg.actuators
        return self.imported.layout

    def _fill_defaults(self) -> None:
        fill_defaults(self.name, self.cfg, self.data, self._followers.places)
        self._followers.fill_defaults(self.name, self.data)

    def write_targets(self, control: newton.Control, non_finite: wp.array) -> None:
        if self.layout.joint_names:
            wp.launch(
                kernels.write_targets,
                dim=self._joint_dim,
                inputs=[self._arrays, self._places],
                outputs=[control.joint_target_q, control.joint_target_qd, control.joint_act, non_finite],
                device=self.device,
            )

    def read_effort(self, control: newton.Control) -> None:
        if self.layout.joint_names:
            wp.launch(
                kernels.read_effort,
                dim=self._joint_dim,
                inputs=[control.joint_f],
                outputs=[self._arrays, self._places],
                device=self.device,
            )
