from __future__ import annotations

import dataclasses
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from lab_core.agents import PPOCfg
from lab_core.config import save_yaml
from lab_core.errors import ConfigError, LabError
from lab_core.testing import analytic_cartpole_env_cfg
from lab_core.versions import git_revision, versions
from lab_rl.runs import Checkpoint, RunCfg, RunFolder, find_checkpoint, latest_run, load_checkpoint, save_checkpoint
from lab_rl.runs.checkpoint import CheckpointError
from lab_rl.runs.config import load_run_cfg
from lab_rl.runs.curves import draw_curves
from lab_rl.runs.files import write_file
from lab_rl.runs.folder import run_of
from lab_rl.runs.progress import ProgressFile, read_progress


def run_with_checkpoints(path, *iterations: int) -> RunFolder:
    run = RunFolder(path)
    run.checkpoints.mkdir(parents=True)
    for iteration in iterations:
        run.checkpoint(iteration).touch()
    return run


class TestFolder:
    def test_two_runs_of_one_second_do_not_share_a_folder(self, tmp_path):
        first, second = RunFolder.create(tmp_path, "a"), RunFolder.create(tmp_path, "a")
        assert first.path != second.path and first.path.name.endswith("_a")
        assert first.checkpoints.is_dir() and first.videos.is_dir()

    def test_latest_points_to_the_newest_run(self, tmp_path):
        RunFolder.create(tmp_path).mark_latest()
        newest = RunFolder.create(tmp_path)
        newest.mark_latest()
        assert (tmp_path / "latest").resolve() == newest.path.resolve()

    def test_unwritable_log_directory_is_named(self, tmp_path):
        blocker = tmp_path / "logs"
        blocker.write_text("not a folder")
        with pytest.raises(LabError, match=r"Cannot write the run folder .*logs.*Choose another with --logs"):
            RunFolder.create(blocker / "Task")

    @pytest.mark.parametrize("name", ["a/b", "..\\x", "with space"])
    def test_names_that_are_no_file_names_are_refused(self, tmp_path, name):
        with pytest.raises(LabError, match="run's name may have letters"):
            RunFolder.create(tmp_path, name)
        assert list(tmp_path.iterdir()) == []

    def test_latest_checkpoint_is_the_numeric_maximum(self, tmp_path):
        run = run_with_checkpoints(tmp_path, 9, 10, 999, 1000)
        (run.checkpoints / "2000.pt.partial").touch()
        (run.checkpoints / ".3000.pt.partial").touch()
        (run.checkpoints / "best.pt").touch()
        assert run.latest_checkpoint() == run.checkpoint(1000)

    def test_latest_run_goes_by_name_and_needs_a_checkpoint(self, tmp_path):
        older = run_with_checkpoints(tmp_path / "2026-01-01_10-00-00", 5)
        newer = run_with_checkpoints(tmp_path / "2026-01-02_09-00-00", 5)
        run_with_checkpoints(tmp_path / "2026-01-03_09-00-00")
        os.utime(older.path)
        found = latest_run(tmp_path)
        assert found is not None and found.path == newer.path
        assert latest_run(tmp_path / "nothing") is None

    def test_a_renamed_run_is_not_the_latest_unless_there_is_no_other(self, tmp_path):
        renamed = run_with_checkpoints(tmp_path / "walks_well", 5)
        found = latest_run(tmp_path)
        assert found is not None and found.path == renamed.path
        newer = run_with_checkpoints(tmp_path / "2026-01-02_09-00-00_try", 5)
        found = latest_run(tmp_path)
        assert found is not None and found.path == newer.path

    def test_checkpoint_is_found_from_a_run_or_named(self, tmp_path):
        run = run_with_checkpoints(tmp_path / "run", 5, 20)
        assert find_checkpoint(run.path) == run.checkpoint(20)
        assert find_checkpoint(run.checkpoint(5)) == run.checkpoint(5)

    def test_missing_checkpoints_are_described(self, tmp_path):
        (tmp_path / "notes.txt").touch()
        with pytest.raises(LabError, match=r"not a run with a checkpoint.*It holds notes\.txt"):
            find_checkpoint(tmp_path)
        with pytest.raises(
            LabError, match=rf"There is no run or checkpoint .*nothing/5\.pt\. {tmp_path} holds notes\.txt"
        ):
            find_checkpoint(tmp_path / "nothing" / "5.pt")
        run = run_with_checkpoints(tmp_path / "run", 5, 20)
        with pytest.raises(LabError, match=r"no run or checkpoint .*6\.pt\. .*checkpoints holds 20\.pt, 5\.pt"):
            find_checkpoint(run.checkpoint(6))

    def test_checkpoint_outside_a_run_is_refused(self, tmp_path):
        (tmp_path / "5.pt").touch()
        with pytest.raises(LabError, match=r"5\.pt does not lie in the checkpoints/ of a run"):
            run_of(tmp_path / "5.pt")


