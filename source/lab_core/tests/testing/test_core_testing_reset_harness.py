"""The reset harness finds each kind of broken reset, and this package's own buffers pass it."""

from __future__ import annotations

import pytest
import torch

from lab_core.masks import masked_copy_
from lab_core.seeding import make_generator
from lab_core.signals import (
    CircularBuffer,
    DelayBuffer,
    DigitalFilterCfg,
    GaussianNoiseCfg,
    IntegratorCfg,
    NoiseWithBiasCfg,
    UniformNoiseCfg,
)
from lab_core.state import Stateful
from lab_core.testing import check_masked_reset

N = 5


class Term(Stateful):
    def __init__(self):
        self.total = torch.arange(N * 2.0).reshape(N, 2)
        self.count = torch.zeros(N, dtype=torch.int32)
        self.active = torch.ones(N, dtype=torch.bool)
        self.by_term = torch.zeros(3, N)
        self.kept = torch.zeros(N)
        self.shared = torch.zeros(7)

    def reset(self, mask: torch.Tensor) -> None:
        masked_copy_(self.total, 0.0, mask)
        masked_copy_(self.count, 0, mask)
        masked_copy_(self.active, False, mask)
        masked_copy_(self.by_term.mT, 0.0, mask)
        self.shared.fill_(mask.sum())


def test_a_sound_reset_passes_and_reports_what_it_cleared():
    term = Term()
    assert check_masked_reset(term, term.reset, N) == {"total", "count", "active", "by_term"}


def test_values_come_back():
    term = Term()
    before = term.state_dict()
    check_masked_reset(term, term.reset, N)
    assert all(torch.equal(value, before[path]) for path, value in term.state_dict().items())


def _all_rows(term: Term, mask: torch.Tensor) -> None:
    term.total.zero_()


def _ignores_an_empty_mask(term: Term, mask: torch.Tensor) -> None:
    rows = mask if mask.any() else ~mask
    term.total[rows] = 0.0


def _first_rows(term: Term, mask: torch.Tensor) -> None:
    term.total[: int(mask.sum())] = 0.0


def _last_bit(term: Term, mask: torch.Tensor) -> None:
    term.total.mul_(1.0 + 1e-7)


def _flag(term: Term, mask: torch.Tensor) -> None:
    term.active.fill_(True)


def _counter(term: Term, mask: torch.Tensor) -> None:
    term.count += 1


def _transposed(term: Term, mask: torch.Tensor) -> None:
    term.by_term[1] = 4.0


def _unselected_nan(term: Term, mask: torch.Tensor) -> None:
    term.kept[2] = float("nan")


@pytest.mark.parametrize(
    ("broken", "buffer"),
    [
        (_all_rows, "total"),
        (_ignores_an_empty_mask, "total"),
        (_first_rows, "total"),
        (_last_bit, "total"),
        (_flag, "active"),
        (_counter, "count"),
        (_transposed, "by_term"),
        (_unselected_nan, "kept"),
    ],
)
def test_a_broken_reset_is_caught_by_name(broken, buffer):
    terms = {"walk": [Term()]}
    with pytest.raises(AssertionError, match=rf"changed buffer 'walk.0.{buffer}' in environments \["):
        check_masked_reset(terms, lambda mask: broken(terms["walk"][0], mask), N)


def test_the_message_tells_the_rows():
    term = Term()

    def reset(mask: torch.Tensor) -> None:
        term.total[3] = mask.sum()

    with pytest.raises(
        AssertionError, match=r"reset of environments \[\] changed buffer 'total' in environments \[3\]"
    ):
        check_masked_reset(term, reset, N)


def test_a_replaced_buffer_is_caught():
    term = Term()

    def reset(mask: torch.Tensor) -> None:
        term.total = torch.where(mask[:, None], 0.0, term.total)

    with pytest.raises(AssertionError, match="replaced buffer 'total'"):
        check_masked_reset(term, reset, N)


def test_a_changed_mask_is_caught():
    with pytest.raises(AssertionError, match="changed its mask"):
        check_masked_reset(Term(), lambda mask: mask.fill_(True), N)


def test_a_reset_that_forgets_a_buffer_or_a_row_does_not_report_it():
    term = Term()
    assert check_masked_reset(term, lambda mask: None, N) == set()

    def all_but_the_last(mask: torch.Tensor) -> None:
        term.total[:-1][mask[:-1]] = 0.0

    assert check_masked_reset(term, all_but_the_last, N) == set()


def test_kept_buffers_are_not_filled_but_checked():
    class Follower(Stateful):
        def __init__(self):
            self.index = torch.full((N,), 2)
            self.value = torch.zeros(N)

        def reset(self, mask: torch.Tensor) -> None:
            assert (self.index == 2).all()
            masked_copy_(self.value, 0.0, mask)

    follower = Follower()
    assert check_masked_reset(follower, follower.reset, N, keep=["index"]) == {"value"}
    with pytest.raises(AssertionError, match="'index'"):
        check_masked_reset(follower, lambda mask: follower.index.sub_(1), N, keep=["index"])


def test_nothing_to_check_is_an_error():
    with pytest.raises(ValueError, match="no buffer with 9 rows"):
        check_masked_reset(Term(), lambda mask: None, 9)


def test_shared_expanded_rows_are_left_alone():
    term = Term()
    term.kept = torch.zeros(2).expand(N, 2)
    assert "kept" not in check_masked_reset(term, term.reset, N)


@pytest.mark.parametrize(
    ("build", "cleared"),
    [
        (lambda: CircularBuffer(3, (N, 2), "cpu"), {"history", "count"}),
        (lambda: DelayBuffer(2, (N, 2), "cpu"), {"_values.history", "_values.count"}),
        (lambda: DigitalFilterCfg(b=(0.5, 0.3), a=(0.1, 0.2)).build((N, 2), "cpu"), {"_memory.0", "_memory.1"}),
        (lambda: IntegratorCfg(dt=0.1).build((N, 2), "cpu"), {"integral", "_previous"}),
    ],
)
def test_signal_buffers_pass(build, cleared):
    buffer = build()
    assert check_masked_reset(buffer, buffer.reset, N) == cleared


def test_noise_with_bias_passes():
    generator = make_generator(0)
    cfg = NoiseWithBiasCfg(noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0), bias=GaussianNoiseCfg(std=1.0))
    noise = cfg.build((N, 2), "cpu")
    assert check_masked_reset(noise, lambda mask: noise.reset(mask, generator), N) == {"bias"}
