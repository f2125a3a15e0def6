"""Kernels that go over contacts and limits of joints, as :class:`lab_newton.nerd.ContactImpulses` learned to.

The places that push are listed one after the other, those of a world in a row; arrays have the list in their last
dimension, of which ``total`` are used. Kernels over it are launched over fewer threads, which share it.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})

VALID, OWNER, POINT, NORMAL, GAP = 0, 1, 2, 5, 11
"""Where numbers lie in a token."""
UNITS = wp.constant(8)
"""Outputs of a layer that a thread makes."""
Units = wp.types.vector(length=8, dtype=wp.float32)
_FLOOR = wp.constant(1.0e-3)
_NEAR = wp.constant(0.1)


@wp.struct
class Places:
    """Contacts, with R = 3 directions each, or limits, with R = 1."""

    total: wp.array[wp.int32]
    """(1,) how many there are."""
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
def prepare_contacts(
    tokens: wp.array3d[wp.float32],
    moves: wp.array2d[wp.bool],
    column: wp.array2d[wp.spatial_vector],
    response: wp.array3d[wp.float32],
    threads: wp.int32,
    places: Places,
):
    """Jacobians, along the normal and across it, and what impulses do at their own place."""
    for place in range(wp.tid(), places.total[0], threads):
        world, slot = places.world[place], places.slot[place]
        part = wp.int32(tokens[world, slot, OWNER])
        point, normal = row_of(tokens, world, slot, POINT), row_of(tokens, world, slot, NORMAL)
        places.gap[place] = tokens[world, slot, GAP]
        other = wp.vec3(1.0, 0.0, 0.0)
        if wp.abs(normal[0]) >= 0.9:
            other = wp.vec3(0.0, 1.0, 0.0)
        across = wp.normalize(wp.cross(normal, other))
        frame = wp.matrix_from_rows(normal, across, wp.cross(normal, across))
        size = column.shape[0]
        for dof in range(size):
            velocity = wp.vec3(0.0)
            if moves[dof, part]:
                motion = column[dof, world]
                velocity = frame * (wp.spatial_bottom(motion) + wp.cross(wp.spatial_top(motion), point))
            for row in range(3):
                places.jacobian[row, dof, place] = velocity[row]
        own = wp.identity(n=3, dtype=wp.float32) * _FLOOR
        for dof in range(size):
            if moves[dof, part]:
                reach = wp.vec3(0.0)
                for j in range(size):
                    if moves[j, part]:
                        for row in range(3):
                            reach[row] += response[dof, j, world] * places.jacobian[row, j, place]
                for row in range(3):
                    for col in range(3):
                        own[row, col] += places.jacobian[row, dof, place] * reach[col]
        inverse = wp.inverse(own)
        for row in range(3):
            for col in range(3):
                places.own[row, col, place] = own[row, col]
                places.inverse[row, col, place] = inverse[row, col]


@wp.kernel
def prepare_limits(response: wp.array3d[wp.float32], threads: wp.int32, places: Places):
    """What an impulse on a joint does to that joint."""
    for place in range(wp.tid(), places.total[0], threads):
        dof = places.slot[place]
        own = response[dof, dof, places.world[place]] + _FLOOR
        places.own[0, 0, place] = own
        places.inverse[0, 0, place] = 1.0 / own


@wp.func
def remember(places: Places, place: wp.int32, first: wp.int32, inputs: wp.array2d[wp.float32]):
    for row in range(places.memory.shape[0]):
        inputs[first + row, place] = places.memory[row, place]


@wp.kernel
def look_at_contacts(
    velocity: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
    dt: wp.float32,
    threads: wp.int32,
    places: Places,
    inputs: wp.array2d[wp.float32],
):
    """What the layers see (15 + S, C) of contacts, with the impulses so far."""
    for place in range(wp.tid(), places.total[0], threads):
        world = places.world[place]
        speed = wp.vec3(0.0)
        for dof in range(velocity.shape[0]):
            moved = velocity[dof, world] + change[dof, world]
            for row in range(3):
                speed[row] += places.jacobian[row, dof, place] * moved
        gap = places.gap[place]
        inputs[0, place] = wp.clamp(gap / 0.01, -3.0, 3.0)
        inputs[1, place] = wp.tanh(gap / 0.001)
        inputs[2, place] = wp.clamp(gap / dt + speed[0], -3.0, 3.0)
        for row in range(3):
            pushed = wp.float32(0.0)
            for col in range(3):
                pushed += places.own[row, col, place] * places.impulse[col, place]
            inputs[3 + row, place] = wp.clamp(speed[row], -5.0, 5.0)
            inputs[6 + row, place] = wp.clamp(pushed, -5.0, 5.0)
            inputs[9 + row, place] = wp.log(places.own[row, row, place])
        inputs[12, place] = places.own[0, 1, place] / places.own[0, 0, place]
        inputs[13, place] = places.own[0, 2, place] / places.own[0, 0, place]
        inputs[14, place] = places.own[1, 2, place] / places.own[1, 1, place]
        remember(places, place, 15, inputs)


@wp.kernel
def look_at_limits(
    velocity: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
    threads: wp.int32,
    places: Places,
    inputs: wp.array2d[wp.float32],
):
    """What the layers see (4 + S, C) of limits, with the impulses so far."""
    for place in range(wp.tid(), places.total[0], threads):
        world, dof = places.world[place], places.slot[place]
        speed = places.sign[place] * (velocity[dof, world] + change[dof, world])
        inputs[0, place] = wp.clamp(places.gap[place] / 0.05, -3.0, 3.0)
        inputs[1, place] = speed / 5.0
        inputs[2, place] = wp.clamp(places.own[0, 0, place] * places.impulse[0, place], -5.0, 5.0)
        inputs[3, place] = wp.log(places.own[0, 0, place])
        remember(places, place, 4, inputs)


@wp.kernel
def apply_layer(
    total: wp.array[wp.int32],
    inputs: wp.array2d[wp.float32],
    weight: wp.array2d[wp.float32],
    bias: wp.array[wp.float32],
    num_units: wp.int32,
    activated: wp.bool,
    threads: wp.int32,
    outputs: wp.array2d[wp.float32],
):
    """Outputs (O, C) of a linear layer for inputs (I, C), through SiLU if ``activated``.

    A thread makes ``UNITS`` of them, so that it reads an input once for all. Launch over (O / UNITS, threads), rounded
    up; ``weight`` (I, O) and ``bias`` (O,) have as many.
    """
    block, thread = wp.tid()
    first = block * UNITS
    for place in range(thread, total[0], threads):
        values = Units()
        for unit in range(UNITS):
            values[unit] = bias[first + unit]
        for i in range(weight.shape[0]):
            value = inputs[i, place]
            for unit in range(UNITS):
                values[unit] += weight[i, first + unit] * value
        for unit in range(UNITS):
            if first + unit < num_units:
                value = values[unit]
                if activated:
                    value = value / (1.0 + wp.exp(-value))
                outputs[first + unit, place] = value


@wp.kernel
def push(threads: wp.int32, outputs: wp.array2d[wp.float32], places: Places):
    """Changes impulses and memories by outputs (R + S, C): R changes of the place's own velocity come first."""
    for place in range(wp.tid(), places.total[0], threads):
        size = places.impulse.shape[0]
        for row in range(size):
            added = wp.float32(0.0)
            for col in range(size):
                added += places.inverse[row, col, place] * outputs[col, place]
            places.impulse[row, place] += added
        for row in range(places.memory.shape[0]):
            places.memory[row, place] += outputs[size + row, place]


@wp.kernel
def gather_forces(contacts: Places, limits: Places, force: wp.array2d[wp.float32]):
    """What all impulses of a world are on each velocity (V, N). Launch over (V, N)."""
    dof, world = wp.tid()
    total = wp.float32(0.0)
    for i in range(contacts.count[world]):
        place = contacts.first[world] + i
        for row in range(3):
            total += contacts.jacobian[row, dof, place] * contacts.impulse[row, place]
    for i in range(limits.count[world]):
        place = limits.first[world] + i
        if limits.slot[place] == dof:
            total += limits.sign[place] * limits.impulse[0, place]
    force[dof, world] = total
