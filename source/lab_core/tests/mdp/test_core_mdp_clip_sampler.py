"""Where episodes on clips begin."""

from __future__ import annotations

import pytest
import torch

from lab_core.managers import TermError
from lab_core.mdp import ClipSampler, ClipSamplerCfg

DT = 0.1  # 10 frames in a bin
LENGTHS = torch.tensor([45, 12, 5])  # episodes begin at 35, 2 and 1 of their frames: 4, 1 and 1 bins


def make(**settings) -> ClipSampler:
    return ClipSampler(ClipSamplerCfg(**settings), LENGTHS, DT)


def update(sampler: ClipSampler, rows: list[tuple[int, int, float, bool]], mask: list[bool] | None = None) -> None:
    clip, frame, score, failed = (torch.tensor(column) for column in zip(*rows, strict=True))
    sampler.update(clip, frame, score, failed, torch.ones_like(failed) if mask is None else torch.tensor(mask))


def test_frames_have_bins_and_the_tail_belongs_to_the_last():
    sampler = make()
    assert sampler.num_bins == 6
    clip = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2])
    frame = torch.tensor([0, 9, 10, 34, 44, 0, 11, 4])
    assert sampler.bins(clip, frame).tolist() == [0, 0, 1, 3, 3, 4, 4, 5]


def test_averages_follow_visits_not_calls():
    """Ten frames of a bin are one visit, whether they come in one call or in ten."""
    together, apart = make(), make()
    rows = [(0, frame, 0.6, False) for frame in range(10)]
    update(together, rows)
    for row in rows:
        update(apart, [row])
    assert together.returns[0] == pytest.approx(0.01 * 0.6, rel=1e-4)
    torch.testing.assert_close(together.returns, apart.returns)
    assert together.visits.tolist() == pytest.approx([1, 0, 0, 0, 0, 0])
    assert not together.failures.any()


def test_failures_count_as_zeros_for_a_second():
    """An episode fails at frame 16 with a score of 1: of the next ten frames 3 are of its bin, 7 of the next one."""
    sampler = make()
    sampler.returns.fill_(1.0)
    update(sampler, [(0, 16, 1.0, True)])
    kept = 0.99 ** torch.tensor([0.4, 0.7])
    expected = torch.tensor([1.0, kept[0] + (1 - kept[0]) * 0.25, kept[1], 1.0, 1.0, 1.0])
    torch.testing.assert_close(sampler.returns, expected)
    assert sampler.failures.tolist() == pytest.approx([0.0, (1 - 0.99**1.1) / 1.1, 0.0, 0.0, 0.0, 0.0], rel=1e-4)


def test_missed_frames_end_with_the_clip():
    sampler = make()
    sampler.returns.fill_(1.0)
    update(sampler, [(0, 42, 1.0, True)])  # two frames are missed
    kept = 0.99**0.3
    assert sampler.returns[3] == pytest.approx(kept + (1 - kept) / 3)


def test_two_failures_of_one_bin_in_one_call_both_count():
    once, twice = make(), make()
    update(once, [(0, 16, 0.5, True), (0, 3, 0.5, False)])
    update(twice, [(0, 16, 0.5, True), (0, 16, 0.5, True), (0, 3, 0.5, False)])
    assert once.failures[1] == pytest.approx((1 - 0.99**1.1) / 1.1, rel=1e-4)
    assert twice.failures[1] == pytest.approx((1 - 0.99**2.2) * 2 / 2.2, rel=1e-4)
    assert twice.visits[1] == pytest.approx(0.2)


def test_rows_outside_the_mask_count_nothing_whatever_they_hold():
    sampler, plain = make(), make()
    update(sampler, [(0, 3, 0.5, False), (0, 16, float("nan"), True)], mask=[True, False])
    update(plain, [(0, 3, 0.5, False)])
    for mine, other in ((sampler.returns, plain.returns), (sampler.failures, plain.failures)):
        assert torch.equal(mine, other)