class TestFiles:
    def test_failure_leaves_the_older_file_and_nothing_else(self, tmp_path, monkeypatch):
        path = tmp_path / "file.txt"
        path.write_text("old")

        def full(source, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(LabError, match=r"Cannot write .*file\.txt: No space left on device"):
            write_file(path, "new")
        assert path.read_text() == "old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def checkpoint(**runner) -> Checkpoint:
    return Checkpoint(
        task="Task",
        config_hash="abc",
        num_envs=2,
        observations={"policy": [("joint_pos", 2), ("joint_vel", 2)]},
        actions=[("cart_effort", 1)],
        runner={"iteration": 7, **runner},
    )


class TestCheckpoint:
    def test_round_trip(self, tmp_path):
        stored = checkpoint(
            weights=torch.arange(6.0).reshape(2, 3).T, random=random.getstate(), nested=[(1, None, "x"), {"y": 2.5}]
        )
        save_checkpoint(tmp_path / "7.pt", stored)
        loaded = load_checkpoint(tmp_path / "7.pt")
        assert loaded.iteration == 7 and loaded.actions == stored.actions and loaded.observations == stored.observations
        assert torch.equal(loaded.runner["weights"], stored.runner["weights"])
        assert loaded.runner["random"] == random.getstate() and loaded.runner["nested"] == [(1, None, "x"), {"y": 2.5}]

    def test_bytes_depend_on_values_alone(self, tmp_path):
        tensor = torch.arange(10.0)
        word = "a word"
        shared = checkpoint(a=tensor[2:5], b=tensor[2:5], c=word, d=word, e=(word, 1))
        apart = checkpoint(
            a=tensor[2:5].clone(), b=tensor[2:5].clone(), c="a " + "word", d="".join("a word"), e=("a word", 1)
        )
        save_checkpoint(tmp_path / "first.pt", shared)
        save_checkpoint(tmp_path / "second.pt", apart)
        assert (tmp_path / "first.pt").read_bytes() == (tmp_path / "second.pt").read_bytes()

    def test_damaged_file_is_named(self, tmp_path):
        save_checkpoint(tmp_path / "7.pt", checkpoint(weights=torch.zeros(1000)))
        whole = (tmp_path / "7.pt").read_bytes()
        (tmp_path / "7.pt").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CheckpointError, match=r"Cannot read the checkpoint .*7\.pt"):
            load_checkpoint(tmp_path / "7.pt")

    def test_code_in_a_file_is_not_executed(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (os.mkdir, (str(tmp_path / "sprung"),))

        torch.save(Trap(), tmp_path / "7.pt")
        with pytest.raises(CheckpointError, match="Cannot read the checkpoint"):
            load_checkpoint(tmp_path / "7.pt")
        assert not (tmp_path / "sprung").exists()

    def test_other_format_is_refused(self, tmp_path):
        torch.save({"format_version": 99}, tmp_path / "7.pt")
        with pytest.raises(CheckpointError, match="has checkpoint format 99, this lab_rl reads format 1"):
            load_checkpoint(tmp_path / "7.pt")

    def test_other_task_or_terms_are_named(self, tmp_path):
        env = analytic_cartpole_env_cfg(num_envs=2).build("cpu")
        fits = dataclasses.replace(checkpoint(), observations={"policy": [("joint_pos_rel", 2), ("joint_vel_rel", 2)]})
        fits.check(tmp_path, "Task", env)
        with pytest.raises(CheckpointError, match="is a checkpoint of Task, not of Other"):
            fits.check(tmp_path, "Other", env)
        with pytest.raises(
            CheckpointError,
            match=r"observation group 'policy' was 4 wide \(joint_pos 2, joint_vel 2\) in training and is 4 wide "
            r"\(joint_pos_rel 2, joint_vel_rel 2\) here",
        ):
            checkpoint().check(tmp_path, "Task", env)
        with pytest.raises(CheckpointError, match=r"the action was 3 wide \(legs 3\) in training and is 1 wide"):
            dataclasses.replace(fits, actions=[("legs", 3)]).check(tmp_path, "Task", env)
        with pytest.raises(CheckpointError, match="'privileged', which this environment does not have"):
            dataclasses.replace(fits, observations={"privileged": [("mass", 1)]}).check(tmp_path, "Task", env)


class TestConfig:
    def cfg(self) -> RunCfg:
        return RunCfg(task="Task", device="cpu", env=analytic_cartpole_env_cfg(), agent=PPOCfg())

    def test_round_trip(self, tmp_path):
        save_yaml(self.cfg(), tmp_path / "config.yaml")
        assert load_run_cfg(tmp_path / "config.yaml") == self.cfg()

    def test_hash_ignores_how_long_and_where(self):
        longer = self.cfg()
        longer.device, longer.agent.max_iterations, longer.agent.save_interval = "cuda:0", 7, 3
        other = self.cfg()
        other.agent.gamma = 0.5
        assert longer.hash() == self.cfg().hash() != other.hash()

    def test_file_of_another_kind_is_refused(self, tmp_path):
        save_yaml(PPOCfg(), tmp_path / "config.yaml")
        with pytest.raises(ConfigError, match=r"expected the configuration of a run \(RunCfg\), found a PPOCfg"):
            load_run_cfg(tmp_path / "config.yaml")


class TestProgress:
    def test_rows_beyond_the_resumed_iteration_go_away(self, tmp_path):
        path = tmp_path / "progress.jsonl"
        progress = ProgressFile(path)
        for iteration in range(1, 6):
            progress.add({"iteration": iteration, "elapsed_s": 2.0 * iteration})
        progress.close()
        resumed = ProgressFile(path, iteration=3)
        assert resumed.elapsed == 6.0
        resumed.add({"iteration": 4, "elapsed_s": 8.5})
        resumed.close()
        assert [row["iteration"] for row in read_progress(path)] == [1, 2, 3, 4]
        assert read_progress(path)[-1]["elapsed_s"] == 8.5

    def test_line_cut_by_a_crash_is_left_out(self, tmp_path):
        path = tmp_path / "progress.jsonl"
        path.write_text('{"iteration": 1, "elapsed_s": 1.0}\n{"iteration": 2, "ela')
        assert [row["iteration"] for row in read_progress(path)] == [1]

    def test_rows_are_on_disk_at_once(self, tmp_path):
        progress = ProgressFile(tmp_path / "progress.jsonl")
        progress.add({"iteration": 1, "elapsed_s": 1.0})
        assert len(read_progress(tmp_path / "progress.jsonl")) == 1
        progress.close()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_full_disk_is_named(self, tmp_path):
        progress = ProgressFile(tmp_path / "progress.jsonl")
        progress.close()
        with Path("/dev/full").open("ab", buffering=0) as full:
            progress._file = full
            with pytest.raises(LabError, match="Cannot write /dev/full: No space left on device"):
                progress.add({"iteration": 1, "elapsed_s": 1.0})


def test_curves_show_the_rows(tmp_path):
    rows = [
        {"iteration": i, "reward": i / 10 if i > 3 else None, "episode_length": 5.0, "Loss/value": 1.0 / i}
        for i in range(1, 20)
    ]
    draw_curves(rows, tmp_path / "curves.png", "Task")
    draw_curves([], tmp_path / "empty.png", "Task")
    full, empty = (np.asarray(Image.open(tmp_path / name).convert("L")) for name in ("curves.png", "empty.png"))
    assert full.shape == empty.shape and (full != empty).sum() > 500


def test_curves_have_panels_of_reward_terms_and_terminations(tmp_path, monkeypatch):
    shown = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.update(
        {axes.get_title(): [line.get_label() for line in axes.lines] for axes in figure.axes}))  # fmt: skip
    row = {"iteration": 1, "reward": 1.0, "Episode_Reward/alive": 1.0, "Episode_Reward/calm": 0.1}
    draw_curves([row, {**row, "iteration": 2, "Episode_Termination/fallen": 0.5}], tmp_path / "curves.png", "Task")
    assert shown["Reward terms [1/s]"] == ["alive", "calm"]
    assert shown["Share of terminations"] == ["fallen"]


def test_versions_are_json_and_name_what_matters():
    found = json.loads(json.dumps(versions()))
    assert {"torch", "rsl-rl-lib", "lab_core"} <= {name.replace("-core", "_core") for name in found["packages"]}
    assert found["python"] and isinstance(found["command"], list)


def test_no_git_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_revision() is None
