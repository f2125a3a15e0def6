"""Kernels of rewards, terminations and metrics of motion tracking. Launch over N, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import quat_angle_squared, quat_apply, quat_conjugate, quat_mul, square, yaw_quat

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.struct
class Bodies:
    """The key bodies (B) of robot and motion in N environments."""

    ids: wp.array[wp.int64]
    """(B,) columns of the robot's buffers."""
    anchor: wp.int32
    """Place of the anchor among the key bodies."""
    origins: wp.array[wp.vec3]
    """(N,) of environments."""
    pose: wp.array2d[wp.transform]
    """(N, bodies) of the robot's links in the world."""
    com_vel: wp.array2d[wp.spatial_vector]
    """(N, bodies) of its centres of mass."""
    com: wp.array2d[wp.vec3]
    """(N, bodies) centres of mass in the links' frames."""
    wanted_pos: wp.array2d[wp.vec3]
    """(N, B) of the motion, relative to the environment's origin."""
    wanted_quat: wp.array2d[wp.quat]
    """(N, B)."""
    wanted_lin_vel: wp.array2d[wp.vec3]
    """(N, B) of the links' origins."""
    wanted_ang_vel: wp.array2d[wp.vec3]
    """(N, B)."""


@wp.func
def own_pos(bodies: Bodies, env: wp.int32, key: wp.int32) -> wp.vec3:
    return wp.transform_get_translation(bodies.pose[env, wp.int32(bodies.ids[key])]) - bodies.origins[env]


@wp.func
def own_quat(bodies: Bodies, env: wp.int32, key: wp.int32) -> wp.quat:
    return wp.transform_get_rotation(bodies.pose[env, wp.int32(bodies.ids[key])])


@wp.func
def squared(vector: wp.vec3) -> wp.float32:
    return wp.dot(vector, vector)


@wp.func
def turn_to_robot(bodies: Bodies, env: wp.int32) -> wp.quat:
    """Rotation of :func:`lab_tasks.tracking.relative.relative_targets`."""
    anchor = bodies.anchor
    return yaw_quat(quat_mul(own_quat(bodies, env, anchor), quat_conjugate(bodies.wanted_quat[env, anchor])))


@wp.func
def likeness(error: wp.float32, std: wp.float32) -> wp.float32:
    return wp.exp(-error / (std * std))


