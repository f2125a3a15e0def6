"""Arguments of commands: one way to read them, whatever their order and spelling."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from lab_core.cli.arguments import (
    EnvironmentOptions,
    check_counts,
    resolve_device,
    split_subject,
    split_subjects,
    with_dashes,
)
from lab_core.errors import LabError
from lab_core.registry import TaskSpec, register_task

TASK = "Stub-Arguments"
register_task(TaskSpec(id=TASK, env_cfg=dict))


@dataclass(kw_only=True)
class Options(EnvironmentOptions):
    flag: bool = False
    several: tuple[float, ...] | None = None


@pytest.mark.parametrize(
    ("argv", "subject", "rest"),
    [
        ([], None, []),
        (["X", "--seed", "1"], "X", ["--seed", "1"]),
        (["--seed", "1", "X"], "X", ["--seed", "1"]),
        (["--seed=1", "X"], "X", ["--seed=1"]),
        (["--seed", "-1", "X"], "X", ["--seed", "-1"]),
        (["--flag", "X"], "X", ["--flag"]),
        (["--no-flag", "X", "--num-envs", "4"], "X", ["--no-flag", "--num-envs", "4"]),
        (["--several", "1", "2", "--seed", "1", "X"], "X", ["--several", "1", "2", "--seed", "1"]),
        (["--several", "1", "2", TASK], TASK, ["--several", "1", "2"]),
        (["--env.scene.camera.eye", "1", "2", "3", TASK], TASK, ["--env.scene.camera.eye", "1", "2", "3"]),
        (["--seed", "1"], None, ["--seed", "1"]),
        (["--help"], None, ["--help"]),
        (["-h", "X"], "X", ["-h"]),
    ],
)
def test_the_subject_is_what_belongs_to_no_option(argv, subject, rest):
    assert split_subject(argv, Options) == (subject, rest)


def test_several_subjects():
    assert split_subjects(["a", "--seed", "1", "b"], Options) == (["a", "b"], ["--seed", "1"])


def test_names_of_options_have_dashes_and_values_stay():
    assert with_dashes(["--num_envs", "a_b", "--env.a_b=c_d"]) == ["--num-envs", "a_b", "--env.a-b=c_d"]


def test_counts_below_one_are_refused():
    check_counts(Options(num_envs=1), "num_envs", "seed")
    with pytest.raises(LabError, match="--num-envs must be at least 1, got 0"):
        check_counts(Options(num_envs=0), "num_envs")


def test_devices():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(LabError, match="'meta' is not supported"):
        resolve_device("meta")
    with pytest.raises(LabError, match="Unknown device 'gpu'"):
        resolve_device("gpu")
    with pytest.raises(LabError, match="'cuda:99' does not exist: torch finds"):
        resolve_device("cuda:99")
