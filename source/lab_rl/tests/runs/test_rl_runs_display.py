from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab_rl.algorithms import Iteration
from lab_rl.runs.display import TrainingDisplay, duration


def iteration(number: int) -> Iteration:
    return Iteration(number, 64 * number, 12345.6, 4.5, None, {})


def test_plain_lines_come_every_ten_seconds_and_at_both_ends():
    console = Console(file=io.StringIO(), width=40)
    now = [0.0]
    with TrainingDisplay(console, start=0, total=30, clock=lambda: now[0]) as display:
        for number in range(1, 31):
            now[0] += 3.0
            display.update(iteration(number))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [int(line.split()[1].split("/")[0]) for line in lines] == [1, 5, 9, 13, 17, 21, 25, 29, 30]
    assert lines[1] == "iteration 5/30  12,346 steps/s  reward 4.50  length -  1 min 15 s left"


def test_terminal_shows_a_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with TrainingDisplay(console, start=10, total=12) as display:
        display.update(iteration(11))
        display.update(iteration(12))
    assert isinstance(console.file, io.StringIO)
    assert "12/12" in console.file.getvalue() and "12,346 steps/s" in console.file.getvalue()
    assert "iteration 11/12" not in console.file.getvalue()


def test_brackets_in_messages_are_shown_as_they_are():
    console = Console(file=io.StringIO(), width=80)
    TrainingDisplay(console, start=0, total=1).warn("[policy] is [2, 3]")
    assert isinstance(console.file, io.StringIO)
    assert "[policy] is [2, 3]" in console.file.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("terminal", (False, True))
def test_it_shows_what_each_reward_term_gave_and_how_episodes_ended(terminal):
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
    done = iteration(1)
    done.scalars = {"Episode_Reward/alive": 0.5, "Episode_Reward/calm": -0.00123, "Episode_Termination/fallen": 0.25}
    with TrainingDisplay(console, start=0, total=1) as display:
        display.update(done)
    assert isinstance(console.file, io.StringIO)
    assert "rewards: alive 0.5, calm -0.00123; ended: fallen 25%" in console.file.getvalue()
