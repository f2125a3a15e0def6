"""When timers that are counted down step by step run out; twin of :mod:`lab_core.managers.timers`."""

from __future__ import annotations

import warp as wp

from lab_core.managers import timers

wp.set_module_options({"enable_backward": False})

_SLACK = wp.constant(timers.SLACK)


@wp.func
def ran_out(time_left: wp.float32, dt: wp.float32) -> wp.bool:
    return time_left <= _SLACK * dt
