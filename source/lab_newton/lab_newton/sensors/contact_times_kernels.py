"""How long bodies touch something, and how long they do not: what sensors of forces and of gaps share."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class ContactTimes:
    """Buffers of :class:`lab_core.sensors.ContactTimesData`."""

    contact_steps: wp.array2d[wp.int32]
    air_steps: wp.array2d[wp.int32]
    current_contact_time: wp.array2d[wp.float32]
    current_air_time: wp.array2d[wp.float32]
    last_contact_time: wp.array2d[wp.float32]
    last_air_time: wp.array2d[wp.float32]


@wp.func
def count_step(times: ContactTimes, world: wp.int32, body: wp.int32, touches: wp.bool, dt: wp.float32):
    """Adds a substep of ``dt`` [s] to the present contact or flight, or begins one."""
    contact_steps = times.contact_steps[world, body]
    air_steps = times.air_steps[world, body]
    if touches:
        if air_steps > 0:
            times.last_air_time[world, body] = float(air_steps) * dt
        contact_steps += 1
        air_steps = 0
    else:
        if contact_steps > 0:
            times.last_contact_time[world, body] = float(contact_steps) * dt
        air_steps += 1
        contact_steps = 0
    times.contact_steps[world, body] = contact_steps
    times.air_steps[world, body] = air_steps
    times.current_contact_time[world, body] = float(contact_steps) * dt
    times.current_air_time[world, body] = float(air_steps) * dt


@wp.func
def clear_times(times: ContactTimes, world: wp.int32, body: wp.int32):
    """Begins anew, neither in contact nor in the air."""
    times.contact_steps[world, body] = 0
    times.air_steps[world, body] = 0
    times.current_contact_time[world, body] = 0.0
    times.current_air_time[world, body] = 0.0
    times.last_contact_time[world, body] = 0.0
    times.last_air_time[world, body] = 0.0
