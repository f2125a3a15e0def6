"""Commands to turn an entity to an orientation, and the next one as soon as it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from lab_core.config import NonNegative
from lab_core.env import Env
from lab_core.managers import CommandTerm, CommandTermCfg, TermError
from lab_core.managers.timers import ran_out
from lab_core.masks import masked_copy_
from lab_core.math import quat_error_magnitude, random_orientation
from lab_core.physics import Ghost


@runtime_checkable
class OrientationGoal(Protocol):
    """A command that says when its orientation counts as reached."""

    command: torch.Tensor
    """(N, 7) position relative to the environment's origin [m], then orientation, xyzw."""
    tolerance: torch.Tensor
    """(1,) largest angle at which the goal is reached [rad]."""
    is_given: torch.Tensor
    """(N,) bool, goals that were reached when a reset drew them: they count for nothing."""


@dataclass(kw_only=True)
class OrientationGoalCommandCfg(CommandTermCfg):
    """See :class:`OrientationGoalCommand`."""

    asset_name: str = "object"
    """Entity that is to be turned."""
    resampling_time_range: tuple[float, float] = (1e6, 1e6)
    """By default no goal is given up [s]."""
    pos_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Where the entity is to be, relative to its default position [m]."""
    tolerance: NonNegative = 0.1
    """Largest angle at which a goal is reached [rad]."""
    ghost_offset: tuple[float, float, float] | None = (0.0, 0.0, 0.2)
    """Where pictures show the goal, relative to its position [m]; None: nowhere."""

    def build(self, env: Env) -> OrientationGoalCommand:
        return OrientationGoalCommand(self, env)


class OrientationGoalCommand(CommandTerm):
    """Pose (N, 7) relative to the environment's origin: a fixed position [m] and a drawn orientation, xyzw.

    Orientations are uniform over all rotations; the next one is drawn in the step that reached the last, to within
    ``tolerance``, by mask. Rewards of that step see the goal that was reached. A goal that is reached already when a
    reset draws it is drawn anew after the first step and counts for nothing; see :func:`lab_core.mdp.success_bonus`.

    Metrics: at the end of the episode ``orientation_error`` [rad] and ``position_error`` [m], the goals reached in it,
    ``consecutive_success``, and ``success_rate``, goals / (goals + 1), since one goal is always open.
    """

    cfg: OrientationGoalCommandCfg

    def __init__(self, cfg: OrientationGoalCommandCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._data = env.scene[cfg.asset_name].data
        self._command = torch.zeros(env.num_envs, 7, device=env.device)
        self._command[:, 6] = 1.0
        self.tolerance = self.scratch(torch.zeros(1, device=env.device))
        self.is_given = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._pos_offset = self.scratch(torch.zeros(1, 3, device=env.device))
        for name in ("orientation_error", "position_error", "consecutive_success", "success_rate"):
            self.metrics[name] = torch.zeros(env.num_envs, device=env.device)
        self.set_cfg(cfg)

    @property
    def command(self) -> torch.Tensor:
        return self._command

    def set_cfg(self, cfg: OrientationGoalCommandCfg) -> None:
        """Takes over a changed configuration: the tolerance at once, the offset with the next draw."""
        if cfg.asset_name != self.cfg.asset_name:
            raise TermError("asset_name cannot change while the environment runs.")
        self.tolerance.fill_(cfg.tolerance)
        self._pos_offset.copy_(torch.tensor(cfg.pos_offset))
        super().set_cfg(cfg)

    def compute(self, dt: float) -> None:
        error = self._orientation_error()
        reached = (error <= self.tolerance) & ~self.is_given
        goals = self.metrics["consecutive_success"].add_(reached)
        self.metrics["success_rate"].copy_(goals / (goals + 1.0))
        self.time_left.sub_(dt)
        self._renew(ran_out(self.time_left, dt) | reached | self.is_given)

    def update_metrics(self) -> None:
        self.metrics["orientation_error"].copy_(self._orientation_error())
        position = self._data.root_link_pose_w[:, :3] - self._env.scene.env_origins
        self.metrics["position_error"].copy_((position - self._command[:, :3]).norm(dim=1))

    def ghosts(self) -> Sequence[Ghost]:
        """Returns the goal beside where the entity is to be."""
        if self.cfg.ghost_offset is None:
            return ()
        pose = self._command.clone()
        pose[:, :3] += self._env.scene.env_origins + pose.new_tensor(self.cfg.ghost_offset)
        return [Ghost(entity=self.cfg.asset_name, root_pose_w=pose)]

    def _resample(self, mask: torch.Tensor) -> None:
        position = self._data.default_root_pose[:, :3] + self._pos_offset
        orientation = random_orientation((self._env.num_envs,), self._env.generator)
        masked_copy_(self._command, torch.cat([position, orientation], dim=1), mask)
        masked_copy_(self.is_given, False, mask)

    def _update_command(self, mask: torch.Tensor) -> None:
        """Called for environments that were just reset: sees which goals are reached before anything has moved."""
        masked_copy_(self.is_given, self._orientation_error() <= self.tolerance, mask)

    def _orientation_error(self) -> torch.Tensor:
        return quat_error_magnitude(self._data.root_link_pose_w[:, 3:], self._command[:, 3:])
