"""Kernels of the ant's terms, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import at_least_zero, euler_xyz_from_quat, norm2, normalized_position, quat_apply, wrap_to_pi

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func
def vector_to_target(pose: wp.transform, origin: wp.vec3, target: wp.vec2) -> wp.vec2:
    """Twin of :func:`lab_tasks.ant.mdp.vector_to_target`."""
    return wp.vec2(origin[0] - pose[0] + target[0], origin[1] - pose[1] + target[1])


@wp.func
def unit(vector: wp.vec2) -> wp.vec2:
    """Twin of :func:`lab_core.math.normalize`."""
    squared_norm = vector[0] * vector[0] + vector[1] * vector[1]
    if squared_norm <= 1.0e-16:
        return wp.vec2(0.0, 0.0)
    return vector * (1.0 / wp.sqrt(squared_norm))


@wp.func
def approach(moved: wp.vec2, to_target: wp.vec2) -> wp.float32:
    """Twin of :func:`lab_tasks.ant.mdp.approach`."""
    before = to_target + moved
    lengths = norm2(before[0], before[1]) + norm2(to_target[0], to_target[1])
    both = before + to_target
    return (moved[0] * both[0] + moved[1] * both[1]) / wp.max(lengths, 1.0e-6)


@wp.func
def move_to_target(projection: wp.float32, threshold: wp.float32) -> wp.float32:
    """Twin of :func:`lab_tasks.ant.mdp.move_to_target_bonus`."""
    if projection > threshold:
        return 1.0
    return projection / threshold


@wp.func
def heading_projection(pose: wp.transform, origin: wp.vec3, target: wp.vec2) -> wp.float32:
    direction = unit(vector_to_target(pose, origin, target))
    x_axis = quat_apply(wp.transform_get_rotation(pose), wp.vec3(1.0, 0.0, 0.0))
    return x_axis[0] * direction[0] + x_axis[1] * direction[1]


@wp.kernel
def yaw_roll(poses: wp.array[wp.transform], out: wp.array2d[wp.float32]):
    env = wp.tid()
    angles = euler_xyz_from_quat(wp.transform_get_rotation(poses[env]))
    out[env, 0] = angles[2]
    out[env, 1] = angles[0]


@wp.kernel
def angle_to_target(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    headings: wp.array[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    course = vector_to_target(poses[env], origins[env], target)
    out[env, 0] = wrap_to_pi(wp.atan2(course[1], course[0]) - headings[env])


@wp.kernel
def up_proj(gravity: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env = wp.tid()
    out[env, 0] = -gravity[env][2]


@wp.kernel
def heading_proj(
    poses: wp.array[wp.transform], origins: wp.array[wp.vec3], target: wp.vec2, out: wp.array2d[wp.float32]
):
    env = wp.tid()
    out[env, 0] = heading_projection(poses[env], origins[env], target)


@wp.kernel
def remember(mask: wp.array[wp.bool], poses: wp.array[wp.transform], positions: wp.array[wp.vec2]):
    env = wp.tid()
    if mask[env]:
        positions[env] = wp.vec2(poses[env][0], poses[env][1])


@wp.kernel
def progress(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    non_finite: wp.array[wp.bool],
    dt: wp.float32,
    positions: wp.array[wp.vec2],
    out: wp.array[wp.float32],
):
    """``positions`` of the step before are replaced by the new ones."""
    env = wp.tid()
    position = wp.vec2(poses[env][0], poses[env][1])
    nearer = approach(position - positions[env], vector_to_target(poses[env], origins[env], target))
    positions[env] = position
    if non_finite[env]:
        nearer = 0.0
    out[env] = nearer / dt


@wp.kernel
def upright(gravity: wp.array[wp.vec3], threshold: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.float32(-gravity[env][2] > threshold)


@wp.kernel
def reward_move_to_target(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    threshold: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    out[env] = move_to_target(heading_projection(poses[env], origins[env], target), threshold)


@wp.kernel
def power(
    action: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(action[env, i] * velocities[env, ids[i]])
    out[env] = total


@wp.kernel
def near_limits(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    threshold: wp.float32,
    rest: wp.float32,
    out: wp.array[wp.float32],
):
    """``rest`` is what lies between the threshold and the limit."""
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        position = wp.abs(normalized_position(positions[env, ids[i]], limits[env, ids[i]]))
        total += at_least_zero((position - threshold) / rest)
    out[env] = total
