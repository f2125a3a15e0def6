"""What a model does when it goes on from its own predictions, beside its teacher."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.envs import RLEnv, RLEnvCfg, make_env
from lab_core.errors import LabError
from lab_newton import SolverCfg
from lab_newton.nerd import Representation, RobotLayout


@dataclass(frozen=True)
class RolloutErrors:
    """How far poses of the model lie from those of its teacher, over a number of environments that begin alike."""

    times: tuple[float, ...]
    """Since the start [s], one per step of the environment."""
    channels: tuple[str, ...]
    """Which pose each column is of."""
    mean: Tensor
    """(T, V) mean of absolute errors over the environments, at each time [m or rad]."""
    median: Tensor
    """(T, V) median of the same."""

    def over(self, seconds: float) -> Mapping[str, float]:
        """Returns the mean over the first ``seconds`` of the trajectory, by channel [m or rad]."""
        means = self.mean[: self._steps(seconds)].mean(0)
        return dict(zip(self.channels, means.tolist(), strict=True))

    def at(self, seconds: float) -> Mapping[str, float]:
        """Returns the mean at the end of ``seconds``, by channel [m or rad]."""
        return dict(zip(self.channels, self.mean[self._steps(seconds) - 1].tolist(), strict=True))

    def _steps(self, seconds: float) -> int:
        steps = round(seconds / self.times[0])
        if not 1 <= steps <= len(self.times):
            raise LabError(f"The rollout lasts {self.times[-1]:g} s, not {seconds:g} s.")
        return steps


def passive_rollouts(
    cfg: RLEnvCfg, learned: SolverCfg, layout: RobotLayout, entity: str, num_envs: int, seconds: float, device: str
) -> RolloutErrors:
    """Lets model and teacher move from the same states without an action, and compares.

    Actuators stay: their damping acts in both. Nothing is reset on the way, and nothing is pushed.

    Args:
        cfg: The environment with the teacher's solver; its reset events draw the states.
        learned: The model's solver.
        layout: The robot.
        entity: Its name in the scene.
        num_envs: Environments.
        seconds: How long.
        device: Where to compute.
    """
    cfg = copy.deepcopy(cfg)
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = 10.0 * seconds + 1.0
    for group in ("terminations", "rewards", "metrics"):
        if hasattr(cfg, group):
            setattr(cfg, group, {})
    cfg.events = {name: event for name, event in cfg.events.items() if event is None or event.mode != "interval"}
    teacher, model = (make_env(each, device, "torch") for each in (cfg, with_solver(cfg, learned)))
    representation = Representation(layout).to(device)
    try:
        model.reset_to(teacher.scene.get_state())
        action = torch.zeros(teacher.single_action_space.shape or (), device=device).expand(num_envs, -1)
        errors, steps = [], round(seconds / teacher.step_dt)
        for _ in range(steps):
            teacher.step(action)
            model.step(action)
            poses = [positions(env, entity, layout) for env in (teacher, model)]
            errors.append(representation.pose_change(*poses).abs())
        stacked = torch.stack(errors).cpu()
        times = tuple((step + 1) * teacher.step_dt for step in range(steps))
    finally:
        teacher.close()
        model.close()
    return RolloutErrors(times, representation.pose_names, stacked.mean(1), stacked.median(1).values)


def positions(env: RLEnv, entity: str, layout: RobotLayout) -> Tensor:
    """Returns positions (N, Q) of a robot, its root relative to the environment's origin."""
    data = env.scene[entity].data
    if not layout.floating:
        return data.joint_pos.clone()
    root = data.root_link_pose_w.clone()
    root[:, :3] -= env.scene.env_origins
    return torch.cat((root, data.joint_pos), dim=-1)


def with_solver(cfg: RLEnvCfg, solver: SolverCfg) -> RLEnvCfg:
    """Returns the same environment, moved by ``solver``."""
    cfg = copy.deepcopy(cfg)
    cfg.physics.solver = copy.deepcopy(solver)  # pyright: ignore[reportAttributeAccessIssue]
    return cfg