@wp.kernel
def anchor_pos(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    error = bodies.wanted_pos[env, bodies.anchor] - own_pos(bodies, env, bodies.anchor)
    out[env] = likeness(squared(error), std)


@wp.kernel
def anchor_ori(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    error = quat_angle_squared(bodies.wanted_quat[env, bodies.anchor], own_quat(bodies, env, bodies.anchor))
    out[env] = likeness(error, std)


@wp.kernel
def body_pos(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    turn = turn_to_robot(bodies, env)
    start = bodies.wanted_pos[env, bodies.anchor]
    end = own_pos(bodies, env, bodies.anchor)
    end[2] = start[2]
    total = wp.float32(0.0)
    for key in range(bodies.ids.shape[0]):
        wanted = end + quat_apply(turn, bodies.wanted_pos[env, key] - start)
        total += squared(wanted - own_pos(bodies, env, key))
    out[env] = likeness(total / wp.float32(bodies.ids.shape[0]), std)


@wp.kernel
def body_ori(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    turn = turn_to_robot(bodies, env)
    total = wp.float32(0.0)
    for key in range(bodies.ids.shape[0]):
        total += quat_angle_squared(quat_mul(turn, bodies.wanted_quat[env, key]), own_quat(bodies, env, key))
    out[env] = likeness(total / wp.float32(bodies.ids.shape[0]), std)


@wp.kernel
def body_lin_vel(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for key in range(bodies.ids.shape[0]):
        body = wp.int32(bodies.ids[key])
        velocity = bodies.com_vel[env, body]
        arm = quat_apply(own_quat(bodies, env, key), bodies.com[env, body])
        own = wp.spatial_top(velocity) - wp.cross(wp.spatial_bottom(velocity), arm)
        total += squared(bodies.wanted_lin_vel[env, key] - own)
    out[env] = likeness(total / wp.float32(bodies.ids.shape[0]), std)


@wp.kernel
def body_ang_vel(bodies: Bodies, std: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for key in range(bodies.ids.shape[0]):
        own = wp.spatial_bottom(bodies.com_vel[env, wp.int32(bodies.ids[key])])
        total += squared(bodies.wanted_ang_vel[env, key] - own)
    out[env] = likeness(total / wp.float32(bodies.ids.shape[0]), std)


@wp.kernel
def self_collision(history: wp.array4d[wp.vec3], threshold: wp.float32, out: wp.array[wp.float32]):
    """``history`` (N, H, B, M), of which the first party is the robot itself."""
    env = wp.tid()
    total = wp.float32(0.0)
    for age in range(history.shape[1]):
        touched = wp.float32(0.0)
        for body in range(history.shape[2]):
            if squared(history[env, age, body, 0]) > threshold * threshold:
                touched = 1.0
        total += touched
    out[env] = total / wp.float32(history.shape[1])


# Terminations -----------------------------------------------------------------------------------------------------


@wp.func
def height_error(bodies: Bodies, env: wp.int32, key: wp.int32) -> wp.float32:
    return wp.abs(bodies.wanted_pos[env, key][2] - own_pos(bodies, env, key)[2])


@wp.func
def uprightness(quat: wp.quat) -> wp.float32:
    return 1.0 - 2.0 * (square(quat[0]) + square(quat[1]))


@wp.kernel
def bad_heights(bodies: Bodies, chosen: wp.uint64, threshold: wp.float32, out: wp.array[wp.bool]):
    """Of the key bodies whose bit is 1 in ``chosen``."""
    env = wp.tid()
    found = wp.bool(False)
    for key in range(bodies.ids.shape[0]):
        if (chosen >> wp.uint64(key)) & wp.uint64(1) == wp.uint64(1):
            found = found or height_error(bodies, env, key) > threshold
    out[env] = found


@wp.kernel
def bad_tilt(bodies: Bodies, threshold: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    wanted = uprightness(bodies.wanted_quat[env, bodies.anchor])
    out[env] = wp.abs(wanted - uprightness(own_quat(bodies, env, bodies.anchor))) > threshold


# Metrics ----------------------------------------------------------------------------------------------------------


@wp.kernel
def measure(
    bodies: Bodies,
    shown: wp.array2d[wp.float32],
    joint_pos: wp.array2d[wp.float32],
    step_reward: wp.array2d[wp.float32],
    weights: wp.array[wp.float32],
    scored: wp.uint64,
    anchor_error: wp.array[wp.float32],
    body_error: wp.array[wp.float32],
    joint_error: wp.array[wp.float32],
    score: wp.array[wp.float32],
):
    """Present errors, and the score of the step: of the rewards whose bit is 1 in ``scored``. ``shown`` begins with
    the positions of the joints."""
    env = wp.tid()
    total = wp.float32(0.0)
    for key in range(bodies.ids.shape[0]):
        error = wp.length(own_pos(bodies, env, key) - bodies.wanted_pos[env, key])
        total += error
        if key == bodies.anchor:
            anchor_error[env] = error
    body_error[env] = total / wp.float32(bodies.ids.shape[0])
    total = wp.float32(0.0)
    for joint in range(joint_pos.shape[1]):
        total += wp.abs(joint_pos[env, joint] - shown[env, joint])
    joint_error[env] = total / wp.float32(joint_pos.shape[1])
    total = wp.float32(0.0)
    best = wp.float32(0.0)
    for term in range(weights.shape[0]):
        if (scored >> wp.uint64(term)) & wp.uint64(1) == wp.uint64(1):
            total += step_reward[env, term]
            best += weights[term]
    score[env] = total / best
