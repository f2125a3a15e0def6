"""Joint targets that reach the actuators some physics steps late."""

# Kernels are Warp's language; read as Python they have wrong types. Newton declares its arrays as optional.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence

import newton
import torch
import warp as wp

from lab_newton.entity import Entity
from lab_newton.kernels import clear_flags

wp.set_module_options({"enable_backward": False})


class TargetDelay:
    """Keeps the latest targets of all joints; each joint sees those of its group's lag.

    Position, velocity and effort targets share one line. A reset fills it with the targets that hold then, and
    :meth:`refresh` with those that were written after it, as a given state brings them along.

    Args:
        groups: For each delayed group its joints, and its shortest and longest lag [physics steps].
        entity: Whose targets.
        model: The model that it is part of.
    """

    def __init__(self, groups: Sequence[tuple[list[int], int, int]], entity: Entity, model: newton.Model) -> None:
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
            _step_line,
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
            _draw_lags,
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
            _fill_line,
            dim=self._cursor.shape,
            inputs=[mask, *self._targets],
            outputs=[self._line],
            device=self._line.device,
        )


@wp.kernel
def _step_line(
    position: wp.array2d[wp.float32],
    velocity: wp.array2d[wp.float32],
    effort: wp.array2d[wp.float32],
    group: wp.array[wp.int32],
    lag: wp.array2d[wp.int32],
    coords: wp.array[wp.int32],
    dofs: wp.array[wp.int32],
    coords_per_world: wp.int32,
    dofs_per_world: wp.int32,
    line: wp.array3d[wp.vec3],
    cursor: wp.array2d[wp.int32],
    is_fresh: wp.array[wp.bool],
    target_q: wp.array[wp.float32],
    target_qd: wp.array[wp.float32],
    feed_forward: wp.array[wp.float32],
):
    """Launch over (N, J)."""
    world, joint = wp.tid()
    size = line.shape[1]
    if joint == 0:
        is_fresh[world] = False
    place = cursor[world, joint]
    line[world, place, joint] = wp.vec3(position[world, joint], velocity[world, joint], effort[world, joint])
    cursor[world, joint] = (place + 1) % size
    if group[joint] >= 0:
        place = (place - lag[world, group[joint]] + size) % size
    late = line[world, place, joint]
    dof = world * dofs_per_world + dofs[joint]
    target_q[world * coords_per_world + coords[joint]] = late[0]
    target_qd[dof] = late[1]
    feed_forward[dof] = late[2]


@wp.kernel
def _fill_line(
    mask: wp.array[wp.bool],
    position: wp.array2d[wp.float32],
    velocity: wp.array2d[wp.float32],
    effort: wp.array2d[wp.float32],
    line: wp.array3d[wp.vec3],
):
    """Launch over (N, J)."""
    world, joint = wp.tid()
    if not mask[world]:
        return
    for place in range(line.shape[1]):
        line[world, place, joint] = wp.vec3(position[world, joint], velocity[world, joint], effort[world, joint])


@wp.kernel
def _draw_lags(
    mask: wp.array[wp.bool],
    shortest: wp.array[wp.int32],
    longest: wp.array[wp.int32],
    random_state: wp.array[wp.uint32],
    lag: wp.array2d[wp.int32],
    is_fresh: wp.array[wp.bool],
):
    """Launch over N."""
    world = wp.tid()
    if not mask[world]:
        return
    rng = random_state[world]
    for i in range(shortest.shape[0]):
        lag[world, i] = wp.randi(rng, shortest[i], longest[i] + 1)
    random_state[world] = rng
    is_fresh[world] = True