def test_a_bin_that_always_fails_is_drawn_more_but_not_beyond_the_limit():
    sampler = make(max_share=3.0, lead_bins=0)
    for _ in range(2000):
        update(sampler, [(0, 15, 0.0, True), (0, 5, 1.0, False), (1, 1, 1.0, False), (2, 0, 1.0, False)])
        update(sampler, [(0, 25, 1.0, False), (0, 31, 1.0, False)])
    probabilities = sampler.probabilities()
    even = 1 / 6
    assert probabilities[1] == pytest.approx(3 * even) and probabilities.sum() == pytest.approx(1.0)
    assert (probabilities >= 0.15 * even).all()


def test_what_fails_somewhere_is_practised_from_the_bins_before():
    sampler = make(uniform_share=0.0)
    sampler.returns.fill_(1.0)
    sampler.failures[3] = 1.0
    weights = torch.tensor([0.0, 1 / 3, 1 / 2, 1.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(sampler.probabilities(), weights / weights.sum(), atol=1e-7, rtol=0.0)


def test_never_visited_bins_keep_their_even_share():
    sampler = make()
    sampler.returns.fill_(1.0)
    sampler.returns[5] = 0.0
    assert (sampler.probabilities() >= 0.15 / 6 - 1e-7).all()
    sampler.returns.fill_(1.0)
    torch.testing.assert_close(sampler.probabilities(), torch.full((6,), 1 / 6, dtype=torch.float64))


def test_draws_follow_the_probabilities_and_spare_the_tails():
    sampler = make()
    sampler.returns.copy_(torch.tensor([0.0, 0.9, 0.5, 1.0, 0.2, 0.3]))
    n = 60_000
    clip, frame = sampler.draw(torch.Generator().manual_seed(0), n)
    assert clip.dtype == frame.dtype == torch.int64 and clip.shape == frame.shape == (n,)
    for number, end in enumerate((35, 2, 1)):
        assert sorted(set(frame[clip == number].tolist())) == list(range(end))
    shares = torch.bincount(sampler.bins(clip, frame), minlength=6) / n
    torch.testing.assert_close(shares.double(), sampler.probabilities(), atol=0.01, rtol=0.0)
    torch.testing.assert_close(
        torch.bincount(frame[(clip == 0) & (frame < 10)]) / (shares[0] * n), torch.full((10,), 0.1), atol=0.01, rtol=0.0
    )


def test_figures_for_logs():
    sampler = make()
    update(sampler, [(1, 1, 0.5, False)])
    sampler.returns.fill_(0.5)
    figures = {name: float(value) for name, value in sampler.statistics().items()}
    assert figures == {"entropy": pytest.approx(1.0), "top_share": pytest.approx(1 / 6), "never_visited": 5.0}


def test_the_averages_are_state():
    sampler, other = make(), make()
    update(sampler, [(0, 16, 0.5, True)])
    assert set(sampler.state_dict()) == {"returns", "failures", "visits"}
    other.load_state_dict(sampler.state_dict())
    assert torch.equal(other.probabilities(), sampler.probabilities())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bin_s": 0.0}, "bin_s must be positive, got 0.0"),
        ({"rate": 1.0}, "rate must be between 0 and 1, got 1.0"),
        ({"uniform_share": 1.1}, r"uniform_share must be in 0 .. 1, got 1.1"),
        ({"max_share": 0.5}, "max_share must be 1 or more, got 0.5"),
        ({"failure_weight": -1.0}, "failure_weight must not be negative, got -1.0"),
        ({"tail_frames": 1.5}, "tail_frames must be a whole number of 0 or more, got 1.5"),
        ({"rate": "fast"}, "rate must be a finite number, got 'fast'"),
    ],
)
def test_wrong_settings_are_named(settings, reason):
    with pytest.raises(TermError, match=reason):
        make(**settings)


def test_clips_have_frames():
    with pytest.raises(TermError, match="clips of one frame and more"):
        ClipSampler(ClipSamplerCfg(), torch.tensor([3, 0]), DT)
