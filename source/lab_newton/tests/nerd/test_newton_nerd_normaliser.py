"""Scales of channels, also of those that hardly change."""

from __future__ import annotations

import pytest
import torch

from lab_newton.nerd import Normaliser


def test_small_channels_count_as_much_as_large_ones():
    values = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e-6, 1e5]) + 2.0
    values[:, 1] -= 2.0
    normaliser = Normaliser(3)
    normaliser.fit(values)
    scaled = normaliser(values)
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(3), rtol=0.0, atol=1e-3)
    torch.testing.assert_close(scaled.std(dim=0), torch.ones(3), rtol=0.0, atol=1e-3)
    torch.testing.assert_close(normaliser.inverse(scaled), values, rtol=1e-5, atol=1e-6)


def test_a_constant_channel_stays_as_it_is():
    normaliser = Normaliser(2)
    normaliser.fit(torch.tensor([[3.0, 0.1], [3.0, 0.2]]))
    assert normaliser.std[0] == 1.0 and torch.equal(normaliser(torch.tensor([3.0, 0.1]))[0], torch.tensor(0.0))


def test_a_channel_that_rarely_moves_is_not_blown_up():
    values = torch.zeros(10**6, 1)
    values[0] = 1.0
    values = torch.cat((values, values * 0.0)).repeat(200, 1)  # its standard deviation is 7e-4 / sqrt(200) of its range
    values[1_000_000:] = 0.0
    normaliser = Normaliser(1)
    normaliser.fit(values)
    assert normaliser.std.item() == pytest.approx(1e-4)


@pytest.mark.parametrize("values", [torch.zeros(0, 2), torch.tensor([[0.0, float("nan")]])])
def test_what_has_no_scale_is_refused(values):
    with pytest.raises(ValueError, match="finite values"):
        Normaliser(2).fit(values)


def test_the_digest_tells_scales_apart_and_survives_a_copy():
    one, other = Normaliser(2), Normaliser(2)
    assert one.digest() == other.digest() and len(one.digest()) == 12
    other.std[1] = 1.0 + 1e-6
    assert one.digest() != other.digest()
    one.load_state_dict(other.state_dict())
    assert one.digest() == other.digest()
