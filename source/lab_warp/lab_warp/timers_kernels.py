"""When timers that are counted down step by step run out; twin of :mod:`lab_core.managers.timers`."""

from __future__ import annotations

import warp as wp

from lab_core.managers import SLACK

wp.set_module_options({"enable_backward": False})

_SLACK = wp.constant(SLACK)


@wp.func
def ran_out(time_left: wp.float32, dt: wp.float32) -> wp.bool:
    return time_left <= _SLACK * dt
