"""One articulation: its buffers, their Warp views, and their exchange with Newton's arrays."""

# Newton declares its arrays as optional, and Warp's structs are no classes to pyright.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import newton
import warp as wp

from lab_core.scene import ArticulationCfg, ArticulationData, fill_defaults
from lab_newton.model import EntityLayout
from lab_newton.state import entity_kernels as kernels
from lab_newton.state.properties import Properties
from lab_warp.views import fill_struct, share_entity


class Entity:
    """An articulation in all worlds.

    Its :class:`ArticulationData` is allocated once. :meth:`bind` connects it to a model and may be called again with a
    new one: the buffers stay where they are.
    """

    def __init__(self, name: str, cfg: ArticulationCfg, layout: EntityLayout, num_envs: int, device: wp.Device) -> None:
        self.name = name
        self.cfg = cfg
        self.layout = layout
        self.num_envs = num_envs
        self.device = device
        self.data = ArticulationData(
            num_envs, layout.joint_names, layout.body_names, not layout.floating, wp.device_to_torch(device)
        )
        share_entity(self.data)
        self._joint_dim = (num_envs, max(len(layout.joint_names), 1))
        self._arrays = fill_struct(kernels.ArticulationArrays, self.data)
        self._places = kernels.Places()

    def bind(self, model: newton.Model, env_origins: wp.array, state: newton.State) -> None:
        """Reads the model's properties into the buffers and fills every world with its default state at its origin."""
        data = self.data
        self._places = self._find_places(model)
        self.properties = Properties(self.name, data, self.layout, model)
        self.properties.read()
        fill_defaults(self.name, self.cfg, data)
        self.restore_default(wp.ones(self.num_envs, dtype=wp.bool, device=self.device), env_origins, state)

    def write_state(self, mask: wp.array, state: newton.State) -> None:
        """Hands the authored state of the worlds of ``mask`` (N,) to Newton's joint arrays."""
        wp.launch(
            kernels.write_state,
            dim=self._joint_dim,
            inputs=[mask, self._arrays, self._places],
            outputs=[state.joint_q, state.joint_qd],
            device=self.device,
        )

    def restore_default(self, mask: wp.array, env_origins: wp.array, state: newton.State) -> None:
        """Puts the worlds of ``mask`` to the default state, with cleared targets and efforts, here and in Newton."""
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
        """Fills state and derived state of the worlds of ``mask``; without it of all, and clears ``written``.

        Args:
            elapsed: Time [s] over which ``joint_acc`` is the change of velocity; None leaves ``joint_acc`` alone.
        """
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
        """Hands the joint targets to the arrays that Newton's actuators read; marks worlds with a bad target."""
        if self.layout.joint_names:
            wp.launch(
                kernels.write_targets,
                dim=self._joint_dim,
                inputs=[self._arrays, self._places],
                outputs=[control.joint_target_q, control.joint_target_qd, control.joint_act, non_finite],
                device=self.device,
            )

    def read_effort(self, control: newton.Control) -> None:
        """Copies the effort that the solver is about to receive."""
        if self.layout.joint_names:
            wp.launch(
                kernels.read_effort,
                dim=self._joint_dim,
                inputs=[control.joint_f],
                outputs=[self._arrays, self._places],
                device=self.device,
            )

    def _find_places(self, model: newton.Model) -> kernels.Places:
        places, layout = kernels.Places(), self.layout
        places.joint_coord = wp.array(layout.joint_coord, dtype=wp.int32, device=self.device)
        places.joint_dof = wp.array(layout.joint_dof, dtype=wp.int32, device=self.device)
        places.body = wp.array(layout.body, dtype=wp.int32, device=self.device)
        places.root_coord = layout.root_coord
        places.root_dof = layout.root_dof
        places.floating = layout.floating
        places.coords_per_world = model.joint_coord_count // self.num_envs
        places.dofs_per_world = model.joint_dof_count // self.num_envs
        places.bodies_per_world = model.body_count // self.num_envs
        return places
