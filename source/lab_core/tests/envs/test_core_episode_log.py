"""The log of ended episodes."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core.envs.episode_log import EpisodeLog

YES, NO = torch.tensor(True), torch.tensor(False)
CPU = torch.device("cpu")


def numbers(log: EpisodeLog) -> dict[str, float]:
    return {name: float(value) for name, value in log.values().items()}


def test_values_of_steps_without_a_reset_are_ignored():
    log = EpisodeLog(CPU)
    log.update({"a": torch.tensor(1.0), "b": 2}, YES)
    log.update({"a": torch.tensor(3.0), "b": 4}, NO)
    assert numbers(log) == {"a": 1.0, "b": 2.0}
    log.update({"a": torch.tensor(5.0), "b": 6}, YES)
    assert numbers(log) == {"a": 5.0, "b": 6.0}


def test_names_may_come_and_go():
    log = EpisodeLog(CPU)
    log.update({"a": 1.0}, YES)
    log.update({"b": 2.0, "a": 9.0}, NO)
    assert numbers(log) == {"b": 2.0, "a": 1.0}
    log.update({}, YES)
    assert numbers(log) == {}
    log.update({"a": 3.0}, YES)
    assert numbers(log) == {"a": 3.0}


def test_state_fits_a_log_of_other_names():
    log, other = EpisodeLog(CPU), EpisodeLog(CPU)
    log.update({"a": 0.1, "late": torch.tensor(1.0 / 3.0)}, YES)
    other.update({"a": 9.0}, YES)
    other.load_state_dict(log.state_dict())
    assert all(torch.equal(other.values()[name], value) for name, value in log.values().items())


def test_values_are_owned():
    log = EpisodeLog(CPU)
    log.update({"a": 1.0}, YES)
    kept = log.values()["a"]
    log.update({"a": 2.0}, YES)
    assert kept == 1.0


class NoCopiesFromTheHost(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ == "lift_fresh":  # a tensor made of Python numbers
            raise AssertionError("a copy from the host waits for the device")
        return func(*args, **(kwargs or {}))


def test_plain_numbers_are_not_copied_from_the_host():
    log = EpisodeLog(CPU)
    with pytest.raises(AssertionError, match="waits"), NoCopiesFromTheHost():
        torch.tensor(1.0)
    with NoCopiesFromTheHost():
        log.update({"weight": -0.1}, YES)
        log.update({"weight": -0.2}, NO)
