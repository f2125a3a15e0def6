"""Kernels of the gap sensor."""

from __future__ import annotations

import warp as wp

from lab_newton.sensors.contact_times_kernels import ContactTimes, clear_times, count_step

wp.set_module_options({"enable_backward": False})


@wp.struct
class GapArrays:
    """Buffers of :class:`lab_core.sensors.GapSensorData` beside its times."""

    min_gap: wp.array2d[wp.float32]
    touch_history: wp.array3d[wp.bool]


@wp.kernel
def find_closest(
    count: wp.array[wp.int32],
    shape0: wp.array[wp.int32],
    shape1: wp.array[wp.int32],
    gaps: wp.array[wp.float32],
    shape_body: wp.array[wp.int32],
    row_of_body: wp.array[wp.int32],
    closest: wp.array2d[wp.float32],
):
    """Lowers ``closest`` (N, B) to the gap of each contact, on both its sides. Launch over the capacity for contacts.

    ``row_of_body`` is -1 for the bodies of a world that the sensor does not look at.
    """
    contact = wp.tid()
    if contact >= count[0]:
        return
    bodies = row_of_body.shape[0]
    for side in range(2):
        shape = shape0[contact]
        if side == 1:
            shape = shape1[contact]
        body = shape_body[shape]
        if body >= 0:
            world = body // bodies
            row = row_of_body[body - world * bodies]
            if row >= 0:
                wp.atomic_min(closest, world, row, gaps[contact])


@wp.kernel
def update(
    closest: wp.array2d[wp.float32],
    distance: wp.float32,
    touch_threshold: wp.float32,
    dt: wp.float32,
    sensor: GapArrays,
    times: ContactTimes,
):
    """Takes over the smallest gaps, and puts ``closest`` back to ``distance``. Launch over (N, B)."""
    world, body = wp.tid()
    gap = closest[world, body]
    closest[world, body] = distance
    touches = gap < touch_threshold
    sensor.min_gap[world, body] = gap
    oldest = sensor.touch_history.shape[1] - 1
    for age in range(oldest):
        sensor.touch_history[world, oldest - age, body] = sensor.touch_history[world, oldest - age - 1, body]
    sensor.touch_history[world, 0, body] = touches
    count_step(times, world, body, touches, dt)


@wp.kernel
def clear(mask: wp.array[wp.bool], distance: wp.float32, sensor: GapArrays, times: ContactTimes):
    """Empties the worlds of ``mask``. Launch over (N, B)."""
    world, body = wp.tid()
    if not mask[world]:
        return
    sensor.min_gap[world, body] = distance
    for age in range(sensor.touch_history.shape[1]):
        sensor.touch_history[world, age, body] = wp.bool(False)
    clear_times(times, world, body)
