"""Kernels of the contact terms, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import at_least_zero, greater, norm2

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func
def peak_contact_force(history: wp.array3d[wp.vec3], env: wp.int32, body: wp.int32) -> wp.float32:
    """Twin of :func:`lab_core.mdp.peak_contact_force` for one body."""
    peak = wp.length(history[env, 0, body])
    for age in range(1, history.shape[1]):
        peak = greater(peak, wp.length(history[env, age, body]))
    return peak


@wp.kernel
def air_time(
    contact_steps: wp.array2d[wp.int32],
    last_air_time: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    new_steps: wp.int32,
    threshold: wp.float32,
    command: wp.array2d[wp.float32],
    out: wp.array[wp.float32],
):
    """A body has landed if its contact is at most ``new_steps`` old."""
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        steps = contact_steps[env, ids[i]]
        if steps > 0 and steps <= new_steps:
            total += last_air_time[env, ids[i]] - threshold
    if norm2(command[env, 0], command[env, 1]) > 0.1:
        out[env] = total
    else:
        out[env] = 0.0


@wp.kernel
def slide(
    history: wp.array3d[wp.vec3],
    ids: wp.array[wp.int32],
    velocities: wp.array2d[wp.spatial_vector],
    velocity_ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > 1.0:
            velocity = velocities[env, velocity_ids[i]]
            total += norm2(velocity[0], velocity[1])
    out[env] = total


@wp.kernel
def count_touched(
    history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > threshold:
            total += 1.0
    out[env] = total


@wp.kernel
def sum_excesses(
    history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += at_least_zero(peak_contact_force(history, env, ids[i]) - threshold)
    out[env] = total


@wp.kernel
def is_touched(history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    touched = wp.bool(False)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > threshold:
            touched = wp.bool(True)
    out[env] = touched


@wp.func
def recently_touched(history: wp.array3d[wp.bool], env: wp.int32, body: wp.int32) -> wp.bool:
    """Twin of :func:`lab_core.mdp.recently_touched` for one body."""
    touched = wp.bool(False)
    for age in range(history.shape[1]):
        touched = touched or history[env, age, body]
    return touched


@wp.kernel
def count_touches(history: wp.array3d[wp.bool], ids: wp.array[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        if recently_touched(history, env, ids[i]):
            total += 1.0
    out[env] = total


@wp.kernel
def any_touch(history: wp.array3d[wp.bool], ids: wp.array[wp.int32], out: wp.array[wp.bool]):
    env = wp.tid()
    touched = wp.bool(False)
    for i in range(ids.shape[0]):
        touched = touched or recently_touched(history, env, ids[i])
    out[env] = touched
