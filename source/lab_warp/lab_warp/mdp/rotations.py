"""Rotations for kernels of terms, with the formulas of :mod:`lab_core.math`. Quaternions are xyzw."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

import math

import warp as wp

from lab_warp.mdp.functions import norm2, wrap_to_pi

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

HALF_PI = wp.constant(0.5 * math.pi)


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


@wp.func
def euler_xyz_from_quat(quat: wp.quat) -> wp.vec3:
    """Twin of :func:`lab_core.math.euler_xyz_from_quat`: roll, pitch and yaw in rad."""
    half_difference = wp.atan2(quat[0] - quat[2], quat[3] + quat[1])
    half_sum = wp.atan2(quat[0] + quat[2], quat[3] - quat[1])
    plus = norm2(quat[0] - quat[2], quat[3] + quat[1])
    minus = norm2(quat[0] + quat[2], quat[3] - quat[1])
    pitch = 2.0 * wp.atan2(plus, minus) - HALF_PI
    return wp.vec3(wrap_to_pi(half_sum + half_difference), pitch, wrap_to_pi(half_sum - half_difference))


@wp.func
def quat_apply(quat: wp.quat, vector: wp.vec3) -> wp.vec3:
    """Twin of :func:`lab_core.math.quat_apply`."""
    axis = wp.vec3(quat[0], quat[1], quat[2])
    twice_cross = 2.0 * wp.cross(axis, vector)
    return vector + quat[3] * twice_cross + wp.cross(axis, twice_cross)
