"""Mathematics for kernels of terms, with the formulas and the handling of NaN of :mod:`torch`. Quaternions are xyzw.

Modules with kernels of terms switch contraction off (``fuse_fp``): torch rounds every product before it adds it, and
so do twins.
"""

from __future__ import annotations

import math

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

TWO_PI = wp.constant(2.0 * math.pi)
HALF_PI = wp.constant(0.5 * math.pi)


@wp.func
def square(x: wp.float32) -> wp.float32:
    return x * x


@wp.func
def at_least_zero(x: wp.float32) -> wp.float32:
    """``x.clamp(min=0)``; NaN passes through, unlike ``wp.max``."""
    if x < 0.0:
        return 0.0
    return x


@wp.func
def greater(a: wp.float32, b: wp.float32) -> wp.float32:
    """``torch.maximum``; NaN passes through, unlike ``wp.max``."""
    if wp.isnan(a) or a >= b:
        return a
    return b


@wp.func
def wrap_to_pi(angle: wp.float32) -> wp.float32:
    """Twin of :func:`lab_core.math.wrap_to_pi`."""
    turns = wp.ceil(wp.abs(angle) / TWO_PI - 0.5)
    return angle - TWO_PI * turns * wp.sign(angle)


@wp.func
def norm2(x: wp.float32, y: wp.float32) -> wp.float32:
    return wp.sqrt(x * x + y * y)


@wp.func
def clamp(x: wp.float32, low: wp.float32, high: wp.float32) -> wp.float32:
    """``torch.clamp``: NaN passes through, and ``high`` wins where ``low`` is above it."""
    if x < low:
        return wp.min(low, high)
    if x > high:
        return high
    return x


@wp.func
def multiply_add(a: wp.float32, b: wp.float32, c: wp.float32) -> wp.float32:
    """``a * b + c`` as ``torch.addcmul`` computes it: rounded once. The product is exact in float64."""
    return wp.float32(wp.float64(a) * wp.float64(b) + wp.float64(c))


@wp.func
def normalized_position(position: wp.float32, limits: wp.vec2) -> wp.float32:
    """Of a joint: -1 at the lower and 1 at the upper limit."""
    return 2.0 * (position - 0.5 * (limits[0] + limits[1])) / (limits[1] - limits[0])


# Rotations, as in :mod:`lab_core.math` --------------------------------------------------------------------------------


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


@wp.func
def quat_conjugate(quat: wp.quat) -> wp.quat:
    """Twin of :func:`lab_core.math.quat_conjugate`."""
    return wp.quat(-quat[0], -quat[1], -quat[2], quat[3])


@wp.func
def quat_error_magnitude(q1: wp.quat, q2: wp.quat) -> wp.float32:
    """Twin of :func:`lab_core.math.quat_error_magnitude` [rad]."""
    difference = quat_mul(q1, quat_conjugate(q2))
    sine = wp.length(wp.vec3(difference[0], difference[1], difference[2]))
    return 2.0 * wp.atan2(sine, wp.abs(difference[3]))


@wp.func
def quat_angle_squared(q1: wp.quat, q2: wp.quat) -> wp.float32:
    """Twin of :func:`lab_core.math.quat_angle_squared` [rad^2]."""
    difference = quat_mul(q1, quat_conjugate(q2))
    axis = wp.vec3(difference[0], difference[1], difference[2])
    w = wp.abs(difference[3])
    squared_sine = wp.dot(axis, axis)
    scale = 2.0 / w * (1.0 - squared_sine / (3.0 * w * w))
    if squared_sine >= 1.0e-10:
        sine = wp.sqrt(squared_sine)
        scale = 2.0 * wp.atan2(sine, w) / sine
    return squared_sine * scale * scale


@wp.func
def yaw_quat(quat: wp.quat) -> wp.quat:
    """Twin of :func:`lab_core.math.yaw_quat`."""
    forward_x = 1.0 - 2.0 * (quat[1] * quat[1] + quat[2] * quat[2])
    forward_y = 2.0 * (quat[0] * quat[1] + quat[2] * quat[3])
    half = 0.5 * wp.atan2(forward_y, forward_x)
    return wp.quat(0.0, 0.0, wp.sin(half), wp.cos(half))
