"""Entities whose root, joints and bodies lie in Newton's arrays: the exchange of their buffers with these."""

from __future__ import annotations

from typing import Any

import newton
import warp as wp

from lab_newton.robot_files.followers import Followers
from lab_newton.state import entity_kernels as kernels
from lab_newton.state.entity import CfgT, DataT, NewtonEntity
from lab_warp.views import fill_struct


class NewtonBodies(NewtonEntity[CfgT, DataT]):
    """Bodies that joints hold together, or a single one without joints, in all worlds.

    A subclass says what they are (:meth:`_add_to`, :meth:`_fill_defaults`).
    """

    def bind(self, model: newton.Model, env_origins: wp.array, state: newton.State) -> None:
        self._joint_dim = (self.num_envs, max(len(self.layout.joint_names), 1))
        self._arrays = fill_struct(kernels.ArticulationArrays, self.data)
        self._followers = Followers.of(self.name, self.imported, self.layout.joint_names)
        self._places = self._find_places(model)
        super().bind(model, env_origins, state)

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
