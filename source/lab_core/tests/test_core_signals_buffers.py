"""History and delay against a plain Python memory per environment."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lab_core.signals import CircularBuffer, DelayBuffer
from lab_core.state import named_tensors

N, D = 3, 2
masks = st.lists(st.booleans(), min_size=N, max_size=N)


def frame(number: float) -> torch.Tensor:
    """A value ``(N, D)`` that tells its number, row and column."""
    return 100.0 * number + 10.0 * torch.arange(1.0, N + 1)[:, None] + torch.arange(1.0, D + 1)


class BufferMachine(RuleBasedStateMachine):
    """Any order of appends, resets and lag changes; the reference keeps one list per environment."""

    @initialize(max_len=st.integers(1, 4))
    def build(self, max_len: int) -> None:
        self.number = 0
        self.max_len = max_len
        self.history = CircularBuffer(max_len, (N, D), "cpu")
        self.delay = DelayBuffer(max_len - 1, (N, D), "cpu")
        self.memory: list[list[torch.Tensor]] = [[] for _ in range(N)]
        self.lags = [0] * N
        self.addresses = self._addresses()

    def _addresses(self) -> list[int]:
        return [tensor.data_ptr() for part in (self.history, self.delay) for tensor in named_tensors(part).values()]

    @rule(mask=st.none() | masks)
    def append(self, mask: list[bool] | None) -> None:
        self.number += 1
        value = frame(self.number)
        expected = [self._expected([*self.memory[env], value[env]]) for env in range(N)]
        assert torch.equal(self.history.peek(value), torch.stack(expected))
        delayed = torch.stack([expected[env][self.max_len - 1 - self.lags[env]] for env in range(N)])
        assert torch.equal(self.delay.peek(value), delayed)
        tensor_mask = None if mask is None else torch.tensor(mask)
        self.history.append(value, tensor_mask)
        self.delay.append(value, tensor_mask)
        for env in range(N):
            if mask is None or mask[env]:
                self.memory[env].append(value[env].clone())
        value.zero_()  # what was appended must be a copy

    @rule(mask=masks)
    def reset(self, mask: list[bool]) -> None:
        self.history.reset(torch.tensor(mask))
        self.delay.reset(torch.tensor(mask))
        self.memory = [[] if mask[env] else self.memory[env] for env in range(N)]

    @rule(lags=st.lists(st.integers(0, 3), min_size=N, max_size=N), mask=masks)
    def set_lag(self, lags: list[int], mask: list[bool]) -> None:
        self.delay.set_lag(torch.tensor(lags), torch.tensor(mask))
        self.lags = [min(lags[env], self.max_len - 1) if mask[env] else self.lags[env] for env in range(N)]

    def _expected(self, memory: list[torch.Tensor]) -> torch.Tensor:
        """The last ``max_len`` values, oldest first, the oldest repeated in front."""
        if not memory:
            return torch.zeros(self.max_len, D)
        kept = memory[-self.max_len :]
        return torch.stack([kept[0]] * (self.max_len - len(kept)) + kept)

    @invariant()
    def matches_the_reference(self) -> None:
        for env in range(N):
            expected = self._expected(self.memory[env])
            assert torch.equal(self.history.history[env], expected)
            assert self.history.count[env] == min(len(self.memory[env]), self.max_len)
            assert torch.equal(self.delay.read()[env], expected[self.max_len - 1 - self.lags[env]])
            for lag in range(self.max_len + 1):
                assert torch.equal(self.history.lookup(lag)[env], expected[max(self.max_len - 1 - lag, 0)])
        assert self._addresses() == self.addresses


test_buffers_against_the_reference = BufferMachine.TestCase
test_buffers_against_the_reference.settings = settings(deadline=None, max_examples=20, stateful_step_count=12)


def test_lookup_by_a_lag_per_environment():
    buffer = CircularBuffer(3, (N, D), "cpu")
    for number in range(5):
        buffer.append(frame(number))
    looked = buffer.lookup(torch.tensor([0, 2, 9]))
    assert torch.equal(looked, torch.stack((frame(4)[0], frame(2)[1], frame(2)[2])))


def test_what_is_read_is_a_copy():
    history, delay = CircularBuffer(2, (N, D), "cpu"), DelayBuffer(1, (N, D), "cpu")
    for buffer in (history, delay):
        buffer.append(frame(1))
    read = (history.lookup(0), history.lookup(torch.zeros(N, dtype=torch.int64)), delay.read())
    for buffer in (history, delay):
        buffer.append(frame(2))
    assert all(torch.equal(value, frame(1)) for value in read)


def test_a_delayed_step_arrives_after_the_lag_of_its_environment():
    delay = DelayBuffer(2, (N, 1), "cpu")
    delay.set_lag(torch.tensor([0, 1, 2]))
    seen = []
    for value in (0.0, 0.0, 1.0, 1.0, 1.0):
        delay.append(torch.full((N, 1), value))
        seen.append(delay.read()[:, 0].tolist())
    assert list(zip(*seen, strict=True)) == [(0, 0, 1, 1, 1), (0, 0, 0, 1, 1), (0, 0, 0, 0, 1)]


def test_rows_may_have_any_shape_and_type():
    flags = CircularBuffer(2, (N,), "cpu", dtype=torch.bool)
    flags.append(torch.tensor([True, False, True]))
    flags.append(torch.tensor([False, False, True]))
    assert flags.history.tolist() == [[True, False], [False, False], [True, True]]
    images = DelayBuffer(1, (N, 2, 2), "cpu")
    images.append(torch.ones(N, 2, 2))
    assert images.read().shape == (N, 2, 2)


def test_a_nan_is_forgotten_at_the_reset():
    buffer = CircularBuffer(2, (N, D), "cpu")
    buffer.append(torch.full((N, D), float("nan")))
    buffer.reset(torch.tensor([True, False, False]))
    buffer.append(frame(1))
    assert buffer.history[0].isfinite().all()


def test_resume_continues_the_memory():
    first, second = DelayBuffer(2, (N, D), "cpu"), DelayBuffer(2, (N, D), "cpu")
    first.set_lag(torch.tensor([0, 1, 2]))
    for number in range(4):
        first.append(frame(number))
    second.load_state_dict(first.state_dict())
    for buffer in (first, second):
        buffer.append(frame(9))
    assert torch.equal(first.read(), second.read())


@pytest.mark.parametrize("shape", [(N, D + 1), (N + 1, D), (N, 1), (1, D), (N,)])
def test_values_of_another_shape_are_refused(shape):
    buffer = CircularBuffer(2, (N, D), "cpu")
    with pytest.raises(ValueError, match=r"shape \(3, 2\), got"):
        buffer.append(torch.zeros(shape))


def test_wrong_sizes_and_lags_are_refused():
    with pytest.raises(ValueError, match="max_len=0"):
        CircularBuffer(0, (N, D), "cpu")
    with pytest.raises(ValueError, match="max_lag=-1"):
        DelayBuffer(-1, (N, D), "cpu")
    with pytest.raises(ValueError, match=r"0 .. 2, got 3"):
        DelayBuffer(2, (N, D), "cpu").set_lag(3)


@settings(deadline=None)
@given(lag=st.integers(0, 2), mask=masks)
def test_an_integer_lag_is_set_under_the_mask(lag, mask):
    delay = DelayBuffer(2, (N, D), "cpu")
    delay.set_lag(lag, torch.tensor(mask))
    assert delay.lag.tolist() == [lag if selected else 0 for selected in mask]
    delay.set_lag(lag)
    assert delay.lag.tolist() == [lag] * N


def test_lags_of_a_tensor_are_clamped():
    delay = DelayBuffer(2, (N, D), "cpu")
    delay.set_lag(torch.tensor([-1, 1, 5]))
    assert delay.lag.tolist() == [0, 1, 2]
