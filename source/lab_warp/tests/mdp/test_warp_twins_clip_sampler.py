"""The sampler of clips as Warp code: the averages, probabilities and draws of torch."""

from __future__ import annotations

import pytest
import torch
import warp as wp

from lab_core.mdp import ClipSampler, ClipSamplerCfg
from lab_warp.mdp import ClipSamplerWarp
from lab_warp.testing import FakeEnv

LENGTHS = torch.tensor([45, 12, 5, 90])
DEVICES = [
    "cpu",
    pytest.param(
        "cuda:0",
        marks=pytest.mark.gpu,
    ),
]


def make(device: str, **settings) -> tuple[ClipSampler, ClipSampler, ClipSamplerWarp, FakeEnv]:
    """A sampler for torch, one for Warp with its kernels, and their environment."""
    env = FakeEnv(device)
    ours, theirs = (ClipSampler(ClipSamplerCfg(**settings), LENGTHS, 0.1, device) for _ in range(2))
    return ours, theirs, ClipSamplerWarp(theirs, env), env


def steps(env: FakeEnv, seed: int):
    """Clips, frames, scores (one no number) and failures of a step."""
    generator = torch.Generator().manual_seed(seed)
    clip = torch.randint(len(LENGTHS), (env.num_envs,), generator=generator)
    frame = (torch.rand(env.num_envs, generator=generator) * LENGTHS[clip]).long()
    score = torch.rand(env.num_envs, generator=generator)
    score[3] = torch.nan
    failed = torch.rand(env.num_envs, generator=generator) < 0.4
    return [value.to(env.device) for value in (clip, frame, score, failed)]


@pytest.mark.parametrize("device", DEVICES)
def test_averages_are_those_of_torch_and_repeat_bit_for_bit(device):
    ours, theirs, warp, env = make(device)
    _, again, warp_again, _ = make(device)
    for seed in range(50):
        step = steps(env, seed)
        ours.update(*step, torch.ones_like(step[3]))
        for code in (warp, warp_again):
            code.update(*(wp.from_torch(value) for value in step))
    for name in ("returns", "failures", "visits"):
        torch.testing.assert_close(getattr(theirs, name), getattr(ours, name), rtol=1e-5, atol=1e-7)
        assert torch.equal(getattr(theirs, name), getattr(again, name))
    assert ours.failures.min() > 0.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("settings", "returns"),
    [
        ({}, 0.5),
        ({"max_share": 2.0, "lead_bins": 0}, None),
        ({"uniform_share": 0.0, "failure_weight": 0.0}, 1.0),
    ],
)
def test_draws_follow_the_probabilities_of_torch(device, settings, returns):
    _, sampler, warp, env = make(device, **settings)
    sampler.returns.fill_(0.9 if returns is None else returns)
    if returns is None:
        sampler.returns[2] = 0.0  # cut by the limit
    drawn = torch.zeros(sampler.num_bins, device=device)
    mask = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    frames = set()
    for _ in range(3000):
        warp.draw(wp.from_torch(mask))
        clip, frame = wp.to_torch(warp.clip), wp.to_torch(warp.frame)
        drawn += torch.bincount(sampler.bins(clip, frame), minlength=sampler.num_bins)
        frames.update(zip(clip.tolist(), frame.tolist(), strict=True))
    shares = drawn.double() / drawn.sum()
    torch.testing.assert_close(shares, sampler.probabilities(), rtol=0.0, atol=0.015)
    assert len(frames) == 35 + 2 + 1 + 80 and all(frame < max(1, LENGTHS[clip] - 10) for clip, frame in frames)


@pytest.mark.parametrize("device", DEVICES)
def test_environments_outside_the_mask_draw_nothing(device):
    _, _, warp, env = make(device)
    mask = torch.arange(env.num_envs, device=device) % 2 == 0
    wp.to_torch(warp.frame).fill_(-1)
    before = wp.to_torch(env.warp.rng).clone()
    warp.draw(wp.from_torch(mask))
    after = wp.to_torch(env.warp.rng)
    assert torch.equal(wp.to_torch(warp.frame) >= 0, mask)
    assert torch.equal(before != after, mask)
