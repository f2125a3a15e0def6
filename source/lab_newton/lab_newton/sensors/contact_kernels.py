"""Kernels of the contact sensor.

Forces are summed in fixed point: a sum of whole numbers does not depend on the order in which threads add to it.
"""

from __future__ import annotations

import warp as wp

from lab_newton.sensors.contact_times_kernels import ContactTimes, clear_times, count_step

wp.set_module_options({"enable_backward": False})

STEPS_PER_NEWTON = wp.constant(float(2**20))
"""Resolution of the sums: about a micronewton."""
LARGEST_FORCE = wp.constant(1.0e11)
"""Of one contact [N]. Eighty of them fit into a sum."""


@wp.struct
class ForceArrays:
    """Buffers of :class:`lab_core.sensors.ContactSensorData` beside its times."""

    net_forces_w: wp.array2d[wp.vec3]
    net_forces_w_history: wp.array3d[wp.vec3]
    force_matrix_w: wp.array3d[wp.vec3]
    force_matrix_w_history: wp.array4d[wp.vec3]


@wp.kernel
def add_forces(
    count: wp.array[wp.int32],
    contact_world: wp.array[wp.int32],
    contact_geom: wp.array[wp.vec2i],
    contact_force: wp.array[wp.spatial_vector],
    row_of_geom: wp.array[wp.int32],
    is_party: wp.array2d[wp.bool],
    num_parties: wp.int32,
    sums: wp.array4d[wp.int64],
):
    """Adds each contact's force to its bodies. Launch over the capacity for contacts.

    ``contact_force`` acts on the second geom of a contact, in the world frame. ``sums`` is (N, B, 1 + M, 3): net
    force, then the force from each party.
    """
    contact = wp.tid()
    if contact >= count[0]:
        return
    world = contact_world[contact]
    geoms = contact_geom[contact]
    if geoms[0] < 0 or geoms[1] < 0:  # of a cloth or soft body
        return
    force = wp.spatial_top(contact_force[contact])
    for side in range(2):
        row = row_of_geom[geoms[side]]
        if row >= 0:
            other = geoms[1 - side]
            sign = 2.0 * float(side) - 1.0
            for axis in range(3):
                newtons = wp.clamp(sign * force[axis], -LARGEST_FORCE, LARGEST_FORCE)
                value = wp.int64(wp.round(newtons * STEPS_PER_NEWTON))
                wp.atomic_add(sums, world, row, 0, axis, value)
                for party in range(num_parties):
                    if is_party[party, other]:
                        wp.atomic_add(sums, world, row, 1 + party, axis, value)


@wp.kernel
def update(
    sums: wp.array4d[wp.int64],
    share: wp.float32,
    force_threshold: wp.float32,
    dt: wp.float32,
    sensor: ForceArrays,
    times: ContactTimes,
):
    """Sums times ``share`` -> forces, history, counters and times; empties the sums. Launch over (N, B)."""
    world, body = wp.tid()
    force = _take(sums, world, body, 0, share)
    sensor.net_forces_w[world, body] = force
    parties = sums.shape[2] - 1
    for party in range(parties):
        sensor.force_matrix_w[world, body, party] = _take(sums, world, body, 1 + party, share)

    oldest = sensor.net_forces_w_history.shape[1] - 1
    for step in range(oldest):
        age = oldest - step
        sensor.net_forces_w_history[world, age, body] = sensor.net_forces_w_history[world, age - 1, body]
        for party in range(parties):
            sensor.force_matrix_w_history[world, age, body, party] = sensor.force_matrix_w_history[
                world, age - 1, body, party
            ]
    sensor.net_forces_w_history[world, 0, body] = force
    for party in range(parties):
        sensor.force_matrix_w_history[world, 0, body, party] = sensor.force_matrix_w[world, body, party]

    count_step(times, world, body, wp.length(force) > force_threshold, dt)


@wp.func
def _take(sums: wp.array4d[wp.int64], world: wp.int32, body: wp.int32, party: wp.int32, share: wp.float32) -> wp.vec3:
    force = wp.vec3()
    for axis in range(3):
        force[axis] = float(wp.float64(sums[world, body, party, axis]) / wp.float64(STEPS_PER_NEWTON)) * share
        sums[world, body, party, axis] = wp.int64(0)
    return force


@wp.kernel
def clear(mask: wp.array[wp.bool], sensor: ForceArrays, times: ContactTimes):
    """Empties the worlds of ``mask``. Launch over (N, B)."""
    world, body = wp.tid()
    if not mask[world]:
        return
    sensor.net_forces_w[world, body] = wp.vec3()
    for age in range(sensor.net_forces_w_history.shape[1]):
        sensor.net_forces_w_history[world, age, body] = wp.vec3()
    for party in range(sensor.force_matrix_w.shape[2]):
        sensor.force_matrix_w[world, body, party] = wp.vec3()
        for age in range(sensor.force_matrix_w_history.shape[1]):
            sensor.force_matrix_w_history[world, age, body, party] = wp.vec3()
    clear_times(times, world, body)
