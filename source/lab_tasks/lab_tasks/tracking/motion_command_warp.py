"""Twin of :mod:`lab_tasks.tracking.motion_command`, which says what it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg, TermError
from lab_tasks.tracking import rewards_kernels as kernels
from lab_tasks.tracking.motion_command import MotionCommand, MotionCommandCfg
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.mdp import ClipCommandWarp, ClipSamplerWarp
from lab_warp.twins import twin_of


@twin_of(MotionCommandCfg)
class MotionCommandWarp(ClipCommandWarp, MotionCommand):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Frames move and are shown in two launches; errors, scores and the sampler take three."""

    def __init__(self, cfg: MotionCommandCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self.starts = self.scratch(ClipSamplerWarp(self.sampler, env))
        """Draws clips and frames, for reset events."""
        self.shown = wp.from_torch(self._shown)
        self.body_pos = wp.from_torch(self.target.body_pos, dtype=wp.vec3)
        self.body_quat = wp.from_torch(self.target.body_quat, dtype=wp.quat)
        self.body_lin_vel = wp.from_torch(self.target.body_lin_vel, dtype=wp.vec3)
        self.body_ang_vel = wp.from_torch(self.target.body_ang_vel, dtype=wp.vec3)
        self.body_ids = wp.from_torch(self.keys.ids)
        self._first_rows, self._table = wp.from_torch(self.library.starts), wp.from_torch(self._rows)
        self._score = wp.from_torch(self.scratch(torch.zeros(env.num_envs, device=env.device)))

    def bodies(self, asset_cfg: SceneEntityCfg) -> Any:
        """Returns the key bodies of a robot and of the motion for kernels, a :class:`rewards_kernels.Bodies`."""
        data, bodies = self._env.scene[asset_cfg.name].data.warp, kernels.Bodies()
        bodies.ids, bodies.anchor = self.body_ids, self.keys.anchor
        bodies.origins, bodies.pose = self._env.warp.env_origins, data.body_link_pose_w
        bodies.com_vel, bodies.com = data.body_com_vel_w, data.body_com_pos_b
        bodies.wanted_pos, bodies.wanted_quat = self.body_pos, self.body_quat
        bodies.wanted_lin_vel, bodies.wanted_ang_vel = self.body_lin_vel, self.body_ang_vel
        return bodies

    def update_metrics(self) -> None:
        env: Any = self._env
        rewards, asset_cfg = env.reward_manager, SceneEntityCfg(self.cfg.asset_name)
        columns, _ = self.scored_rewards()
        wp.launch(
            kernels.measure,
            dim=env.num_envs,
            inputs=[self.bodies(asset_cfg), self.shown, env.scene[asset_cfg.name].data.warp.joint_pos]
            + [rewards.warp.step_reward, rewards.warp.weights, bits(columns)],
            outputs=[*self._metric_arrays, self._score],
            device=env.wp_device,
        )
        self.starts.update(self.warp.clip, self.warp.frame, self._score, env.termination_manager.warp.terminated)

    def _show(self, mask: wp.array | None) -> None:
        self._show_rows(mask, self._first_rows, self._table, self.shown)


def find_motion(env: ManagerBasedWarpEnv, name: str) -> MotionCommandWarp:
    """Returns a motion command.

    Raises:
        TermError: the command is another one.
    """
    command = env.command_manager.get_term(name)
    if not isinstance(command, MotionCommandWarp):
        raise TermError(f"Command {name!r} must be of a motion, got {type(command).__name__}.")
    return command


def bits(places: Iterable[int]) -> Any:
    """Returns a few small numbers as the bits of one (uint64), for kernels: nothing that a graph must keep alive.

    Raises:
        TermError: a number is 64 or more.
    """
    places = set(places)
    if any(place >= 64 for place in places):
        raise TermError(f"Kernels of motion tracking tell 64 rewards and key bodies apart, got number {max(places)}.")
    return wp.uint64(sum(1 << place for place in places))
