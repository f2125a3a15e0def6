"""Kernels of rewards without contacts, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import at_least_zero, square, wrap_to_pi

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def where(flags: wp.array[wp.bool], value: wp.float32, other: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.where(flags[env], value, other)


@wp.kernel
def sum_squares(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += square(values[env, ids[i]])
    out[env] = total


@wp.kernel
def sum_magnitudes(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(values[env, ids[i]])
    out[env] = total


@wp.kernel
def sum_distances(
    values: wp.array2d[wp.float32],
    references: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(values[env, ids[i]] - references[env, ids[i]])
    out[env] = total


@wp.kernel
def sum_excesses(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        low_high = limits[env, ids[i]]
        total += at_least_zero(low_high[0] - position) + at_least_zero(position - low_high[1])
    out[env] = total


@wp.kernel
def sum_squared_angles(
    positions: wp.array2d[wp.float32], target: wp.float32, ids: wp.array[wp.int32], out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += square(wrap_to_pi(positions[env, ids[i]]) - target)
    out[env] = total


@wp.kernel
def action_squared(action: wp.array2d[wp.float32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for column in range(action.shape[1]):
        total += square(action[env, column])
    out[env] = total


@wp.kernel
def action_rate_squared(action: wp.array2d[wp.float32], prev_action: wp.array2d[wp.float32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for column in range(action.shape[1]):
        total += square(action[env, column] - prev_action[env, column])
    out[env] = total


@wp.kernel
def squared_z(vectors: wp.array[wp.vec3], out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = square(vectors[env][2])


@wp.kernel
def squared_xy(vectors: wp.array[wp.vec3], out: wp.array[wp.float32]):
    env = wp.tid()
    vector = vectors[env]
    out[env] = square(vector[0]) + square(vector[1])


@wp.kernel
def height_error(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    hits: wp.array2d[wp.vec3],
    target: wp.float32,
    out: wp.array[wp.float32],
):
    """``hits`` is empty without a ray caster."""
    env = wp.tid()
    if hits.shape[1] == 0:
        out[env] = square(poses[env][2] - origins[env][2] - target)
        return
    total = wp.float32(0.0)
    count = wp.int32(0)
    for ray in range(hits.shape[1]):
        height = hits[env, ray][2]
        if wp.isfinite(height):
            total += height
            count += 1
    if count > 0:
        out[env] = square(poses[env][2] - total / wp.float32(count) - target)
    else:
        out[env] = 0.0


@wp.kernel
def track_xy(
    command: wp.array2d[wp.float32], velocities: wp.array[wp.vec3], variance: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    velocity = velocities[env]
    error = square(command[env, 0] - velocity[0]) + square(command[env, 1] - velocity[1])
    out[env] = wp.exp(-error / variance)


@wp.kernel
def track_z(
    command: wp.array2d[wp.float32], velocities: wp.array[wp.vec3], variance: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    out[env] = wp.exp(-square(command[env, 2] - velocities[env][2]) / variance)
