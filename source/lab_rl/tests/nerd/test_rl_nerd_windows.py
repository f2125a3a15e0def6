"""Windows: none crosses a break, none is missed, and their stream goes on where it was saved."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_core.datasets import DatasetError
from lab_rl.nerd.windows import WindowSampler, window_starts


def follows(steps, row: int) -> bool:
    """Whether row ``row + 1`` begins, bit for bit, where ``row`` ends."""
    return steps.episode[row] == steps.episode[row + 1] and all(
        torch.equal(end[row].view(torch.int32), begin[row + 1].view(torch.int32))
        for end, begin in ((steps.q_next, steps.q), (steps.qd_next, steps.qd))
    )


def windows_by_hand(steps, length: int) -> list[int]:
    return [
        first
        for first in range(len(steps) - length + 1)
        if all(follows(steps, row) for row in range(first, first + length - 1))
    ]


@st.composite
def recordings(draw):
    """Lengths of episodes, and rows after which a step was left out."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    return lengths, draw(st.sets(st.integers(0, sum(lengths) - 1), max_size=5))


@given(recording=recordings(), length=st.integers(1, 12))
def test_every_unbroken_window_is_found_and_no_other(recording, length, make_steps):
    lengths, breaks = recording
    steps = make_steps(lengths)
    for row in breaks:  # the last bit of the state that follows
        if row + 1 < len(steps) and steps.joins[row]:
            steps.qd[row + 1, 0].view(torch.int32).bitwise_xor_(1)
            steps.joins[row] = False
    expected = windows_by_hand(steps, length)
    if not expected:
        with pytest.raises(DatasetError, match=f"No {length} recorded physics steps follow each other"):
            window_starts(steps, length)
        return
    assert window_starts(steps, length).tolist() == expected
    sampler = WindowSampler(steps, length, seed=0)
    rows = sampler.draw(64)
    assert len(sampler) == len(expected) and rows.shape == (64, length)
    assert set(rows[:, 0].tolist()) <= set(expected)
    assert torch.equal(rows, rows[:, :1] + torch.arange(length))


def test_no_steps_have_no_windows(make_steps):
    steps = make_steps((4,))
    with pytest.raises(DatasetError, match="No 2 recorded"):
        window_starts(steps.select(torch.zeros(4, dtype=torch.bool)), 2)


def test_every_window_is_drawn_as_often_as_any_other(make_steps):
    sampler = WindowSampler(make_steps((5, 2, 4)), 3, seed=0)
    counts = sampler.draw(50_000)[:, 0].bincount(minlength=11)
    assert counts.nonzero()[:, 0].tolist() == [0, 1, 2, 7, 8]
    assert counts[counts > 0].float().div(10_000).sub(1.0).abs().max() < 0.05


def test_the_stream_goes_on_where_it_was_saved(make_steps):
    steps = make_steps((9, 7))
    sampler, other = WindowSampler(steps, 2, seed=3), WindowSampler(steps, 2, seed=4)
    assert not torch.equal(sampler.draw(32), other.draw(32))
    state = sampler.state_dict()
    expected = [sampler.draw(32) for _ in range(3)]
    torch.manual_seed(5)  # the streams of others do not matter
    other.load_state_dict(state)
    assert all(torch.equal(other.draw(32), rows) for rows in expected)


def test_windows_are_those_of_the_steps_themselves(make_steps):
    """What a window gathers is one piece of one trajectory."""
    steps = make_steps((6, 5, 8))
    rows = WindowSampler(steps, 4, seed=0).draw(100)
    gathered = dataclasses.replace(steps, **{name: getattr(steps, name)[rows] for name in ("q", "q_next", "episode")})
    assert torch.equal(gathered.q[:, 1:], gathered.q_next[:, :-1])
    assert (gathered.episode == gathered.episode[:, :1]).all()
