"""Kernels that list the contacts and the limits of joints that push, and find what impulses there do.

The places that push are listed one after the other, those of a world in a row; arrays have the list in their last
dimension, of which ``total`` are used. Kernels over it are launched over fewer threads, which share it."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})

VALID, OWNER, POINT, NORMAL, GAP = 0, 1, 2, 5, 11
"""Where numbers lie in a token."""
_FLOOR = wp.constant(1.0e-3)
_NEAR = wp.constant(0.1)


@wp.struct
class Places:
    """Contacts, with R = 3 directions each, or limits, with R = 1."""

    total: wp.array[wp.int32]
    """(1,) how many there are."""
    threads: wp.int32
    """Threads that share the list."""
    world: wp.array[wp.int32]
    """(C,) world of each."""
    slot: wp.array[wp.int32]
    """(C,) its token, or its joint."""
    first: wp.array[wp.int32]
    """(N,) where those of a world begin."""
    count: wp.array[wp.int32]
    """(N,) how many it has."""
    jacobian: wp.array3d[wp.float32]
    """(R, V, C), velocity of the place by each velocity of the robot; not used of limits."""
    reach: wp.array3d[wp.float32]
    """(R, V, C), velocity of the robot by an impulse in each direction of the place; not used of limits."""
    sign: wp.array[wp.float32]
    """(C,) of limits: direction in which the limit pushes its joint."""
    gap: wp.array[wp.float32]
    """(C,) [m or rad]."""
    own: wp.array3d[wp.float32]
    """(R, R, C) velocity of the place per impulse."""
    inverse: wp.array3d[wp.float32]
    """(R, R, C) of that."""
    impulse: wp.array2d[wp.float32]
    """(R, C) so far."""
    memory: wp.array2d[wp.float32]
    """(S, C) what the layers keep."""


@wp.func
def list_places(places: Places, world: wp.int32, count: wp.int32) -> wp.int32:
    """Takes ``count`` places for a world and returns the first."""
    first = wp.atomic_add(places.total, 0, count)
    places.first[world] = first
    places.count[world] = count
    return first


@wp.func
def start(places: Places, place: wp.int32, world: wp.int32, slot: wp.int32):
    places.world[place] = world
    places.slot[place] = slot
    for row in range(places.impulse.shape[0]):
        places.impulse[row, place] = 0.0
    for row in range(places.memory.shape[0]):
        places.memory[row, place] = 0.0


@wp.kernel
def list_contacts(tokens: wp.array3d[wp.float32], places: Places):
    """Lists the tokens that hold a contact. Launch over N."""
    world = wp.tid()
    count = wp.int32(0)
    for slot in range(tokens.shape[1]):
        if tokens[world, slot, VALID] > 0.5:
            count += 1
    place = list_places(places, world, count)
    for slot in range(tokens.shape[1]):
        if tokens[world, slot, VALID] > 0.5:
            start(places, place, world, slot)
            place += 1


@wp.func
def distance_to_limit(position: wp.float32, limit: wp.vec2) -> wp.float32:
    return wp.min(position - limit[0], limit[1] - position)


@wp.kernel
def list_limits(
    joint_q: wp.array[wp.float32], num_q: wp.int32, dofs: wp.array[wp.int32], limits: wp.array[wp.vec2], places: Places
):
    """Lists the joints ``dofs`` (L,) that are near a limit. Launch over N."""
    world = wp.tid()
    count = wp.int32(0)
    for i in range(dofs.shape[0]):
        if distance_to_limit(joint_q[world * num_q + 1 + dofs[i]], limits[i]) < _NEAR:
            count += 1
    place = list_places(places, world, count)
    for i in range(dofs.shape[0]):
        position = joint_q[world * num_q + 1 + dofs[i]]
        gap = distance_to_limit(position, limits[i])
        if gap < _NEAR:
            start(places, place, world, dofs[i])
            places.gap[place] = gap
            places.sign[place] = -1.0
            if position - limits[i][0] < limits[i][1] - position:
                places.sign[place] = 1.0
            place += 1


@wp.func
def row_of(tokens: wp.array3d[wp.float32], world: wp.int32, slot: wp.int32, first: wp.int32) -> wp.vec3:
    return wp.vec3(tokens[world, slot, first], tokens[world, slot, first + 1], tokens[world, slot, first + 2])


@wp.kernel
def find_jacobians(
    tokens: wp.array3d[wp.float32],
    moves: wp.array2d[wp.bool],
    column: wp.array2d[wp.spatial_vector],
    places: Places,
):
    """Velocities of contacts along their normal and across it. Launch over (V, threads)."""
    dof, thread = wp.tid()
    for place in range(thread, places.total[0], places.threads):
        world, slot = places.world[place], places.slot[place]
        part = wp.int32(tokens[world, slot, OWNER])
        point, normal = row_of(tokens, world, slot, POINT), row_of(tokens, world, slot, NORMAL)
        other = wp.vec3(1.0, 0.0, 0.0)
        if wp.abs(normal[0]) >= 0.9:
            other = wp.vec3(0.0, 1.0, 0.0)
        across = wp.normalize(wp.cross(normal, other))
        frame = wp.matrix_from_rows(normal, across, wp.cross(normal, across))
        velocity = wp.vec3(0.0)
        if moves[dof, part]:
            motion = column[dof, world]
            velocity = frame * (wp.spatial_bottom(motion) + wp.cross(wp.spatial_top(motion), point))
        for row in range(3):
            places.jacobian[row, dof, place] = velocity[row]
        if dof == 0:
            places.gap[place] = tokens[world, slot, GAP]


@wp.kernel
def find_reach(response: wp.array3d[wp.float32], places: Places):
    """What impulses of contacts do to the robot. Launch over (V, threads)."""
    dof, thread = wp.tid()
    for place in range(thread, places.total[0], places.threads):
        world = places.world[place]
        reach = wp.vec3(0.0)
        for j in range(places.jacobian.shape[1]):
            value = response[dof, j, world]
            for row in range(3):
                reach[row] += value * places.jacobian[row, j, place]
        for row in range(3):
            places.reach[row, dof, place] = reach[row]


@wp.func
def find_mass_of_contact(places: Places, place: wp.int32):
    own = wp.identity(n=3, dtype=wp.float32) * _FLOOR
    for dof in range(places.jacobian.shape[1]):
        for row in range(3):
            for col in range(3):
                own[row, col] += places.jacobian[row, dof, place] * places.reach[col, dof, place]
    inverse = wp.inverse(own)
    for row in range(3):
        for col in range(3):
            places.own[row, col, place] = own[row, col]
            places.inverse[row, col, place] = inverse[row, col]


@wp.func
def find_mass_of_limit(places: Places, place: wp.int32, response: wp.array3d[wp.float32]):
    dof = places.slot[place]
    own = response[dof, dof, places.world[place]] + _FLOOR
    places.own[0, 0, place] = own
    places.inverse[0, 0, place] = 1.0 / own


@wp.kernel
def find_masses(response: wp.array3d[wp.float32], contacts: Places, limits: Places):
    """What impulses do at their own place. Launch over the threads of both."""
    thread = wp.tid()
    if thread < contacts.threads:
        for place in range(thread, contacts.total[0], contacts.threads):
            find_mass_of_contact(contacts, place)
    else:
        for place in range(thread - contacts.threads, limits.total[0], limits.threads):
            find_mass_of_limit(limits, place, response)
