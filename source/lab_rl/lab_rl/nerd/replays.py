"""What a model does from recorded states with recorded efforts, beside what its teacher did."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import newton
import torch
import warp as wp
from torch import Tensor

from lab_core.datasets import DatasetError
from lab_core.envs import RLEnv, make_env
from lab_core.scene import SceneCfg
from lab_newton import NeRDSolverCfg, NewtonCfg
from lab_newton.arrays import present
from lab_newton.nerd import NeRDSolver, Representation, RobotLayout
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.rollouts import positions, with_solver
from lab_rl.nerd.windows import window_starts


@dataclass(frozen=True)
class ReplayFigure:
    """Root mean squares over rollouts, of errors at one time."""

    root_position: float
    """Distance [m]."""
    root_angle: float
    """[rad]"""
    joints: float
    """Of all joints [rad or m]."""
    count: int
    """Rollouts that last as long."""
    diverged: int
    """Those among them that were not finite, too fast, or in more contacts than there are places; not in the means."""


@dataclass(frozen=True)
class ReplayErrors:
    """Errors of rollouts by time and regime."""

    times: tuple[float, ...]
    """Since the start [s]."""
    regimes: tuple[str, ...]
    regime: Tensor
    """(N,) index into :attr:`regimes`."""
    lasts: Tensor
    """(T, N) bool, whether the recording goes on for as long."""
    finite: Tensor
    """(T, N) bool, whether the model had not diverged yet."""
    errors: Tensor
    """(T, N, 3) of root position [m], root angle [rad], and joints (root mean square) [rad or m]."""

    def at(self, regime: str, seconds: float) -> ReplayFigure:
        """Returns the figures of a regime at one of :attr:`times`; NaN where there is no rollout."""
        time = self.times.index(seconds)
        asked = self.lasts[time] & (self.regime == self.regimes.index(regime))
        counted = asked & self.finite[time]
        position, angle, joints = self.errors[time, counted].square().mean(0).sqrt().tolist()
        return ReplayFigure(position, angle, joints, int(asked.sum()), int((asked & ~counted).sum()))


def recorded_rollouts(
    cfg: Any,
    model: Path,
    steps: PhysicsSteps,
    layout: RobotLayout,
    entity: str,
    times: Sequence[float],
    num_envs: int,
    device: str,
    seed: int | None = None,
) -> ReplayErrors:
    """Lets a model go on from recorded states by itself, with recorded efforts in place of those of the actuators.

    Bodies collide with the ground of ``cfg``, as the model moves them: contacts are its own, not the recorded ones. Its
    history begins empty.

    Args:
        cfg: Configuration of the environment of the recording.
        model: File of the model.
        steps: Held-out steps.
        layout: The robot, with a free root.
        entity: Its name in the scene.
        times: When to compare [s], rising.
        num_envs: Rollouts, shared by the regimes.
        device: Where to compute.
        seed: Of the choice of states; None: 0.

    Raises:
        DatasetError: no recorded steps follow each other for the first of the times.
    """
    counts = [max(round(time / layout.dt), 1) for time in times]
    starts, lengths = choose_starts(steps, counts, num_envs, 0 if seed is None else seed)
    cfg = with_solver(
        without_ends(cfg, len(starts)), _DrivenSolverCfg(model=str(model.resolve()), teacher=cfg.physics.solver)
    )
    env = make_env(cfg, device, "torch")
    try:
        return _run(env, steps.to(device), layout, entity, starts.to(device), lengths.to(device), counts)
    finally:
        env.close()


def choose_starts(steps: PhysicsSteps, counts: Sequence[int], num: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draws rows to begin at, as many of each regime, where the longest of ``counts`` steps follow that it has.

    Returns:
        Rows and the number of steps that follow each, both (N,); regimes that have none are left out.

    Raises:
        DatasetError: there are none at all.
    """
    generator = torch.Generator().manual_seed(seed)
    starts, lengths = [], []
    for regime in range(len(steps.regimes)):
        for count in sorted(counts, reverse=True):
            try:
                rows = window_starts(steps, count).cpu()
            except DatasetError:
                continue
            rows = rows[steps.regime.cpu()[rows] == regime]
            if len(rows):
                chosen = rows[torch.randperm(len(rows), generator=generator)[: max(num // len(steps.regimes), 1)]]
                starts.append(chosen)
                lengths.append(torch.full_like(chosen, count))
                break
    if not starts:
        raise DatasetError(f"No {min(counts)} recorded physics steps follow each other without a break.")
    return torch.cat(starts), torch.cat(lengths)


@torch.no_grad()
def _run(
    env: RLEnv,
    steps: PhysicsSteps,
    layout: RobotLayout,
    entity: str,
    starts: Tensor,
    lengths: Tensor,
    counts: Sequence[int],
) -> ReplayErrors:
    representation = Representation(layout).to(env.device)
    solver = env.physics.solver  # pyright: ignore[reportAttributeAccessIssue]
    begin = begin_at(env, steps, layout, entity, starts)
    finite = torch.ones(len(starts), dtype=torch.bool, device=env.device)
    errors, still = [], []
    for step in range(max(counts)):
        rows = starts + torch.clamp(lengths - 1, max=step)
        solver.effort[:, -layout.num_joints :] = steps.effort[rows]
        env.physics.step(1)
        lost = env.physics.non_finite.clone()
        if solver.inner.contact_set is not None:
            lost |= wp.to_torch(solver.inner.contact_set.excess) > 0.0
        finite &= ~lost
        if lost.any():
            env.reset_to(begin, lost, is_relative=True)  # or it takes the places of the others' contacts
        if step + 1 in counts:
            off = representation.pose_change(steps.q_next[rows], positions(env, entity, layout))
            parts = (off[:, :3].norm(dim=1), off[:, 3:6].norm(dim=1), off[:, 6:].square().mean(1).sqrt())
            errors.append(torch.stack(parts, dim=1))
            still.append(finite.clone())
    ends = torch.tensor(counts, device=env.device)
    return ReplayErrors(
        times=tuple(count * layout.dt for count in counts),
        regimes=steps.regimes,
        regime=steps.regime[starts].cpu(),
        lasts=(ends[:, None] <= lengths).cpu(),
        finite=torch.stack(still).cpu(),
        errors=torch.stack(errors).cpu(),
    )


def begin_at(env: RLEnv, steps: PhysicsSteps, layout: RobotLayout, entity: str, starts: Tensor) -> dict[str, Any]:
    """Puts each environment where a step began, on the ground that it began on, and returns that state."""
    if steps.origin is not None:
        env.scene.env_origins.copy_(steps.origin[starts])
    state = env.scene.get_state(is_relative=True)
    robot = state["articulation"][entity]
    q, qd = steps.q[starts], steps.qd[starts]
    robot["root_pose"][:], robot["root_velocity"][:] = q[:, :7], qd[:, :6]
    robot["joint_position"][:], robot["joint_velocity"][:] = q[:, 7:], qd[:, 6:]
    env.reset_to(state, is_relative=True)
    return state


def without_ends(cfg: Any, num_envs: int) -> Any:
    """Returns the settings of an environment with ``num_envs`` and without anything that resets, pushes or pays."""
    cfg = copy.deepcopy(cfg)
    cfg.scene.num_envs = num_envs
    cfg.recorder = None
    for group in ("terminations", "rewards", "metrics", "curriculum", "events"):
        if hasattr(cfg, group):
            setattr(cfg, group, {})
    return cfg


@dataclass(kw_only=True)
class _DrivenSolverCfg(NeRDSolverCfg):
    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> _DrivenSolver:
        return _DrivenSolver(self, model, physics, scene)


class _DrivenSolver(NeRDSolver):
    """A learned model that is moved by efforts that are given, whatever the actuators say."""

    def __init__(self, cfg: NeRDSolverCfg, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> None:
        super().__init__(cfg, model, physics, scene)
        self._effort = wp.zeros(model.joint_dof_count, dtype=wp.float32, device=model.device)
        self.effort = wp.to_torch(self._effort).view(model.world_count, -1)
        """(N, V) what every joint feels [N or N m]; 0 for a free root."""

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        wp.copy(present(control.joint_f), self._effort)
        super().step(state, control, dt, observed)
