"""Kernel of the ray caster."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})

BASE = wp.constant(0)
YAW = wp.constant(1)
WORLD = wp.constant(2)


@wp.kernel
def cast_rays(
    mask: wp.array[wp.bool],
    place: wp.int32,
    bodies_per_world: wp.int32,
    body_q: wp.array[wp.transform],
    starts: wp.array[wp.vec3],
    directions: wp.array[wp.vec3],
    alignment: wp.int32,
    max_distance: wp.float32,
    has_plane: wp.bool,
    mesh: wp.uint64,
    pos_w: wp.array[wp.vec3],
    quat_w: wp.array[wp.quat],
    ray_hits_w: wp.array2d[wp.vec3],
):
    """Casts the rays of the worlds of ``mask``; without it of all. Launch over (N, R).

    The ground is ``mesh`` if it is not 0, otherwise the plane z = 0 if there is one. What misses is infinite.
    """
    world, ray = wp.tid()
    if mask and not mask[world]:
        return
    pose = body_q[world * bodies_per_world + place]
    position = wp.transform_get_translation(pose)
    rotation = wp.transform_get_rotation(pose)
    if ray == 0:
        pos_w[world] = position
        quat_w[world] = rotation
    turn = rotation
    if alignment == YAW:
        turn = _heading(rotation)
    elif alignment == WORLD:
        turn = wp.quat_identity()
    start = position + wp.quat_rotate(turn, starts[ray])
    direction = wp.quat_rotate(turn, directions[ray])

    distance = wp.float32(wp.inf)
    if mesh:
        query = wp.mesh_query_ray(mesh, start, direction, max_distance)
        if query.result:
            distance = query.t
    elif has_plane and direction[2] != 0.0 and start[2] * direction[2] <= 0.0:
        distance = -start[2] / direction[2]
    if distance <= max_distance:
        ray_hits_w[world, ray] = start + distance * direction
    else:
        ray_hits_w[world, ray] = wp.vec3(wp.inf, wp.inf, wp.inf)


@wp.func
def _heading(rotation: wp.quat) -> wp.quat:
    """Rotation about z with the heading of the rotated x axis.

    Where x points straight up or down, it has no heading; then no rotation.
    """
    forward = wp.quat_rotate(rotation, wp.vec3(1.0, 0.0, 0.0))
    return wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), wp.atan2(forward[1], forward[0]))
