from __future__ import annotations

from collections import deque

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from lab_rl.algorithms import statistics
from lab_rl.algorithms.statistics import EpisodeStatistics, StepLogs


def count_by_hand(rewards: torch.Tensor, dones: torch.Tensor, window: int) -> tuple[list[float], list[int]]:
    """Returns and lengths of the last episodes, one step and environment at a time."""
    returns: deque[float] = deque(maxlen=window)
    lengths: deque[int] = deque(maxlen=window)
    open_return, open_length = [0.0] * rewards.shape[1], [0] * rewards.shape[1]
    for reward, done in zip(rewards.tolist(), dones.tolist(), strict=True):
        for env in range(rewards.shape[1]):
            open_return[env] += reward[env]
            open_length[env] += 1
            if done[env]:
                returns.append(open_return[env])
                lengths.append(open_length[env])
                open_return[env], open_length[env] = 0.0, 0
    return list(returns), list(lengths)


@given(
    iterations=st.integers(1, 4),
    steps=st.integers(1, 6),
    num_envs=st.integers(1, 5),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 1000),
)
def test_equals_a_count_by_hand(iterations, steps, num_envs, share, seed):
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randint(-3, 4, (iterations, steps, num_envs), generator=generator).float()
    dones = torch.rand(iterations, steps, num_envs, generator=generator) < share
    episodes = EpisodeStatistics(num_envs, torch.device("cpu"))
    for reward, done in zip(rewards, dones, strict=True):
        episodes.update(reward, done)
    returns, lengths = count_by_hand(rewards.flatten(0, 1), dones.flatten(0, 1), statistics.WINDOW)
    mean_return, mean_length = episodes.means()
    assert int(episodes.count) == int(dones.sum())
    if returns:
        torch.testing.assert_close(float(mean_return), sum(returns) / len(returns), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(float(mean_length), sum(lengths) / len(lengths))
    else:
        assert mean_return.isnan() and mean_length.isnan()


def test_window_keeps_the_newest_episodes_also_when_many_end_together():
    episodes = EpisodeStatistics(250, torch.device("cpu"))
    episodes.update(torch.arange(250.0).unsqueeze(0), torch.ones(1, 250, dtype=torch.bool))
    assert sorted(episodes.returns.tolist()) == list(range(150, 250))
    episodes.update(torch.full((1, 250), 7.0), torch.arange(250).unsqueeze(0) < 30)
    assert sorted(episodes.returns.tolist()) == [7.0] * 30 + list(range(180, 250))
    mean_return, mean_length = episodes.means()
    assert (float(mean_return), float(mean_length)) == ((7.0 * 30 + sum(range(180, 250))) / 100, 1.0)


def test_buffers_keep_their_addresses():
    episodes = EpisodeStatistics(3, torch.device("cpu"))
    before = {name: value.data_ptr() for name, value in vars(episodes).items()}
    episodes.update(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))
    assert {name: value.data_ptr() for name, value in vars(episodes).items()} == before


def test_nothing_is_computed_that_torch_refuses_in_a_deterministic_run():
    class RefuseSumsOverTime(TorchDispatchMode):
        """Raises where ``use_deterministic_algorithms`` would on a GPU."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            assert func.overloadpacket is not torch.ops.aten.cumsum or not result.is_floating_point()
            return result

    episodes = EpisodeStatistics(3, torch.device("cpu"))
    with RefuseSumsOverTime():
        episodes.update(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))
    assert episodes.returns.sum() == 6.0


def log(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_logs_are_weighted_by_the_number_of_resets():
    logs = StepLogs()
    logs.add(log(a=1.0), torch.tensor(3))
    logs.add(log(a=100.0), torch.tensor(0))
    logs.add(log(a=5.0), torch.tensor(1))
    assert logs.means()["a"] == 2.0
    assert logs.means() == {}


def test_value_of_a_step_without_resets_does_not_matter_even_when_not_a_number():
    logs = StepLogs()
    logs.add(log(a=float("nan")), torch.tensor(0))
    logs.add(log(a=4.0), torch.tensor(2))
    assert logs.means()["a"] == 4.0


def test_iteration_without_resets_has_no_mean():
    logs = StepLogs()
    logs.add(log(a=4.0), torch.tensor(0))
    assert logs.means()["a"].isnan()


def test_names_may_come_and_go():
    logs = StepLogs()
    logs.add(log(a=1.0), torch.tensor(1))
    logs.add(log(a=3.0, b=8.0), torch.tensor(1))
    logs.add({}, torch.tensor(1))
    assert {name: float(value) for name, value in logs.means().items()} == {"a": 2.0, "b": 8.0}
