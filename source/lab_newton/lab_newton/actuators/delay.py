"""Joint targets that reach the actuators some physics steps late."""

from __future__ import annotations

from collections.abc import Sequence

import newton
import torch
import warp as wp

from lab_newton.actuators import delay_kernels as kernels
from lab_newton.mask_kernels import clear_flags
from lab_newton.state import NewtonEntity


class TargetDelay:
    """Keeps the latest targets of all joints; each joint sees those of its group's lag.

    Position, velocity and effort targets share one line. A reset fills it with the targets that hold then, and
    :meth:`refresh` with those that were written after it, as a given state brings them along.

    Args:
        groups: For each delayed group its joints, and its shortest and longest lag [physics steps].
        entity: Whose targets.
        model: The model that it is part of.
    """

    def __init__(self, groups: Sequence[tuple[list[int], int, int]], entity: NewtonEntity, model: newton.Model) -> None:
        data, layout, worlds = entity.data.warp, entity.layout, entity.num_envs
        joints = len(layout.joint_names)
        group_of_joint = [-1] * joints
        for i, (members, _, _) in enumerate(groups):
            for joint in members:
                group_of_joint[joint] = i
        with wp.ScopedDevice(entity.device):
            self._group = wp.array(group_of_joint, dtype=wp.int32)
            self._shortest = wp.array([low for _, low, _ in groups], dtype=wp.int32)
            self._longest = wp.array([high for _, _, high in groups], dtype=wp.int32)
            self._coords = wp.array(layout.joint_coord, dtype=wp.int32)
            self._dofs = wp.array(layout.joint_dof, dtype=wp.int32)
            self.lag = wp.zeros((worlds, len(groups)), dtype=wp.int32)
            self._line = wp.zeros((worlds, max(high for _, _, high in groups) + 1, joints), dtype=wp.vec3)
            self._cursor = wp.zeros((worlds, joints), dtype=wp.int32)
            self._is_fresh = wp.zeros(worlds, dtype=wp.bool)
            """Worlds that were reset and have neither been refreshed nor made a step since."""
        self._targets = [data.joint_pos_target, data.joint_vel_target, data.joint_effort_target]
        self._coords_per_world = model.joint_coord_count // worlds
        self._dofs_per_world = model.joint_dof_count // worlds

    def step(self, control: newton.Control) -> None:
        """Takes the targets in and hands the late ones to ``control``."""
        wp.launch(
            kernels.step_line,
            dim=self._cursor.shape,
            inputs=[*self._targets, self._group, self.lag, self._coords, self._dofs]
            + [self._coords_per_world, self._dofs_per_world],
            outputs=[self._line, self._cursor, self._is_fresh]
            + [control.joint_target_q, control.joint_target_qd, control.joint_act],
            device=self._line.device,
        )

    def refresh(self) -> None:
        """Fills the lines of worlds that were just reset with their present targets, once."""
        self._fill(self._is_fresh)
        wp.launch(clear_flags, dim=self._is_fresh.shape, outputs=[self._is_fresh], device=self._is_fresh.device)

    def reset(self, mask: wp.array, random_state: wp.array) -> None:
        """Fills the lines of the worlds of ``mask`` (N,) with their present targets and draws their lags.

        Args:
            mask: (N,) bool.
            random_state: (N,) uint32, a random stream per world.
        """
        self._fill(mask)
        wp.launch(
            kernels.draw_lags,
            dim=self.lag.shape[0],
            inputs=[mask, self._shortest, self._longest],
            outputs=[random_state, self.lag, self._is_fresh],
            device=self._line.device,
        )

    def memory(self) -> dict[str, torch.Tensor]:
        """The line and the lags, in rows of worlds."""
        arrays = {"lag": self.lag, "targets": self._line, "cursor": self._cursor, "is_fresh": self._is_fresh}
        return {name: wp.to_torch(array) for name, array in arrays.items()}

    def _fill(self, mask: wp.array) -> None:
        wp.launch(
            kernels.fill_line,
            dim=self._cursor.shape,
            inputs=[mask, *self._targets],
            outputs=[self._line],
            device=self._line.device,
        )
