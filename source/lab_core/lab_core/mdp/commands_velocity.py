"""Commands of a velocity to move at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch

from lab_core.config import MISSING
from lab_core.env import Env
from lab_core.managers import CommandTermCfg, TermError
from lab_core.managers.checks import check_range
from lab_core.markers import BLUE, GREEN, ArrowMarkers, Markers
from lab_core.masks import masked_copy_
from lab_core.math import wrap_to_pi
from lab_core.mdp.commands_settable import SettableCommandTerm
from lab_core.physics import CommandComponent
from lab_core.sampling import uniform


@runtime_checkable
class WalkingCommand(Protocol):
    """A command that knows how far its episodes ask to walk; their ways are compared with that."""

    start_pos_w: torch.Tensor
    """(N, 2) where the root link began the episode, world frame [m]."""
    asked_displacement_w: torch.Tensor
    """(N, 2) sum of the asked velocities of the episode's steps times their duration, each in the heading that the
    robot had, world axes [m]: where someone who did as asked would be, seen from the start."""


@dataclass(kw_only=True)
class UniformVelocityRanges:
    """Bounds of the uniform draws."""

    lin_vel_x: tuple[float, float] = MISSING
    """[m/s]."""
    lin_vel_y: tuple[float, float] = MISSING
    """[m/s]."""
    ang_vel_z: tuple[float, float] = MISSING
    """[rad/s]."""
    heading: tuple[float, float] | None = None
    """[rad]; needed with ``heading_command``."""


@dataclass(kw_only=True)
class UniformVelocityCommandCfg(CommandTermCfg):
    """See :class:`UniformVelocityCommand`."""

    asset_name: str = "robot"
    ranges: UniformVelocityRanges = field(default_factory=UniformVelocityRanges)
    heading_command: bool = False
    """Steer the yaw rate towards a drawn heading instead of drawing it."""
    heading_control_stiffness: float = 1.0
    """Yaw rate per heading error [1/s]."""
    rel_heading_envs: float = 1.0
    """Share of commands that steer by heading, where ``heading_command`` is set."""
    rel_standing_envs: float = 0.0
    """Share of commands to stand still."""
    marker_height: float = 0.5
    """Where its arrows are drawn, above the root link [m]."""

    def build(self, env: Env) -> UniformVelocityCommand:
        return UniformVelocityCommand(self, env)


class UniformVelocityCommand(SettableCommandTerm):
    """Velocity (v_x, v_y, w_z) in the root-link frame (N, 3) [m/s, m/s, rad/s].

    With a heading command w_z = clip(stiffness * wrap_to_pi(heading* - heading), ang_vel_z range) in every step.
    Metrics: episode means of the errors ``error_vel_xy`` [m/s] and ``error_vel_yaw`` [rad/s]. It is a
    :class:`WalkingCommand`.

    Raises:
        TermError: ``heading_command`` without a heading range, or a share outside 0 .. 1.
    """

    def __init__(self, cfg: UniformVelocityCommandCfg, env: Env) -> None:
        super().__init__(cfg, env, num_components=3)
        self._data = env.scene[cfg.asset_name].data
        self.heading_target = torch.zeros(env.num_envs, device=env.device)
        """(N,) [rad]."""
        self.is_heading_env = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.is_standing_env = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.start_pos_w = self._data.root_link_pose_w[:, :2].clone()
        self.asked_displacement_w = torch.zeros(env.num_envs, 2, device=env.device)
        self._metric_steps = torch.zeros(env.num_envs, device=env.device)
        self.metrics["error_vel_xy"] = torch.zeros(env.num_envs, device=env.device)
        self.metrics["error_vel_yaw"] = torch.zeros(env.num_envs, device=env.device)
        self.set_cfg(cfg)

    @property
    def components(self) -> tuple[CommandComponent, ...]:
        ranges = self.cfg.ranges
        return (
            CommandComponent("lin_vel_x", "m/s", *ranges.lin_vel_x),
            CommandComponent("lin_vel_y", "m/s", *ranges.lin_vel_y),
            CommandComponent("ang_vel_z", "rad/s", *ranges.ang_vel_z),
        )

    def set_cfg(self, cfg: UniformVelocityCommandCfg) -> None:
        if cfg.asset_name != self.cfg.asset_name:
            raise TermError("asset_name cannot change while the environment runs.")
        if cfg.heading_command and cfg.ranges.heading is None:
            raise TermError("heading_command needs ranges.heading.")
        for share in ("rel_heading_envs", "rel_standing_envs"):
            if not 0.0 <= getattr(cfg, share) <= 1.0:
                raise TermError(f"{share} must be in 0 .. 1, got {getattr(cfg, share)}.")
        for name in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading"):
            bounds = getattr(cfg.ranges, name)
            if bounds is not None:
                check_range(bounds, f"ranges.{name}")
        super().set_cfg(cfg)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        log = super().reset(mask)
        masked_copy_(self._metric_steps, 0.0, mask)
        masked_copy_(self.asked_displacement_w, 0.0, mask)
        masked_copy_(self.start_pos_w, self._data.root_link_pose_w[:, :2], mask)
        return log

    def _resample(self, mask: torch.Tensor) -> None:
        ranges = self.cfg.ranges
        drawn = [self._draw(ranges.lin_vel_x), self._draw(ranges.lin_vel_y), self._draw(ranges.ang_vel_z)]
        masked_copy_(self._command, torch.stack(drawn, dim=1), mask)
        if self.cfg.heading_command:
            masked_copy_(self.heading_target, self._draw(ranges.heading), mask)
            masked_copy_(self.is_heading_env, self._draw((0.0, 1.0)) < self.cfg.rel_heading_envs, mask)
        masked_copy_(self.is_standing_env, self._draw((0.0, 1.0)) < self.cfg.rel_standing_envs, mask)

    def _update_command(self, mask: torch.Tensor) -> None:
        if self.cfg.heading_command:
            error = wrap_to_pi(self.heading_target - self._data.heading_w)
            yaw_rate = (self.cfg.heading_control_stiffness * error).clamp(*self.cfg.ranges.ang_vel_z)
            masked_copy_(self._command[:, 2], yaw_rate, self.is_heading_env & mask)
        masked_copy_(self._command, 0.0, self.is_standing_env & mask)

    def update_metrics(self) -> None:
        self._metric_steps.add_(1.0)
        errors = {
            "error_vel_xy": (self._command[:, :2] - self._data.root_com_lin_vel_b[:, :2]).norm(dim=1),
            "error_vel_yaw": (self._command[:, 2] - self._data.root_ang_vel_b[:, 2]).abs(),
        }
        for name, error in errors.items():
            mean = self.metrics[name]
            mean.add_((error - mean) / self._metric_steps)
        x, y = (self._command[:, :2] * self._env.step_dt).unbind(dim=1)
        cos, sin = self._data.heading_w.cos(), self._data.heading_w.sin()
        self.asked_displacement_w.add_(torch.stack((cos * x - sin * y, sin * x + cos * y), dim=1))

    def markers(self) -> Sequence[Markers]:
        """Returns the velocities above the robot, asked for in green and reached in blue: 1 m/s is half a metre long,
        and a yaw rate of 1 rad/s a quarter, along the vertical axis that it turns about."""
        pose, heading = self._data.root_link_pose_w, self._data.heading_w
        start = pose[:, None, :3] + torch.tensor((0.0, 0.0, self.cfg.marker_height), device=pose.device)
        reached = torch.cat((self._data.root_com_lin_vel_b[:, :2], self._data.root_ang_vel_b[:, 2:]), dim=1)
        return [
            ArrowMarkers(start_w=start.expand(-1, 2, -1), vector_w=_arrows(velocity, heading), color=color)
            for velocity, color in ((self._command, GREEN), (reached, BLUE))
        ]

    def _draw(self, bounds: tuple[float, float]) -> torch.Tensor:
        return uniform(*bounds, (self._env.num_envs,), self._env.generator)


def _arrows(velocity: torch.Tensor, heading: torch.Tensor) -> torch.Tensor:
    """Returns horizontal and vertical vectors in the world (N, 2, 3) for velocities (N, 3) in headings (N,) [rad]."""
    cos, sin = heading.cos(), heading.sin()
    arrows = velocity.new_zeros(len(velocity), 2, 3)
    arrows[:, 0, 0] = 0.5 * (cos * velocity[:, 0] - sin * velocity[:, 1])
    arrows[:, 0, 1] = 0.5 * (sin * velocity[:, 0] + cos * velocity[:, 1])
    arrows[:, 1, 2] = 0.25 * velocity[:, 2]
    return arrows
