"""Rotations for kernels of terms, with the formulas of :mod:`lab_core.math`. Quaternions are xyzw."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false
# pyright: reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func
def quat_mul(q1: wp.quat, q2: wp.quat) -> wp.quat:
    """Twin of :func:`lab_core.math.quat_mul`."""
    return wp.quat(
        q1[3] * q2[0] + q1[0] * q2[3] + q1[1] * q2[2] - q1[2] * q2[1],
        q1[3] * q2[1] - q1[0] * q2[2] + q1[1] * q2[3] + q1[2] * q2[0],
        q1[3] * q2[2] + q1[0] * q2[1] - q1[1] * q2[0] + q1[2] * q2[3],
        q1[3] * q2[3] - q1[0] * q2[0] - q1[1] * q2[1] - q1[2] * q2[2],
    )


@wp.func
def quat_from_euler_xyz(roll: wp.float32, pitch: wp.float32, yaw: wp.float32) -> wp.quat:
    """Twin of :func:`lab_core.math.quat_from_euler_xyz`; angles in rad."""
    cos_r = wp.cos(0.5 * roll)
    sin_r = wp.sin(0.5 * roll)
    cos_p = wp.cos(0.5 * pitch)
    sin_p = wp.sin(0.5 * pitch)
    cos_y = wp.cos(0.5 * yaw)
    sin_y = wp.sin(0.5 * yaw)
    return wp.quat(
        sin_r * cos_p * cos_y - cos_r * sin_p * sin_y,
        cos_r * sin_p * cos_y + sin_r * cos_p * sin_y,
        cos_r * cos_p * sin_y - sin_r * sin_p * cos_y,
        cos_r * cos_p * cos_y + sin_r * sin_p * sin_y,
    )
