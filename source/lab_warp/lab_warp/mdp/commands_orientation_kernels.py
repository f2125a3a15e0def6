"""Kernels of goals of an orientation, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import quat_error_magnitude
from lab_warp.mdp.draws_kernels import any_rotation
from lab_warp.timers_kernels import ran_out

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.struct
class OrientationGoals:
    """Buffers of :class:`OrientationGoalCommandWarp`."""

    # Of the configuration.
    time_range: wp.array[wp.vec2]
    tolerance: wp.array[wp.float32]
    pos_offset: wp.array[wp.vec3]
    # State.
    command: wp.array[wp.transform]
    time_left: wp.array[wp.float32]
    command_counter: wp.array[wp.int64]
    is_given: wp.array[wp.bool]
    orientation_error: wp.array[wp.float32]
    position_error: wp.array[wp.float32]
    consecutive_success: wp.array[wp.float32]
    success_rate: wp.array[wp.float32]


@wp.kernel
def compute(
    dt: wp.float32,
    term: OrientationGoals,
    root_pose: wp.array[wp.transform],
    default_pose: wp.array[wp.transform],
    rng_state: wp.array[wp.uint32],
):
    """Counts goals that were reached, and draws the next ones. Launch over N."""
    env = wp.tid()
    given = term.is_given[env]
    reached = angle(term, env, root_pose) <= term.tolerance[0] and not given
    if reached:
        term.consecutive_success[env] = term.consecutive_success[env] + 1.0
    term.success_rate[env] = term.consecutive_success[env] / (term.consecutive_success[env] + 1.0)
    term.time_left[env] = term.time_left[env] - dt
    if reached or given or ran_out(term.time_left[env], dt):
        renew(term, env, default_pose, rng_state)


@wp.kernel
def refresh(mask: wp.array[wp.bool], term: OrientationGoals, root_pose: wp.array[wp.transform]):
    """Sees which goals are reached before anything has moved. Launch over N."""
    env = wp.tid()
    if mask[env]:
        term.is_given[env] = angle(term, env, root_pose) <= term.tolerance[0]


@wp.kernel
def reset(
    mask: wp.array[wp.bool],
    term: OrientationGoals,
    default_pose: wp.array[wp.transform],
    rng_state: wp.array[wp.uint32],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    term.orientation_error[env] = 0.0
    term.position_error[env] = 0.0
    term.consecutive_success[env] = 0.0
    term.success_rate[env] = 0.0
    term.command_counter[env] = wp.int64(0)
    renew(term, env, default_pose, rng_state)


@wp.kernel
def update_metrics(term: OrientationGoals, root_pose: wp.array[wp.transform], env_origins: wp.array[wp.vec3]):
    """Launch over N."""
    env = wp.tid()
    term.orientation_error[env] = angle(term, env, root_pose)
    position = wp.transform_get_translation(root_pose[env]) - env_origins[env]
    term.position_error[env] = wp.length(position - wp.transform_get_translation(term.command[env]))


@wp.func
def angle(term: OrientationGoals, env: wp.int32, root_pose: wp.array[wp.transform]) -> wp.float32:
    """Between the entity and its goal [rad]."""
    return quat_error_magnitude(wp.transform_get_rotation(root_pose[env]), wp.transform_get_rotation(term.command[env]))


@wp.func
def renew(term: OrientationGoals, env: wp.int32, default_pose: wp.array[wp.transform], rng_state: wp.array[wp.uint32]):
    """Draws a goal and for how long it holds."""
    rng = rng_state[env]
    term.time_left[env] = wp.randf(rng, term.time_range[0][0], term.time_range[0][1])
    orientation, rng = any_rotation(rng)
    rng_state[env] = rng
    position = wp.transform_get_translation(default_pose[env]) + term.pos_offset[0]
    term.command[env] = wp.transform(position, orientation)
    term.is_given[env] = False
    term.command_counter[env] = term.command_counter[env] + wp.int64(1)
