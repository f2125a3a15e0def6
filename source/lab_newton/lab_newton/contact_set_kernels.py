"""Kernels that pack contacts of all worlds into places of each world."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class ContactPool:
    """What a collision pipeline found in all worlds together, with ``M`` places."""

    count: wp.array[wp.int32]
    """(1,), beyond M where places were missing."""
    shape0: wp.array[wp.int32]
    shape1: wp.array[wp.int32]
    point0: wp.array[wp.vec3]
    """In the frame of the body of the shape."""
    point1: wp.array[wp.vec3]
    normal: wp.array[wp.vec3]
    """From shape 0 to shape 1, world frame."""
    margin0: wp.array[wp.float32]
    margin1: wp.array[wp.float32]


@wp.func
def world_point(body_q: wp.array[wp.transform], body: wp.int32, point: wp.vec3) -> wp.vec3:
    """Where a point of a body is; body -1 stands still."""
    if body < 0:
        return point
    return wp.transform_point(body_q[body], point)


@wp.func
def centre_of(body_q: wp.array[wp.transform], body_com: wp.array[wp.vec3], body: wp.int32, point: wp.vec3) -> wp.vec3:
    """Centre of mass of a body in the world frame; ``point`` for what stands still."""
    if body < 0:
        return point
    return wp.transform_point(body_q[body], body_com[body])


@wp.func
def velocity_of(body_qd: wp.array[wp.spatial_vector], body: wp.int32, arm: wp.vec3) -> wp.vec3:
    """Velocity of the point at ``arm`` from the centre of mass of a body."""
    if body < 0:
        return wp.vec3(0.0)
    return wp.spatial_top(body_qd[body]) + wp.cross(wp.spatial_bottom(body_qd[body]), arm)


@wp.kernel
def collect(
    pool: ContactPool,
    shape_body: wp.array[wp.int32],
    body_q: wp.array[wp.transform],
    part_of: wp.array[wp.int32],
    distance: wp.float32,
    gaps: wp.array[wp.float32],
    counts: wp.array[wp.int32],
    sides: wp.array2d[wp.int32],
):
    """Gives both sides of every contact that is near enough a place in their world. Launch over M.

    ``sides`` (N, K) are contact * 2 + side, in whatever order; ``counts`` (N,) also those without a place.
    """
    contact = wp.tid()
    if contact >= pool.count[0]:
        return
    body0 = shape_body[pool.shape0[contact]]
    body1 = shape_body[pool.shape1[contact]]
    point0 = world_point(body_q, body0, pool.point0[contact])
    point1 = world_point(body_q, body1, pool.point1[contact])
    gap = wp.dot(pool.normal[contact], point1 - point0) - pool.margin0[contact] - pool.margin1[contact]
    gaps[contact] = gap
    if not gap <= distance:  # nor where it is not a number
        return
    bodies = part_of.shape[0]
    for side in range(2):
        body = body0
        if side == 1:
            body = body1
        if body >= 0:
            world = body // bodies
            if part_of[body - world * bodies] >= 0:
                place = wp.atomic_add(counts, world, 1)
                if place < sides.shape[1]:
                    sides[world, place] = 2 * contact + side


@wp.kernel
def sort(
    pool: ContactPool,
    triangles: wp.array[wp.int32],
    most_triangles: wp.int32,
    counts: wp.array[wp.int32],
    sides: wp.array2d[wp.int32],
    excess: wp.array[wp.float32],
    worst: wp.array[wp.int32],
):
    """Puts the places of a world into the order of the pool, and counts what found none. Launch over N.

    What the pool, or the list of ``triangles`` (1,) to look at before it, had no place for may be missing in any world.
    ``worst`` (3,): most places that a world, the pool and that list would have needed so far.
    """
    world = wp.tid()
    used = wp.min(counts[world], sides.shape[1])
    for i in range(1, used):
        side = sides[world, i]
        j = i - 1
        while j >= 0 and sides[world, j] > side:
            sides[world, j + 1] = sides[world, j]
            j -= 1
        sides[world, j + 1] = side
    lost = wp.max(pool.count[0] - pool.normal.shape[0], 0) + wp.max(triangles[0] - most_triangles, 0)
    excess[world] = wp.float32(counts[world] - used + lost)
    wp.atomic_max(worst, 0, counts[world])
    wp.atomic_max(worst, 1, pool.count[0])
    wp.atomic_max(worst, 2, triangles[0])


@wp.kernel
def encode(
    pool: ContactPool,
    shape_body: wp.array[wp.int32],
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    part_of: wp.array[wp.int32],
    root: wp.int32,
    gaps: wp.array[wp.float32],
    counts: wp.array[wp.int32],
    sides: wp.array2d[wp.int32],
    tokens: wp.array3d[wp.float32],
):
    """Writes tokens (N, K, 15), see :class:`lab_core.sensors.ContactSetData`. Launch over (N, K)."""
    world, place = wp.tid()
    if place >= counts[world]:
        for i in range(tokens.shape[2]):
            tokens[world, place, i] = 0.0
        return
    contact = sides[world, place] // 2
    body = shape_body[pool.shape0[contact]]
    other = shape_body[pool.shape1[contact]]
    local_point = pool.point0[contact]
    other_local = pool.point1[contact]
    margin = pool.margin0[contact]
    other_margin = pool.margin1[contact]
    normal = -pool.normal[contact]
    if sides[world, place] % 2 == 1:
        body, other = other, body
        local_point, other_local = other_local, local_point
        margin, other_margin = other_margin, margin
        normal = -normal
    # Points of surfaces: beyond those of thick shapes by their margins.
    point = world_point(body_q, body, local_point) - margin * normal
    other_point = world_point(body_q, other, other_local) + other_margin * normal
    arm = point - centre_of(body_q, body_com, body, point)
    velocity = velocity_of(body_qd, body, arm)
    velocity -= velocity_of(body_qd, other, other_point - centre_of(body_q, body_com, other, other_point))
    bodies = part_of.shape[0]
    frame = body_q[world * bodies + root]
    to_root = wp.quat_inverse(wp.transform_get_rotation(frame))
    point = wp.quat_rotate(to_root, point - wp.transform_get_translation(frame))
    normal = wp.quat_rotate(to_root, normal)
    arm = wp.quat_rotate(to_root, arm)
    velocity = wp.quat_rotate(to_root, velocity)
    tokens[world, place, 0] = 1.0
    tokens[world, place, 1] = wp.float32(part_of[body - world * bodies])
    for i in range(3):
        tokens[world, place, 2 + i] = point[i]
        tokens[world, place, 5 + i] = normal[i]
        tokens[world, place, 8 + i] = arm[i]
        tokens[world, place, 12 + i] = velocity[i]
    tokens[world, place, 11] = gaps[contact]
