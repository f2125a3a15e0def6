"""Effort limits that depend on the position of the joint."""

from __future__ import annotations

from collections.abc import Sequence

import warp as wp
from newton.actuators import ClampingBase

from lab_newton.actuators import limit_kernels as kernels

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
            kernels.clip_by_position,
            dim=src_forces.shape,
            inputs=[positions, pos_indices, self._points, self._first, self._count, src_forces],
            outputs=[dst_forces],
            device=device,
        )
