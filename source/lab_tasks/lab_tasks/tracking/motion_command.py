"""The command to move as a clip does, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab_core.config import MISSING
from lab_core.env import Env
from lab_core.kinematics import ForwardKinematics
from lab_core.managers import TermError
from lab_core.masks import masked_copy_
from lab_core.math import com_lin_vel_from_link
from lab_core.mdp import ClipCommandCfg, ClipCommandTerm, ClipReference
from lab_core.names import match_names
from lab_core.physics import Ghost
from lab_tasks.motions import DEMO_CLIPS, MotionClip, MotionLibrary, demo_clip, g1_model, load_clip
from lab_tasks.tracking.motion_target import KeyBodies, MotionTarget


@dataclass(kw_only=True)
class MotionCommandCfg(ClipCommandCfg):
    """See :class:`MotionCommand`."""

    clips: tuple[str, ...] = DEMO_CLIPS
    """Files of ``lab motion``, ending in .npz, and names of demo motions of the G1 (``lab motion demo``)."""
    asset_name: str = "robot"
    """Articulation that follows."""
    body_names: tuple[str, ...] = MISSING
    """Key bodies, whose poses and velocities the task compares, in this order."""
    anchor_body: str = MISSING
    """Key body that stands for the whole robot in its errors."""
    score_rewards: str = "motion_.*"
    """Rewards, by a regular expression, whose sum as a share of the sum of their weights is the score of a step."""

    def build(self, env: Env) -> MotionCommand:
        return MotionCommand(self, env)


@dataclass(kw_only=True)
class MotionReference(ClipReference):
    """Frames of motions."""

    target: MotionTarget
    keys: KeyBodies


class MotionCommand(ClipCommandTerm):
    """Shows the positions (J) and velocities (J) of the joints in a frame of a motion, and keeps the bodies beside
    them, for rewards and observations.

    The sampler learns from the score of each step. Metrics are the present errors, see :meth:`update_metrics`.

    Raises:
        MotionError: a clip is not there, or not of this robot.
        UnknownNameError: a key body is not there.
        TermError: the anchor is no key body, or no reward makes up the score.
    """

    cfg: MotionCommandCfg

    def __init__(self, cfg: MotionCommandCfg, env: Env) -> None:
        entity = env.scene[cfg.asset_name]
        self.library = MotionLibrary(load_clips(cfg.clips), entity.joint_names, 1.0 / env.step_dt, env.device)
        super().__init__(cfg, env, self.library.names, self.library.lengths.tolist(), 2 * len(entity.joint_names))
        self._entity = entity
        self.keys = _key_bodies(cfg, entity.body_names, env.device)
        self._rows = self.scratch(self._all_frames(env))
        self._shown = torch.zeros(env.num_envs, self._rows.shape[1], device=env.device)
        self.target = self._unpack(self._shown)
        """What the policy is shown now, of all N environments."""
        self._command = self._shown[:, : 2 * len(entity.joint_names)]
        for name in ("error_anchor_pos", "error_body_pos", "error_joint_pos"):
            self.metrics[name] = torch.zeros(env.num_envs, device=env.device)
        self._update_command(torch.ones(env.num_envs, dtype=torch.bool, device=env.device))

    @property
    def clip_hashes(self) -> Mapping[str, str]:
        return self.library.hashes

    def update_metrics(self) -> None:
        """Keeps the present errors: of the anchor's position [m], the mean over key bodies [m], and that over joints
        [rad]; and tells the sampler the score of the step."""
        data = self._entity.data
        pos = data.body_link_pose_w.index_select(1, self.keys.ids)[..., :3] - self._env.scene.env_origins[:, None]
        errors = (pos - self.target.body_pos).norm(dim=-1)
        self.metrics["error_anchor_pos"].copy_(errors[:, self.keys.anchor])
        self.metrics["error_body_pos"].copy_(errors.mean(dim=1))
        self.metrics["error_joint_pos"].copy_((data.joint_pos - self.target.joint_pos).abs().mean(dim=1))
        failed = self._env.termination_manager.terminated  # pyright: ignore[reportAttributeAccessIssue]
        self.sampler.update(self.clip, self.frame, self.score(), failed, torch.ones_like(failed))

    def score(self) -> torch.Tensor:
        """Returns how well the last step followed the motion (N,), 1 at best."""
        manager: Any = self._env.reward_manager  # pyright: ignore[reportAttributeAccessIssue]
        columns, weights = self.scored_rewards()
        return torch.stack([manager.step_reward[:, column] for column in columns]).sum(dim=0) / weights

    def scored_rewards(self) -> tuple[list[int], float]:
        """Returns the columns of the rewards that make up the score, and the sum of their weights now.

        Raises:
            TermError: the weights do not add up to more than 0.
        """
        manager: Any = self._env.reward_manager  # pyright: ignore[reportAttributeAccessIssue]
        names: list[str] = manager.find_terms(self.cfg.score_rewards)
        weights = sum(manager.weights[name] for name in names)
        if not weights > 0.0:
            raise TermError(f"The weights of the rewards {', '.join(names)} must add up to more than 0.")
        return [manager.term_names.index(name) for name in names], weights

    def ghosts(self) -> Sequence[Ghost]:
        """Returns the robot as the motion has it now."""
        root = self.target.root_pose.clone()
        root[:, :3] += self._env.scene.env_origins
        return (Ghost(entity=self.cfg.asset_name, root_pose_w=root, joint_pos=self.target.joint_pos.clone()),)

    def _reference(self, clip: torch.Tensor, frame: torch.Tensor, at_end: torch.Tensor) -> MotionReference:
        rows = self._lookup(clip, frame)
        target = self._unpack(rows)
        command = rows[:, : 2 * target.joint_pos.shape[1]]
        return MotionReference(clip=clip, frame=frame, at_end=at_end, command=command, target=target, keys=self.keys)

    def _update_command(self, mask: torch.Tensor) -> None:
        masked_copy_(self._shown, self._lookup(self.clip, self.frame), mask)

    def _lookup(self, clip: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        return self._rows.index_select(0, self.library.index(clip, frame))

    def _unpack(self, rows: torch.Tensor) -> MotionTarget:
        return MotionTarget.unpack(rows, len(self._entity.joint_names), len(self.keys.names))

    def _all_frames(self, env: Env) -> torch.Tensor:
        """Returns the rows (F, D) of all frames of all clips."""
        frames, tree = self.library.frames, env.physics.kinematic_tree(self.cfg.asset_name)
        com = torch.tensor(tree.centers_of_mass[0], device=env.device)
        root_pose = torch.cat((frames.root_pos_w, frames.root_quat_w), dim=1)
        lin = com_lin_vel_from_link(frames.root_lin_vel_w, frames.root_ang_vel_w, frames.root_quat_w, com)
        bodies = ForwardKinematics(tree, self.cfg.body_names, env.device).states(
            frames.joint_pos, frames.joint_vel, root_pose, torch.cat((lin, frames.root_ang_vel_w), dim=1)
        )
        return MotionTarget.pack(frames, bodies)


def load_clips(clips: Sequence[str]) -> list[MotionClip]:
    """Returns the clips of files (.npz) and of names of demo motions.

    Raises:
        MotionError: one is not there, or its file holds something else.
    """
    robot = None if all(map(_is_file, clips)) else g1_model()
    return [load_clip(Path(clip)) if _is_file(clip) else demo_clip(clip, robot) for clip in clips]


def _is_file(clip: str) -> bool:
    return clip.endswith(".npz")


def _key_bodies(cfg: MotionCommandCfg, body_names: Sequence[str], device: torch.device) -> KeyBodies:
    ids = match_names(cfg.body_names, body_names, what=f"body of {cfg.asset_name!r}", preserve_order=True)
    names = tuple(body_names[body] for body in ids)
    if cfg.anchor_body not in names:
        raise TermError(f"anchor_body {cfg.anchor_body!r} must be one of the body_names {', '.join(names)}.")
    anchor = names.index(cfg.anchor_body)
    return KeyBodies(names, torch.tensor(ids, device=device), anchor, ids[anchor])
