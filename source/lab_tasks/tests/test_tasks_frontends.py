"""The Warp front end against the torch front end, on every task: same seed, same actions, nothing left to chance."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.registry import get_task
from lab_core.state import named_tensors

TASKS = (
    "Lab-Cartpole",
    "Lab-Ant",
    "Lab-Velocity-Flat-Go2",
    "Lab-Velocity-Flat-AnymalC",
    "Lab-Velocity-Rough-Go2",
    "Lab-Velocity-Rough-AnymalC",
)


def certain(value: Any) -> Any:
    """``value`` with every range (low, high) narrowed to its middle, in parameters of terms."""
    if isinstance(value, dict):
        return {key: certain(item) for key, item in value.items()}
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value):
        middle = 0.7 * value[0] + 0.3 * value[1]
        return (middle, middle)
    return value


def certain_cfg(task: str, num_envs: int = 6, episode_steps: int = 25) -> ManagerBasedRLEnvCfg:
    """A task in which all draws of the two front ends are equal: front ends draw from streams of their own."""
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = episode_steps * cfg.decimation * cfg.physics.dt
    for group in cfg.observations.values():
        group.enable_corruption = False
    for event in cfg.events.values():
        if event is not None and event.mode in ("reset", "interval"):
            event.params = certain(event.params)
            if event.mode == "interval":
                event.interval_range_s = (0.1, 0.1)
    for command in cfg.commands.values():
        if hasattr(command, "ranges"):
            for name, bounds in vars(command.ranges).items():
                if bounds is not None:
                    setattr(command.ranges, name, certain(tuple(bounds)))
            command.resampling_time_range = (0.3, 0.3)
            command.rel_standing_envs = 0.0
    return cfg


def rollout(env: Any, steps: int, seed: int = 3) -> Iterator[dict[str, torch.Tensor]]:
    """Everything that the steps return, as flat dictionaries."""
    generator = torch.Generator().manual_seed(seed)
    shape = env.action_space.shape
    for _ in range(steps):
        action = 0.5 * torch.randn(shape, generator=generator)
        obs, reward, terminated, truncated, extras = env.step(action.to(env.device))
        yield named_tensors(
            copy.copy({"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, **extras})
        )


@pytest.mark.parametrize("task", TASKS)
def test_front_ends_agree_step_by_step(task):
    torch_env = make_env(certain_cfg(task))
    warp_env = make_env(certain_cfg(task), frontend="warp")
    try:
        resets = 0
        for step, (expected, given) in enumerate(zip(rollout(torch_env, 60), rollout(warp_env, 60), strict=True)):
            assert {name: value.dtype for name, value in given.items()} == {
                name: value.dtype for name, value in expected.items()
            }
            for name, value in expected.items():
                torch.testing.assert_close(
                    given[name],
                    value,
                    rtol=1e-5,
                    atol=1e-6,
                    msg=lambda text, step=step, name=name: f"step {step}, {name}: {text}",
                )
            resets += int(expected["reset_count"])
        assert resets >= 2 * torch_env.num_envs
    finally:
        torch_env.close()
        warp_env.close()
