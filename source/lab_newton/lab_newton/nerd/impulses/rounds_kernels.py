"""Kernels that go over contacts and limits of joints, as :class:`lab_newton.nerd.ContactImpulses` learned to.

They take contacts and limits in one launch: its first threads share the contacts, those that follow the limits.
"""

from __future__ import annotations

import warp as wp

from lab_newton.nerd.impulses.places_kernels import Places

wp.set_module_options({"enable_backward": False})

UNITS = wp.constant(8)
"""Outputs of a layer that a thread makes."""
Units = wp.types.vector(length=8, dtype=wp.float32)


@wp.struct
class Layer:
    """A linear layer over a list of places."""

    inputs: wp.array2d[wp.float32]
    """(I, C)."""
    weight: wp.array2d[wp.float32]
    """(I, O), O rounded up to whole ``UNITS``."""
    bias: wp.array[wp.float32]
    """(O,)."""


@wp.func
def remember(places: Places, place: wp.int32, first: wp.int32, inputs: wp.array2d[wp.float32]):
    for row in range(places.memory.shape[0]):
        inputs[first + row, place] = places.memory[row, place]


@wp.func
def look_at_contact(
    places: Places,
    place: wp.int32,
    velocity: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
    dt: wp.float32,
    inputs: wp.array2d[wp.float32],
):
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


@wp.func
def look_at_limit(
    places: Places,
    place: wp.int32,
    velocity: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
    inputs: wp.array2d[wp.float32],
):
    world, dof = places.world[place], places.slot[place]
    speed = places.sign[place] * (velocity[dof, world] + change[dof, world])
    inputs[0, place] = wp.clamp(places.gap[place] / 0.05, -3.0, 3.0)
    inputs[1, place] = speed / 5.0
    inputs[2, place] = wp.clamp(places.own[0, 0, place] * places.impulse[0, place], -5.0, 5.0)
    inputs[3, place] = wp.log(places.own[0, 0, place])
    remember(places, place, 4, inputs)


@wp.kernel
def look(
    velocity: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
    dt: wp.float32,
    contacts: Places,
    limits: Places,
    of_contacts: wp.array2d[wp.float32],
    of_limits: wp.array2d[wp.float32],
):
    """What layers see of contacts (15 + S, C) and limits (4 + S, C), with the impulses so far."""
    thread = wp.tid()
    if thread < contacts.threads:
        for place in range(thread, contacts.total[0], contacts.threads):
            look_at_contact(contacts, place, velocity, change, dt, of_contacts)
    else:
        for place in range(thread - contacts.threads, limits.total[0], limits.threads):
            look_at_limit(limits, place, velocity, change, of_limits)


@wp.func
def units_of(layer: Layer, first: wp.int32, place: wp.int32) -> Units:
    """``UNITS`` outputs of a layer, so that an input is read once for all of them."""
    values = Units()
    for unit in range(UNITS):
        values[unit] = layer.bias[first + unit]
    for i in range(layer.weight.shape[0]):
        value = layer.inputs[i, place]
        for unit in range(UNITS):
            values[unit] += layer.weight[i, first + unit] * value
    return values


@wp.func
def activate(layer: Layer, first: wp.int32, place: wp.int32, outputs: wp.array2d[wp.float32]):
    values = units_of(layer, first, place)
    for unit in range(UNITS):
        if first + unit < outputs.shape[0]:
            outputs[first + unit, place] = values[unit] / (1.0 + wp.exp(-values[unit]))


@wp.kernel
def apply_layers(
    contacts: Places,
    limits: Places,
    of_contacts: Layer,
    of_limits: Layer,
    seen_of_contacts: wp.array2d[wp.float32],
    seen_of_limits: wp.array2d[wp.float32],
):
    """Outputs (O, C) of a linear layer with SiLU for contacts, and of another one for limits.

    Launch over (O / UNITS, all threads), rounded up, for the wider one.
    """
    block, thread = wp.tid()
    first = block * UNITS
    if thread < contacts.threads:
        if first < of_contacts.bias.shape[0]:
            for place in range(thread, contacts.total[0], contacts.threads):
                activate(of_contacts, first, place, seen_of_contacts)
    else:
        if first < of_limits.bias.shape[0]:
            for place in range(thread - contacts.threads, limits.total[0], limits.threads):
                activate(of_limits, first, place, seen_of_limits)


@wp.func
def push_place(places: Places, place: wp.int32, layer: Layer, first: wp.int32):
    """Adds outputs to impulses and memory: changes of the place's own velocity come first, all in one block."""
    values = units_of(layer, first, place)
    size = places.impulse.shape[0]
    if first == 0:
        for row in range(size):
            for col in range(size):
                places.impulse[row, place] += places.inverse[row, col, place] * values[col]
    for unit in range(UNITS):
        row = first + unit - size
        if row >= 0 and row < places.memory.shape[0]:
            places.memory[row, place] += values[unit]


@wp.kernel
def push(
    contacts: Places,
    limits: Places,
    of_contacts: Layer,
    of_limits: Layer,
):
    """Changes impulses and memories by the outputs (R + S) of the last layers. Launch as ``apply_layers``."""
    block, thread = wp.tid()
    first = block * UNITS
    if thread < contacts.threads:
        if first < of_contacts.bias.shape[0]:
            for place in range(thread, contacts.total[0], contacts.threads):
                push_place(contacts, place, of_contacts, first)
    else:
        if first < of_limits.bias.shape[0]:
            for place in range(thread - contacts.threads, limits.total[0], limits.threads):
                push_place(limits, place, of_limits, first)


@wp.kernel
def gather_changes(
    contacts: Places,
    limits: Places,
    response: wp.array3d[wp.float32],
    free: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
):
    """Changes of velocity (V, N): those without contacts, and what all impulses of a world add. Launch over (V, N)."""
    dof, world = wp.tid()
    total = free[dof, world]
    for i in range(contacts.count[world]):
        place = contacts.first[world] + i
        for row in range(3):
            total += contacts.reach[row, dof, place] * contacts.impulse[row, place]
    for i in range(limits.count[world]):
        place = limits.first[world] + i
        total += response[dof, limits.slot[place], world] * limits.sign[place] * limits.impulse[0, place]
    change[dof, world] = total
