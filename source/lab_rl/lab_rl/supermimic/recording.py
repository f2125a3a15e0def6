"""What the replay records of every step, by the environment's own recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lab_core.env import Env, ManagerBasedEnv
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import declare
from lab_core.recorder import RecorderCfg, RecorderTermCfg, RetentionCfg
from lab_core.scene import ArticulationData

STATE = ("root_link_pose_w", "root_com_vel_w", "joint_pos", "joint_vel")
"""Buffers that together are the state, in the world: what is not rounded by a change of frame can be compared."""


@declare(capturable=True)
def robot_state(env: Env, robot: str) -> dict[str, torch.Tensor]:
    """Any phase: the state of the articulation ``robot``."""
    data = env.scene[robot].data
    assert isinstance(data, ArticulationData)
    return {name: getattr(data, name) for name in STATE}


@declare(capturable=True)
def actions(env: ManagerBasedEnv) -> dict[str, torch.Tensor]:
    """``pre_step``: the action (N, A) that the robot is about to follow, and the one before."""
    return {"now": env.action_manager.action, "before": env.action_manager.prev_action}


@declare(capturable=True)
def targets(env: ManagerBasedEnv) -> torch.Tensor:
    """``pre_physics``: what the action terms make of the action (N, A)."""
    return torch.cat([env.action_manager.get_term(name).processed_actions for name in env.action_manager.term_names], 1)


@declare(capturable=True)
def reference(env: ManagerBasedEnv, command: str) -> dict[str, torch.Tensor]:
    """``pre_step``: clip and frame (N,) int64 that the policy was shown."""
    term: Any = env.command_manager.get_term(command)
    return {"clip": term.clip, "frame": term.frame}


@declare(capturable=True)
def ends(env: Env) -> dict[str, torch.Tensor]:
    """``post_step``: (N,) bool, whether the episode failed or succeeded, ended at all, or the physics failed, whose
    states are then not those that the step led to."""
    return {"terminated": env.reset_terminated, "done": env.reset_buf, "broken": env.physics.non_finite}


@declare(capturable=True)
def events(env: ManagerBasedRLEnv, rewards: Sequence[str]) -> torch.Tensor:
    """``post_step``: (N, E) in which share of the step what a reward counts happened, whatever its weight is."""
    manager = env.reward_manager
    return torch.stack([manager.call_for(name, env) for name in rewards], dim=1).clamp(0.0, 1.0)


def replay_recorder_cfg(
    robot: str, command: str, event_rewards: Sequence[str], num_steps: int, memory_gib: float
) -> RecorderCfg:
    """Returns a recorder that keeps both ends of the latest ``num_steps`` steps of every environment, and hands them to
    nobody.

    Args:
        robot: Name of the articulation.
        command: Name of the clip command.
        event_rewards: Rewards whose values are kept.
        num_steps: T.
        memory_gib: The recorder refuses to take more.
    """
    where = {"robot": robot}
    happened = RecorderTermCfg(func=events, phase="post_step", params={"rewards": tuple(event_rewards)})
    return RecorderCfg(
        terms={
            "start": RecorderTermCfg(func=robot_state, phase="pre_step", params=where),
            "action": RecorderTermCfg(func=actions, phase="pre_step"),
            "targets": RecorderTermCfg(func=targets, phase="pre_physics"),
            "reference": RecorderTermCfg(func=reference, phase="pre_step", params={"command": command}),
            "end": RecorderTermCfg(func=robot_state, phase="post_physics", params=where),
            "ends": RecorderTermCfg(func=ends, phase="post_step"),
            **({"events": happened} if event_rewards else {}),
        },
        retention=RetentionCfg(max_episode_length=num_steps, on_overflow="drop_oldest", memory_limit_gib=memory_gib),
    )
