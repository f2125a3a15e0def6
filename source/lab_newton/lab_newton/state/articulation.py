"""One articulation: its buffers, their Warp views, and their exchange with Newton's arrays."""

from __future__ import annotations

from typing import Any

import newton
import warp as wp

from lab_core.scene import ArticulationCfg, ArticulationData, fill_defaults
from lab_newton.robot_files import EntityLayout, add_articulation
from lab_newton.robot_files.filled_in import fill_in
from lab_newton.robot_files.followers import Followers
from lab_newton.state import entity_kernels as kernels
from lab_newton.state.entity import NewtonEntity
from lab_warp.views import fill_struct


class NewtonArticulation(NewtonEntity[ArticulationCfg, ArticulationData]):
    """An articulation in all worlds."""

    data_type = ArticulationData

    def __init__(self, cfg: ArticulationCfg, name: str, num_envs: int, device: wp.Device) -> None:
        super().__init__(cfg, name, num_envs, device)
        self.actuators = cfg.actuators

    def bind(self, model: newton.Model, env_origins: wp.array, state: newton.State) -> None:
        self._joint_dim = (self.num_envs, max(len(self.layout.joint_names), 1))
        self._arrays = fill_struct(kernels.ArticulationArrays, self.data)
        self._followers = Followers.of(self.name, self.imported, self.layout.joint_names)
        self._places = self._find_places(model)
        super().bind(model, env_origins, state)

    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        self.imported = add_articulation(world, self.name, self.cfg)
        self.cfg = fill_in(self.name, self.cfg, self.imported)
        self.actuators = self.cfg.actuators
        return self.imported.layout

    def _fill_defaults(self) -> None:
        fill_defaults(self.name, self.cfg, self.data)
        self._followers.fill_defaults(self.data)

    def write_state(self, mask: wp.array, state: newton.State) -> None:
        wp.launch(
            kernels.write_state,
            dim=self._joint_dim,
            inputs=[mask, self._arrays, self._places],
            outputs=[state.joint_q, state.joint_qd],
            device=self.device,
        )

    def restore_default(self, mask: wp.array, env_origins: wp.array, state: newton.State) -> None:
        wp.launch(
            kernels.restore_default,
            dim=self._joint_dim,
            inputs=[mask, env_origins, self._arrays, self._places],
            outputs=[state.joint_q, state.joint_qd],
            device=self.device,
        )

    def read_state(
        self,
        model: newton.Model,
        state: newton.State,
        written: wp.array,
        mask: wp.array | None = None,
        elapsed: float | None = None,
    ) -> None:
        wp.launch(
            kernels.read_state,
            dim=(self.num_envs, max(len(self.layout.joint_names), len(self.layout.body_names)) + 1),
            inputs=[
                mask,
                0.0 if elapsed is None else 1.0 / elapsed,
                state.joint_q,
                state.joint_qd,
                state.body_q,
                state.body_qd,
                model.body_com,
                model.gravity,
            ],
            outputs=[self._arrays, self._places, written],
            device=self.device,
        )

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

    def _find_places(self, model: newton.Model) -> Any:
        places, layout = kernels.Places(), self.layout
        places.joint_coord = wp.array(layout.joint_coord, dtype=wp.int32, device=self.device)
        places.joint_dof = wp.array(layout.joint_dof, dtype=wp.int32, device=self.device)
        places.body = wp.array(layout.body, dtype=wp.int32, device=self.device)
        places.leader = wp.array(self._followers.leaders, dtype=wp.int32, device=self.device)
        places.follows = wp.array(self._followers.coefficients, dtype=wp.float32, device=self.device)
        places.root_coord = layout.root_coord
        places.root_dof = layout.root_dof
        places.floating = layout.floating
        places.coords_per_world = model.joint_coord_count // self.num_envs
        places.dofs_per_world = model.joint_dof_count // self.num_envs
        places.bodies_per_world = model.body_count // self.num_envs
        return places
