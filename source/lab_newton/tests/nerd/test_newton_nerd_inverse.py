"""Inverses by plain operations against those of torch."""

from __future__ import annotations

import pytest
import torch

from lab_newton.nerd.inverse import invert_positive


def draw(size: int, spread: float, dtype: torch.dtype) -> torch.Tensor:
    """Positive matrices whose units differ by factors of 10**spread, as masses and inertias do."""
    generator = torch.Generator().manual_seed(size)
    root = torch.randn(32, size, size, generator=generator, dtype=dtype)
    units = 10.0 ** (spread * (torch.rand(size, generator=generator, dtype=dtype) - 0.5))
    return units[:, None] * (root @ root.mT + 0.1 * size * torch.eye(size, dtype=dtype)) * units


@pytest.mark.parametrize("size", [1, 3, 10, 24])
@pytest.mark.parametrize("spread", [0.0, 4.0])
def test_inverses_are_those_of_torch(size, spread):
    matrix = draw(size, spread, torch.float64)
    expected = torch.linalg.inv(matrix)
    assert torch.allclose(invert_positive(matrix), expected, rtol=1e-9, atol=1e-12 * expected.abs().max())
    single = invert_positive(matrix.float()).double() @ matrix
    assert (single - torch.eye(size, dtype=torch.float64)).abs().max() < 1e-3 * 10.0 ** (0.5 * spread)


def test_gradients_are_right():
    matrix = draw(4, 1.0, torch.float64)[:2].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: invert_positive(0.5 * (x + x.mT)), (matrix,))
