"""Kernels of the cart-pole as a class, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import square, wrap_to_pi

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def push_cart(actions: wp.array2d[wp.float32], scale: wp.float32, cart: wp.int32, efforts: wp.array2d[wp.float32]):
    env = wp.tid()
    efforts[env, cart] = actions[env, 0] * scale


@wp.kernel
def observe(
    positions: wp.array2d[wp.float32],
    default_pos: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    joints = positions.shape[1]
    for joint in range(joints):
        out[env, joint] = positions[env, joint] - default_pos[env, joint]
        out[env, joints + joint] = velocities[env, joint] - default_vel[env, joint]


@wp.kernel
def reward(
    positions: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    cart: wp.int32,
    pole: wp.int32,
    terminated: wp.array[wp.bool],
    dt: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    ended = wp.float32(terminated[env])
    rate = (
        (1.0 - ended)
        - 2.0 * ended
        - square(wrap_to_pi(positions[env, pole]))
        - 0.01 * wp.abs(velocities[env, cart])
        - 0.005 * wp.abs(velocities[env, pole])
    )
    out[env] = rate * dt


@wp.kernel
def end(
    positions: wp.array2d[wp.float32],
    cart: wp.int32,
    max_cart_pos: wp.float32,
    steps: wp.array[wp.int64],
    longest: wp.int64,
    terminated: wp.array[wp.bool],
    time_outs: wp.array[wp.bool],
):
    env = wp.tid()
    terminated[env] = wp.abs(positions[env, cart]) > max_cart_pos
    time_outs[env] = steps[env] >= longest


@wp.kernel
def note_survival(time_outs: wp.array[wp.bool], survived: wp.array2d[wp.float32]):
    env = wp.tid()
    survived[env, 0] = wp.float32(time_outs[env])
