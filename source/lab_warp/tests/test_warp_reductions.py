"""Means over environments that do not depend on scheduling."""

from __future__ import annotations

import pytest
import torch
import warp as wp

from lab_warp import CaptureContext, CapturedStage
from lab_warp.reductions import masked_means, mean_of_integers

CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)


@pytest.fixture(params=["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> torch.device:
    wp.init()
    return torch.device(request.param)


def means(values: torch.Tensor, mask: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    count = mask.sum(dtype=torch.int32).reshape(1)
    out = torch.full(values.shape[1:], -7.0, device=values.device)
    arrays = (wp.from_torch(tensor) for tensor in (values, mask, count, out))
    masked_means(*arrays, scale, wp.device_from_torch(values.device))
    return out


@pytest.mark.parametrize("num_envs", [1, 7, 256, 1000])
@pytest.mark.parametrize("rows_are_contiguous", [True, False])
def test_masked_means_equal_torch(num_envs: int, rows_are_contiguous: bool, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(num_envs)
    values = torch.randn(num_envs, 3, generator=generator).to(device)
    if not rows_are_contiguous:
        values = values.T.contiguous().T
    mask = (torch.rand(num_envs, generator=generator) < 0.3).to(device)
    mask[0] = True
    expected = 0.5 * values[mask].double().mean(dim=0)
    values[~mask] = torch.nan
    actual = means(values, mask, scale=0.5)
    torch.testing.assert_close(actual, expected.float(), rtol=1e-5, atol=1e-6)
    for _ in range(3):
        assert torch.equal(means(values, mask, scale=0.5), actual)


def test_without_environments_the_old_means_stay(device: torch.device) -> None:
    mask = torch.zeros(5, dtype=torch.bool, device=device)
    assert (means(torch.ones(5, 2, device=device), mask) == -7.0).all()


def test_only_the_given_slots_are_written(device: torch.device) -> None:
    slots = torch.full((6,), -7.0, device=device)
    values, mask = torch.full((4, 2), 3.0, device=device), torch.ones(4, dtype=torch.bool, device=device)
    count = torch.tensor([4], dtype=torch.int32, device=device)
    arrays = (wp.from_torch(tensor) for tensor in (values, mask, count, slots[2:4]))
    masked_means(*arrays, 1.0, wp.device_from_torch(device))
    assert slots.tolist() == [-7.0, -7.0, 3.0, 3.0, -7.0, -7.0]


@pytest.mark.parametrize("num_envs", [1, 300, 4096])
def test_mean_of_integers_is_exact_and_replayable(num_envs: int, device: torch.device) -> None:
    levels, out = torch.zeros(num_envs, dtype=torch.int64, device=device), torch.zeros(1, device=device)
    warp_device = wp.device_from_torch(device)
    arrays = wp.from_torch(levels), wp.from_torch(out)
    stage = CapturedStage(lambda: mean_of_integers(*arrays, warp_device), CaptureContext(warp_device, enabled=True))
    for seed in range(3):
        levels.copy_(torch.randint(0, 20, (num_envs,), generator=torch.Generator().manual_seed(seed)))
        stage()
        assert out[0] == levels.float().mean()
