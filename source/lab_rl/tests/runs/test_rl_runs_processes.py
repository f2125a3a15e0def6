"""Two processes that train one run: they share its environments, have one policy, and end together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lab_core.errors import ConfigError, LabError
from lab_core.physics import HealthReport
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms import Algorithm, Iteration
from lab_rl.algorithms.merge import merge_iterations
from lab_rl.cli.launch import launch_command, launch_processes
from lab_rl.processes import Processes
from lab_rl.runs import RunFolder, load_checkpoint
from lab_rl.runs.progress import read_progress
from lab_rl.runs.shares import check_processes, own_env_cfg

WORKER = Path(__file__).with_name("train_in_processes.py")
CPU = torch.device("cpu")


def start(name: str, folder: Path, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}  # whatever the host is called
    return subprocess.run(
        [*command, str(WORKER), name, str(folder)], env=environment, capture_output=True, text=True, timeout=300
    )


def outcomes(name: str, folder: Path, processes: int = 2) -> list[dict[str, Any]]:
    return [torch.load(folder / f"{name}-{rank}.pt", weights_only=True) for rank in range(processes)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes, and then one, have trained."""
    folder = tmp_path_factory.mktemp("processes")
    done = start("together", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def ranks(folder):
    return outcomes("together", folder)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


@pytest.mark.slow
def test_processes_share_environments_and_have_one_policy(ranks):
    first, second = (rank["whole"] for rank in ranks)
    assert first["envs"] == second["envs"] == 4
    assert first["seed"] != second["seed"] and not torch.equal(first["positions"], second["positions"])
    assert same(first["state"], second["state"]) and first["rate"] == second["rate"]
    assert (
        int(first["state"]["actor_state_dict"]["obs_normalizer.count"]) == 4 * 4 * 8
    )  # statistics of all environments


@pytest.mark.slow
def test_one_log_counts_all_environments(folder, ranks):
    rows = read_progress(RunFolder(folder / "whole").progress)
    assert [row["env_steps"] for row in rows] == [32, 64, 96, 128]
    assert "8 environments in 2 processes" in ranks[0]["whole"]["text"]
    assert len(list((folder / "whole").glob("events.*"))) == 1


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(folder, ranks):
    assert [rank["resumed"]["error"] for rank in ranks] == [None, None]
    whole, parts = (RunFolder(folder / name).checkpoint(4) for name in ("whole", "part"))
    assert whole.read_bytes() == parts.read_bytes()
    assert len(load_checkpoint(whole).processes) == 2


@pytest.mark.slow
def test_environments_that_cannot_be_split_are_refused(ranks):
    for rank in ranks:
        assert "7 environments cannot be split evenly among 2 processes" in rank["uneven"]["error"]
        assert "such as 6 or 8" in rank["uneven"]["error"]


@pytest.mark.slow
def test_one_signal_stops_all_in_the_same_iteration(folder, ranks):
    assert [rank["stopped"]["interrupted"] for rank in ranks] == [True, True]
    assert [rank["stopped"]["iteration"] for rank in ranks] == [2, 2]
    assert RunFolder(folder / "stopped").checkpoint(2).is_file()


@pytest.mark.slow
def test_what_fails_in_one_ends_all(folder, ranks):
    first, second = (rank["poisoned"]["error"] for rank in ranks)
    assert first.startswith("OtherProcessError: Process 1 failed.")
    assert "Iteration 3: the reward (term 'alive') is not finite" in second
    assert "The last good checkpoint is" in first and RunFolder(folder / "poisoned").checkpoint(2).is_file()


@pytest.mark.slow
def test_another_number_of_processes_goes_on_with_a_warning(folder, ranks):
    done = start("alone", folder, processes=1)
    assert done.returncode == 0, done.stdout + done.stderr
    found = outcomes("alone", folder, 1)[0]["alone"]
    assert found["iteration"] == 5 and found["envs"] == 8
    assert "2 processes trained this run so far, now one process" in found["text"]
    assert [row["env_steps"] for row in read_progress(RunFolder(folder / "whole").progress)][-1] == 160
    stored = load_checkpoint(RunFolder(folder / "whole").checkpoint(5))
    assert "alive" in stored.settings["rewards"] and stored.processes == []  # what the curriculum had reached goes on


@pytest.mark.slow
def test_a_killed_process_ends_all_with_a_checkpoint(tmp_path):
    done = start("killed", tmp_path)
    assert done.returncode != 0
    error = torch.load(tmp_path / "killed-0.pt", weights_only=True)["killed"]["error"]
    assert "Process 0 lost the others" in error and "3.pt" in error
    stored = load_checkpoint(RunFolder(tmp_path / "killed").checkpoint(3))
    assert stored.iteration == 3 and stored.processes[0] is not None and stored.processes[1] is None
    assert not list((tmp_path / "killed" / "checkpoints").glob("*.claim"))


def test_seeds_differ_and_repeat():
    assert Processes(0, 3).seed(7) == 7 == Processes().seed(7)
    seeds = {Processes(rank, 3).seed(7) for rank in range(3)} | {Processes(rank, 3).seed(8) for rank in range(3)}
    assert len(seeds) == 6 and Processes(2, 3).seed(7) in seeds
    assert Processes().seed(-1) == -1


def test_one_process_has_the_configuration_itself():
    cfg = analytic_cartpole_env_cfg(num_envs=7)
    assert own_env_cfg(cfg, CPU, Processes()) is cfg


def test_algorithms_that_cannot_are_refused():
    class Lonely(Algorithm[Any]):
        title = "Lonely search"
        make_runner = load_policy = lambda self, *_: None

    check_processes(Lonely(), Processes())
    with pytest.raises(ConfigError, match="Lonely search trains in one process, and torchrun has started 2"):
        check_processes(Lonely(), Processes(0, 2))


def test_reports_are_merged():
    parts = [
        Iteration(3, 100, 50.0, 1.0, None, {"Train/episodes": 4.0, "Loss/a": 1.0}, HealthReport(1, {"contacts": "2"})),
        Iteration(3, 100, 30.0, 3.0, None, {"Train/episodes": 5.0, "Loss/a": 2.0, "Only": 7.0}, HealthReport(2)),
    ]
    merged = merge_iterations(parts)
    assert (merged.number, merged.env_steps, merged.steps_per_second, merged.reward) == (3, 200, 80.0, 2.0)
    assert merged.episode_length is None
    assert merged.scalars == {"Train/episodes": 9.0, "Loss/a": 1.5, "Only": 7.0}
    assert merged.health == HealthReport(3, {"contacts": "2 (process 0)"})
    assert merge_iterations(parts[:1]) is parts[0]


def test_the_launcher_reads_no_option_of_ours():
    from torch.distributed.run import get_args_parser

    command = launch_command("train", ["Lab-Cartpole", "--logs", "here", "--name=a", "--max-iterations", "3"], 2)
    parsed = get_args_parser().parse_args(command[3:])
    assert parsed.nproc_per_node == "2" and parsed.module and parsed.training_script == "lab_core.cli"
    assert parsed.training_script_args[-6:] == ["Lab-Cartpole", "--logs", "here", "--name=a", "--max-iterations", "3"]


def test_processes_are_started_once(monkeypatch):
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda path, command, environment: started.append(command))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    launch_processes("train", ["Lab-Cartpole"])
    launch_processes("train", ["Lab-Cartpole", "--processes", "1"])
    assert started == []
    launch_processes("train", ["Lab-Cartpole", "--processes=3"])
    assert started[0][started[0].index("--nproc-per-node") + 1] == "3"
    monkeypatch.setenv("WORLD_SIZE", "3")
    launch_processes("train", ["Lab-Cartpole", "--processes=3"])
    assert len(started) == 1
    with pytest.raises(LabError, match="torchrun has started 3 processes: leave --processes 2 out"):
        launch_processes("train", ["Lab-Cartpole", "--processes", "2"])
    with pytest.raises(LabError, match="at least 1, got '0'"):
        launch_processes("train", ["Lab-Cartpole", "--processes", "0"])
