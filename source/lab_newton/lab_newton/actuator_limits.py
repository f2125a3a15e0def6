"""Effort limits that depend on the position of the joint."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Sequence

import warp as wp
from newton.actuators import ClampingBase

wp.set_module_options({"enable_backward": False})

Table = Sequence[tuple[float, float]]
"""(position, effort limit) by rising position."""


class ClampingByPosition(ClampingBase):
    """Clips the efforts of some joints to tables of their own; Newton's clamping has one table for all its joints."""

    def __init__(self, tables: Sequence[tuple[list[int], Table]], num_joints: int, device: wp.Device) -> None:
        points = [point for _, table in tables for point in table]
        first, count = [0] * num_joints, [0] * num_joints
        start = 0
        for joints, table in tables:
            for joint in joints:
                first[joint], count[joint] = start, len(table)
            start += len(table)
        with wp.ScopedDevice(device):
            self._points = wp.array(points, dtype=wp.vec2)
            self._first = wp.array(first, dtype=wp.int32)
            self._count = wp.array(count, dtype=wp.int32)

    def modify_forces(
        self,
        src_forces: wp.array,
        dst_forces: wp.array,
        positions: wp.array,
        velocities: wp.array,
        pos_indices: wp.array,
        vel_indices: wp.array,
        device: wp.Device | None = None,
    ) -> None:
        wp.launch(
            _clip_by_position,
            dim=src_forces.shape,
            inputs=[positions, pos_indices, self._points, self._first, self._count, src_forces],
            outputs=[dst_forces],
            device=device,
        )


@wp.kernel
def _clip_by_position(
    positions: wp.array[wp.float32],
    pos_indices: wp.array[wp.uint32],
    points: wp.array[wp.vec2],
    first: wp.array[wp.int32],
    count: wp.array[wp.int32],
    src: wp.array[wp.float32],
    dst: wp.array[wp.float32],
):
    """Launch over N * J, world by world."""
    slot = wp.tid()
    joint = slot % first.shape[0]
    effort = src[slot]
    if count[joint] > 0:
        position = positions[pos_indices[slot]]
        begin = first[joint]
        limit = points[begin][1]
        for i in range(begin + 1, begin + count[joint]):
            a = points[i - 1]
            b = points[i]
            if position > a[0]:
                share = wp.min((position - a[0]) / (b[0] - a[0]), 1.0)
                limit = a[1] + share * (b[1] - a[1])
        effort = wp.clamp(effort, -limit, limit)
    dst[slot] = effort
