"""Kernels of the velocity command, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import clamp, norm2, wrap_to_pi
from lab_warp.timers_kernels import ran_out

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.struct
class VelocityCommands:
    """Buffers of :class:`UniformVelocityCommandWarp`."""

    # Of the configuration.
    ranges: wp.array[wp.vec2]
    """Time until the next command, v_x, v_y, w_z, heading."""
    heading_command: wp.array[wp.bool]
    heading_control_stiffness: wp.array[wp.float32]
    rel_heading_envs: wp.array[wp.float32]
    rel_standing_envs: wp.array[wp.float32]
    # State.
    command: wp.array2d[wp.float32]
    time_left: wp.array[wp.float32]
    command_counter: wp.array[wp.int64]
    heading_target: wp.array[wp.float32]
    is_heading_env: wp.array[wp.bool]
    is_standing_env: wp.array[wp.bool]
    start_pos_w: wp.array[wp.vec2]
    asked_displacement_w: wp.array[wp.vec2]
    metric_steps: wp.array[wp.float32]
    error_vel_xy: wp.array[wp.float32]
    error_vel_yaw: wp.array[wp.float32]
    # A command from outside: what is followed is its row, what is drawn goes on beside it.
    is_fixed: wp.array[wp.bool]
    fixed_row: wp.array[wp.float32]
    drawn: wp.array2d[wp.float32]


_TIME, _HEADING = wp.constant(0), wp.constant(4)
NUM_RANGES = 5


@wp.kernel
def compute(dt: wp.float32, term: VelocityCommands, heading_w: wp.array[wp.float32], rng_state: wp.array[wp.uint32]):
    """Timers, new commands where the time is up, and their adaptation to the state. Launch over N."""
    env = wp.tid()
    term.time_left[env] = term.time_left[env] - dt
    command = followed_or_drawn(term, env)
    if ran_out(term.time_left[env], dt):
        command = renew(term, env, rng_state)
    write(term, env, adapted(term, env, command, heading_w))


@wp.kernel
def refresh(mask: wp.array[wp.bool], term: VelocityCommands, heading_w: wp.array[wp.float32]):
    """Adapts commands to the state. Launch over N."""
    env = wp.tid()
    if mask[env]:
        write(term, env, adapted(term, env, followed_or_drawn(term, env), heading_w))


@wp.kernel
def reset(
    mask: wp.array[wp.bool],
    term: VelocityCommands,
    root_pose: wp.array[wp.transform],
    rng_state: wp.array[wp.uint32],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    term.error_vel_xy[env] = 0.0
    term.error_vel_yaw[env] = 0.0
    term.metric_steps[env] = 0.0
    term.start_pos_w[env] = wp.vec2(root_pose[env][0], root_pose[env][1])
    term.asked_displacement_w[env] = wp.vec2()
    term.command_counter[env] = wp.int64(0)
    write(term, env, renew(term, env, rng_state))


@wp.kernel
def update_metrics(
    dt: wp.float32,
    term: VelocityCommands,
    lin_vel_b: wp.array[wp.vec3],
    ang_vel_b: wp.array[wp.vec3],
    heading_w: wp.array[wp.float32],
):
    """Running means of the errors, and the way that is asked for. Launch over N."""
    env = wp.tid()
    steps = term.metric_steps[env] + 1.0
    term.metric_steps[env] = steps
    velocity = lin_vel_b[env]
    error_xy = norm2(term.command[env, 0] - velocity[0], term.command[env, 1] - velocity[1])
    error_yaw = wp.abs(term.command[env, 2] - ang_vel_b[env][2])
    term.error_vel_xy[env] = term.error_vel_xy[env] + (error_xy - term.error_vel_xy[env]) / steps
    term.error_vel_yaw[env] = term.error_vel_yaw[env] + (error_yaw - term.error_vel_yaw[env]) / steps
    x, y = term.command[env, 0] * dt, term.command[env, 1] * dt
    cos, sin = wp.cos(heading_w[env]), wp.sin(heading_w[env])
    way = wp.vec2(cos * x - sin * y, sin * x + cos * y)
    term.asked_displacement_w[env] = term.asked_displacement_w[env] + way


@wp.func
def followed_or_drawn(term: VelocityCommands, env: wp.int32) -> wp.vec3:
    """The command that the draws go on from."""
    if term.is_fixed[0]:
        return wp.vec3(term.drawn[env, 0], term.drawn[env, 1], term.drawn[env, 2])
    return wp.vec3(term.command[env, 0], term.command[env, 1], term.command[env, 2])


@wp.func
def write(term: VelocityCommands, env: wp.int32, drawn: wp.vec3):
    for i in range(3):
        if term.is_fixed[0]:
            term.drawn[env, i] = drawn[i]
            term.command[env, i] = term.fixed_row[i]
        else:
            term.command[env, i] = drawn[i]


@wp.func
def renew(term: VelocityCommands, env: wp.int32, rng_state: wp.array[wp.uint32]) -> wp.vec3:
    """Draws a command and for how long it holds."""
    rng = rng_state[env]
    command = wp.vec3()
    term.time_left[env] = wp.randf(rng, term.ranges[_TIME][0], term.ranges[_TIME][1])
    for i in range(3):
        command[i] = wp.randf(rng, term.ranges[1 + i][0], term.ranges[1 + i][1])
    if term.heading_command[0]:
        term.heading_target[env] = wp.randf(rng, term.ranges[_HEADING][0], term.ranges[_HEADING][1])
        term.is_heading_env[env] = wp.randf(rng) < term.rel_heading_envs[0]
    term.is_standing_env[env] = wp.randf(rng) < term.rel_standing_envs[0]
    term.command_counter[env] = term.command_counter[env] + wp.int64(1)
    rng_state[env] = rng
    return command


@wp.func
def adapted(term: VelocityCommands, env: wp.int32, command: wp.vec3, heading_w: wp.array[wp.float32]) -> wp.vec3:
    """Steers by heading, or stands."""
    yaw_rate = command[2]
    if term.heading_command[0] and term.is_heading_env[env]:
        error = wrap_to_pi(term.heading_target[env] - heading_w[env])
        limits = term.ranges[3]
        yaw_rate = clamp(term.heading_control_stiffness[0] * error, limits[0], limits[1])
    if term.is_standing_env[env]:
        return wp.vec3(0.0, 0.0, 0.0)
    return wp.vec3(command[0], command[1], yaw_rate)
