"""Rollouts to compare: captured with eager, stopped and resumed, one front end with the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lab_core.envs import RLEnv
from lab_core.state import named_tensors
from lab_warp.capture import StageReport
from lab_warp.envs.warp_rl_env import WarpRLEnv

Results = dict[str, torch.Tensor]


def step_results(step: tuple[Any, ...]) -> Results:
    """Returns everything that ``env.step()`` returned, by path."""
    obs, reward, terminated, truncated, extras = step
    return named_tensors({"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, **extras})


def rollout(env: RLEnv, steps: int, seed: int = 0, scale: float = 1.0) -> list[Results]:
    """Steps with seeded normal actions of standard deviation ``scale``; returns the results of every step."""
    generator = torch.Generator().manual_seed(seed)
    shape = env.action_space.shape
    assert shape is not None
    return [
        step_results(env.step((scale * torch.randn(shape, generator=generator)).to(env.device))) for _ in range(steps)
    ]


def assert_same_results(given: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    """Raises AssertionError at the first value that is not bitwise the same; names step and value."""
    assert len(given) == len(expected), f"{len(given)} steps instead of {len(expected)}"
    for step, (ours, theirs) in enumerate(zip(given, expected, strict=True)):
        assert ours.keys() == theirs.keys(), f"step {step}: {sorted(ours.keys() ^ theirs.keys())}"
        for name, value in theirs.items():
            assert same_bits(ours[name], value), f"step {step}: {name} is {ours[name]} instead of {value}"


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes, so that a NaN equals itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b)))


def step_report(env: WarpRLEnv) -> StageReport:
    """Returns how the step of an environment runs."""
    (report,) = [report for report in env.capture_report() if report.stage.endswith("._step")]
    return report
