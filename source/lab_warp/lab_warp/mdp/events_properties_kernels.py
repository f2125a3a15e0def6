"""Kernels of the events that randomise properties, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_core.mdp import MIN_MASS_SHARE
from lab_warp.math_kernels import at_least_zero, greater
from lab_warp.mdp.draws_kernels import GAUSSIAN, Draw, drawn, uniform

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_MIN_MASS_SHARE = wp.constant(MIN_MASS_SHARE)


@wp.kernel
def draw_joints(
    mask: wp.array[wp.bool],
    joints: wp.array[wp.int32],
    how: Draw,
    as_built: wp.array2d[wp.float32],
    rng_state: wp.array[wp.uint32],
    values: wp.array2d[wp.float32],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(joints.shape[0]):
        joint = joints[k]
        value, rng = drawn(how, as_built[env, joint], rng)
        values[env, joint] = at_least_zero(value)
    rng_state[env] = rng


@wp.kernel
def draw_masses(
    mask: wp.array[wp.bool],
    bodies: wp.array[wp.int32],
    how: Draw,
    recompute_inertia: wp.bool,
    default_mass: wp.array2d[wp.float32],
    default_inertia: wp.array2d[wp.mat33],
    rng_state: wp.array[wp.uint32],
    mass: wp.array2d[wp.float32],
    inertia: wp.array2d[wp.mat33],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(bodies.shape[0]):
        body = bodies[k]
        default = default_mass[env, body]
        value, rng = drawn(how, default, rng)
        if how.distribution == GAUSSIAN:
            value = greater(value, _MIN_MASS_SHARE * default)
        mass[env, body] = value
        if recompute_inertia:
            ratio = wp.float32(1.0)
            if default > 0.0:
                ratio = value / default
            inertia[env, body] = default_inertia[env, body] * ratio
    rng_state[env] = rng


@wp.kernel
def draw_coms(
    mask: wp.array[wp.bool],
    bodies: wp.array[wp.int32],
    low: wp.vec3,
    high: wp.vec3,
    as_built: wp.array2d[wp.vec3],
    rng_state: wp.array[wp.uint32],
    com: wp.array2d[wp.vec3],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    offset, rng = uniform(low, high, rng_state[env])
    rng_state[env] = rng
    for k in range(bodies.shape[0]):
        com[env, bodies[k]] = as_built[env, bodies[k]] + offset


@wp.kernel
def draw_frictions(
    mask: wp.array[wp.bool],
    bodies: wp.array[wp.int32],
    friction_range: wp.vec2,
    per_body: wp.bool,
    rng_state: wp.array[wp.uint32],
    friction: wp.array2d[wp.float32],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    value = wp.float32(0.0)
    for k in range(bodies.shape[0]):
        if per_body or k == 0:
            value = wp.randf(rng, friction_range[0], friction_range[1])
        friction[env, bodies[k]] = value
    rng_state[env] = rng


@wp.kernel
def draw_wrenches(
    mask: wp.array[wp.bool],
    bodies: wp.array[wp.int32],
    low: wp.spatial_vector,
    high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    wrench: wp.array2d[wp.spatial_vector],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(bodies.shape[0]):
        force_torque, rng = uniform(low, high, rng)
        wrench[env, bodies[k]] = force_torque
    rng_state[env] = rng
