"""The policy's action distribution."""

from __future__ import annotations

import pytest
import torch

from lab_rl.algorithms.ppo.distribution import Gaussian


def test_draws_have_the_mean_and_deviation_of_the_distribution():
    distribution = Gaussian(2, init_std=0.5)
    mean = torch.tensor([[1.0, -2.0]]).repeat(20_000, 1)
    with torch.no_grad():
        distribution.update(mean)
        torch.manual_seed(0)
        draws = distribution.sample()
    assert draws.mean(dim=0).tolist() == pytest.approx([1.0, -2.0], abs=0.02)
    assert draws.std(dim=0).tolist() == pytest.approx([0.5, 0.5], abs=0.02)


@pytest.mark.gpu
def test_sampling_on_a_gpu_never_waits_for_it():
    distribution = Gaussian(2).to("cuda")
    distribution.update(torch.zeros(8, 2, device="cuda"))
    torch.cuda.set_sync_debug_mode("error")
    try:
        distribution.sample()
    finally:
        torch.cuda.set_sync_debug_mode("default")
