"""Twins of :mod:`lab_core.mdp.metrics`, which says what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_warp.env import ManagerBasedWarpEnv
from lab_warp.launches import per_env
from lab_warp.mdp import metrics_kernels as kernels
from lab_warp.twins import twin_of


@twin_of(mdp.survived)
def survived(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    per_env(env, kernels.survived, out, env.termination_manager.warp.time_outs)


@twin_of(mdp.velocity_tracked)
def velocity_tracked(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, max_error_xy: float = 0.5, max_error_yaw: float = 0.4
) -> None:
    errors = env.command_manager.get_term(command_name).metrics
    xy, yaw = (wp.from_torch(errors[name]) for name in ("error_vel_xy", "error_vel_yaw"))
    per_env(env, kernels.velocity_tracked, out, xy, yaw, max_error_xy, max_error_yaw)
