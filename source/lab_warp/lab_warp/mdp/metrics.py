"""Twins of :mod:`lab_core.mdp.metrics`, which says what they return."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.twins import twin_of

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@twin_of(mdp.survived)
def survived(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    _launch(env, _survived, out, env.termination_manager.warp.time_outs)


@twin_of(mdp.velocity_tracked)
def velocity_tracked(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, max_error_xy: float = 0.5, max_error_yaw: float = 0.4
) -> None:
    errors = env.command_manager.get_term(command_name).metrics
    xy, yaw = (wp.from_torch(errors[name]) for name in ("error_vel_xy", "error_vel_yaw"))
    _launch(env, _velocity_tracked, out, xy, yaw, max_error_xy, max_error_yaw)


# Kernels, one thread per environment ------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


@wp.kernel
def _survived(time_outs: wp.array[wp.bool], out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.float32(time_outs[env])


@wp.kernel
def _velocity_tracked(
    error_xy: wp.array[wp.float32],
    error_yaw: wp.array[wp.float32],
    max_error_xy: wp.float32,
    max_error_yaw: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    out[env] = wp.float32(error_xy[env] < max_error_xy and error_yaw[env] < max_error_yaw)
