"""Recordings as training data; merging, splitting, checking and drawing them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import imageio.v3 as iio
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from lab_core.datasets import DatasetCfg, DatasetError, EpisodeDataset, RecordedDataset, ResidentWindows, WindowDataset
from lab_core.datasets.check import check_recording
from lab_core.datasets.edit import merge, split
from lab_core.datasets.plot import component_names, plot_key
from lab_core.errors import LabError
from lab_core.managers import TerminationTermCfg
from lab_core.recorder import RecorderCfg
from lab_core.recorder.presets import transition_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def sometimes(env) -> torch.Tensor:
    generator = torch.Generator().manual_seed(env.step_count)
    return torch.rand(env.num_envs, generator=generator) < 0.1


def record(folder: Path, steps: int = 40, change=lambda cfg: None, **dataset) -> RecordedDataset:
    """Records episodes of random length; the action of a step tells its number."""
    cfg = analytic_cartpole_env_cfg(3, episode_length_s=0.5)
    cfg.terminations["random"] = TerminationTermCfg(func=sometimes)
    change(cfg)
    cfg.recorder = RecorderCfg(terms=transition_terms(), dataset=DatasetCfg(folder=folder, **dataset))
    env = cfg.build()
    for step in range(steps):
        env.step(torch.full((env.num_envs, 1), float(step)))
    env.close()
    return RecordedDataset(folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> RecordedDataset:
    """A recording that no test changes, in several files."""
    return record(tmp_path_factory.mktemp("source"), shard_megabytes=0.02)


class TestDatasets:
    def test_whole_episodes(self, source):
        assert len(source.files) > 1
        data = EpisodeDataset(source, ["actions", "states", "initial_state"], episodes=[2, 0])
        item = data[0]
        assert len(data) == 2 and len(item) == 9
        assert torch.equal(item["actions"], source.load(2).steps["actions"])
        assert item["initial_state/articulation/robot/joint_position"].shape == (2,)

    @pytest.mark.parametrize("storage", ["read", "mapped"])
    @pytest.mark.parametrize(("length", "stride"), [(1, 1), (4, 1), (3, 2)])
    def test_windows_cover_every_episode_and_cross_no_end(self, source, storage, length, stride):
        windows = WindowDataset(source, ["actions", "rewards"], length, stride, storage=storage)
        expected = [
            episode.steps["actions"][first : first + length]
            for episode in source
            for first in range(0, len(episode) - length + 1, stride)
        ]
        assert len(windows) == len(expected)
        assert all(torch.equal(windows[i]["actions"], rows) for i, rows in enumerate(expected))
        assert all((windows[i]["actions"].diff(dim=0) == 1).all() for i in range(len(windows)))

    def test_resident_windows_are_the_same(self, source):
        windows = WindowDataset(source, ["obs", "states"], 4)
        resident = ResidentWindows(source, ["obs", "states"], 4)
        assert len(resident) == len(windows)
        batch = resident.batch(torch.arange(len(resident)))
        for index in range(len(windows)):
            assert all(torch.equal(value, batch[key][index]) for key, value in windows[index].items())
        drawn = [resident.sample(16, torch.Generator().manual_seed(3))["obs"] for _ in range(2)]
        assert drawn[0].shape == (16, 4, 4) and torch.equal(*drawn)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_data_loader_reads_in_any_number_of_processes(self, source, workers):
        windows = WindowDataset(source, ["actions"], 3)
        _ = windows[0]  # the parent has open files
        loader = DataLoader(windows, batch_size=5, num_workers=workers)
        rows = torch.cat([batch["actions"] for batch in loader])
        assert torch.equal(rows, torch.stack([windows[i]["actions"] for i in range(len(windows))]))

    def test_a_step_whose_physics_failed_is_left_out(self, tmp_path):
        cfg = analytic_cartpole_env_cfg(2)
        cfg.recorder = RecorderCfg(terms=transition_terms(), dataset=DatasetCfg(folder=tmp_path))
        env = cfg.build()
        for step in range(4):
            if step == 3:
                env.scene["robot"].data.joint_vel[1] = torch.nan
            env.step(torch.zeros(2, 1))
        env.close()
        dataset = RecordedDataset(tmp_path)
        assert [(info.length, info.non_finite) for info in dataset.infos] == [(4, True), (4, False)]
        assert WindowDataset(dataset, ["actions"], 1).episode_of_window.tolist() == [0, 0, 0, 1, 1, 1, 1]
        assert check_recording(dataset) == []

    @pytest.mark.parametrize(
        ("keys", "length", "message"),
        [
            (["action"], 2, "has no values per step called 'action'; there are"),
            (["initial_state"], 2, "has no values per step called 'initial_state'"),
            (["actions"], 31, "No chosen episode of .* has 31 steps; the longest has"),
            (["actions"], 0, "needs a positive length and stride, got 0 and 1"),
        ],
    )
    def test_impossible_windows(self, source, keys, length, message):
        for kind in (WindowDataset, ResidentWindows):
            with pytest.raises(DatasetError, match=message):
                kind(source, keys, length)


class TestMerge:
    def test_episodes_follow_one_another_and_keep_their_facts(self, source, tmp_path):
        other = record(tmp_path / "other", label="other")
        merge([source, other], tmp_path / "all.hdf5")
        merged = RecordedDataset(tmp_path / "all.hdf5")
        assert merged.names == [f"demo_{index}" for index in range(len(source) + len(other))]
        assert merged.infos == source.infos + other.infos
        assert merged.config == source.config
        last = merged.load(len(merged) - 1)
        assert all(torch.equal(last.steps[key], value) for key, value in other.load(len(other) - 1).steps.items())
        with h5py.File(tmp_path / "all.hdf5") as file:
            assert file["data"].attrs["total"] == sum(info.length for info in merged.infos)
            assert [*file["data"]] == merged.names

    def test_another_seed_and_number_of_envs_leave_the_configuration(self, source, tmp_path):
        def change(cfg) -> None:
            cfg.seed, cfg.scene.num_envs = 7, 2

        other = record(tmp_path / "other", change=change)
        assert other.config != source.config
        merge([source, other], tmp_path / "all.hdf5")
        assert RecordedDataset(tmp_path / "all.hdf5").config == source.config

    def test_other_configurations_of_one_robot_leave_no_configuration(self, source, tmp_path):
        other = record(tmp_path / "other", change=lambda cfg: cfg.rewards.clear())
        merge([source, other], tmp_path / "all.hdf5")
        merged = RecordedDataset(tmp_path / "all.hdf5")
        assert merged.config == "" and merged.attributes["config_hash"] == ""

    def test_what_does_not_fit_together(self, source, tmp_path):
        slow = record(tmp_path / "slow", change=lambda cfg: setattr(cfg, "decimation", 3))
        with pytest.raises(DatasetError, match="does not fit together with .*\n  step_dt: 0.025.*, was 0.016"):
            merge([source, slow], tmp_path / "all.hdf5")
        heavy = record(tmp_path / "heavy", change=lambda cfg: setattr(cfg.physics, "gravity", (0.0, 0.0, -20.0)))
        with pytest.raises(DatasetError, match="forces.gravity: .*-20.0.*, was .*-9.81"):
            merge([source, heavy], tmp_path / "all.hdf5")
        heavy.close()
        with h5py.File(heavy.files[0][0], "r+") as file:
            file["data"].attrs["physics_fingerprint"] = source.attributes["physics_fingerprint"]
            del file["data/demo_0/rewards"]
        with pytest.raises(DatasetError, match="hold different keys or shapes: rewards"):
            merge([source, RecordedDataset(tmp_path / "heavy")], tmp_path / "all.hdf5")
        assert not (tmp_path / "all.hdf5").exists()

    def test_a_recording_is_taken_once(self, source, tmp_path):
        (tmp_path / "again").symlink_to(source.path.absolute())
        for again in (source.path, source.files[0][0], tmp_path / "again"):
            with pytest.raises(DatasetError, match=r"dataset-00000.hdf5 is given twice"):
                merge([source, RecordedDataset(again)], tmp_path / "all.hdf5")
        assert not (tmp_path / "all.hdf5").exists()

    def test_an_existing_file_stays(self, source, tmp_path):
        (tmp_path / "all.hdf5").write_text("mine")
        with pytest.raises(DatasetError, match="all.hdf5 exists; choose another name"):
            merge([source], tmp_path / "all.hdf5")
        assert [path.name for path in tmp_path.iterdir()] == ["all.hdf5"]

    def test_a_target_that_cannot_be_written(self, source, tmp_path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(DatasetError, match=r"Cannot write .*/file/all.hdf5: (Not a directory|File exists)"):
            merge([source], tmp_path / "file" / "all.hdf5")
        with pytest.raises(DatasetError, match=r"Cannot write .*/file/a.hdf5: (Not a directory|File exists)"):
            split(source, (0.5, 0.5), [tmp_path / "file" / name for name in ("a.hdf5", "b.hdf5")])
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize("size", [3000, 30000])
    def test_a_full_disk_is_named_and_leaves_nothing(self, source, tmp_path, size):
        """In a process of its own, in which no file may grow beyond ``size``."""
        script = (
            "import resource, sys\nfrom pathlib import Path\nfrom lab_core.cli import main\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\nsys.exit(main(sys.argv[1:]))"
        )
        for command in (["merge", "--output", "all.hdf5"], ["split", "--output", "parts"]):
            argv = [sys.executable, "-c", script, "data", command[0], str(source.path), *command[1:]]
            process = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert process.returncode == 1 and "Traceback" not in process.stderr, process.stderr
            assert ": File too large." in process.stderr
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class TestSplit:
    def test_every_episode_goes_to_one_part_and_labels_are_dealt_evenly(self, tmp_path):
        sources = [record(tmp_path / label, label=label) for label in ("standing", "walking")]
        merge(sources, tmp_path / "all.hdf5")
        outputs = [tmp_path / "train.hdf5", tmp_path / "valid.hdf5"]
        counts = split(RecordedDataset(tmp_path / "all.hdf5"), (0.75, 0.25), outputs, seed=3)
        parts = [RecordedDataset(path) for path in outputs]
        assert [len(part) for part in parts] == counts
        together = [info for part in parts for info in part.infos]
        assert sorted(together, key=str) == sorted(sources[0].infos + sources[1].infos, key=str)
        for label, recording in zip(("standing", "walking"), sources, strict=True):
            share = sum(info.label == label for info in parts[0].infos) / len(recording)
            assert share == pytest.approx(0.75, abs=0.6 / len(recording))
        again = [tmp_path / "a.hdf5", tmp_path / "b.hdf5"]
        split(RecordedDataset(tmp_path / "all.hdf5"), (0.75, 0.25), again, seed=3)
        assert RecordedDataset(again[0]).infos == parts[0].infos

    @pytest.mark.parametrize(
        ("fractions", "message"),
        [
            ((0.9, 0.2), "positive and sum to 1"),
            ((0.0, 1.0), "positive"),
            ((float("nan"), 1.0), "positive"),
            ((0.999, 0.001), "too few for these fr.*b.hd"),
        ],
    )
    def test_impossible_fractions(self, source, tmp_path, fractions, message):
        with pytest.raises(DatasetError, match=message):
            split(source, fractions, [tmp_path / "a.hdf5", tmp_path / "b.hdf5"])
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("stage", ["fsync", "replace"])
    def test_a_part_has_its_name_when_it_is_complete(self, source, tmp_path, monkeypatch, stage):
        def fails(*_: object) -> None:
            assert not list(tmp_path.glob("*.hdf5"))  # a crash would leave it like this
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, stage, fails)
        with pytest.raises(DatasetError, match="Cannot write .*a.hdf5: Input/output error"):
            split(source, (1.0,), [tmp_path / "a.hdf5"])
        assert not list(tmp_path.iterdir())

    def test_no_part_stays_when_a_later_one_fails(self, source, tmp_path, monkeypatch):
        replace = os.replace

        def fails_at_b(partial: Path, path: Path) -> None:
            if path.name == "b.hdf5":
                raise OSError(28, "No space left on device")
            replace(partial, path)

        monkeypatch.setattr(os, "replace", fails_at_b)
        with pytest.raises(DatasetError, match="Cannot write .*b.hdf5: No space left"):
            split(source, (0.5, 0.5), [tmp_path / "a.hdf5", tmp_path / "b.hdf5"])
        assert not list(tmp_path.iterdir())

    def test_an_existing_part_stays_and_no_other_is_written(self, source, tmp_path):
        (tmp_path / "b.hdf5").write_text("mine")
        with pytest.raises(DatasetError, match="b.hdf5 exists; choose another name"):
            split(source, (0.5, 0.5), [tmp_path / "a.hdf5", tmp_path / "b.hdf5"])
        assert [path.name for path in tmp_path.iterdir()] == ["b.hdf5"]


class TestCheck:
    def test_a_good_recording(self, source):
        assert check_recording(source) == []

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda demo: demo["obs"].__setitem__((2, 1), np.nan), "'obs' is not finite in step 2"),
            (
                lambda demo: demo["states/articulation/robot/root_pose"].__setitem__((1, 6), 2.0),
                "'states/articulation/robot/root_pose' holds no unit quaternion in step 1",
            ),
            (lambda demo: demo["dones"].__setitem__(0, 1), "'dones' says that the episode ends in step 0 of"),
            (lambda demo: demo.__delitem__("rewards"), "'rewards' is missing, in the first episode"),
            (lambda demo: shorten(demo, "actions"), "'actions' has 2 rows instead of"),
            (lambda demo: demo.parent.attrs.__setitem__("total", 5), "states 5 steps, its episodes have"),
            (lambda demo: demo.parent.__delitem__("demo_3"), "the list of its episodes does not agree"),
            (
                lambda demo: demo.parent.copy(demo, "demo_99"),
                "Episode 0 of environment 1 with seed 42 is there 2 times",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path, damage, message):
        path = record(tmp_path).files[0][0]
        with h5py.File(path, "r+") as file:
            names = {item.attrs["env_id"]: name for name, item in reversed(file["data"].items())}
            damage(file["data"][names[1]])
        problems = check_recording(RecordedDataset(path))
        assert any(message in problem for problem in problems), problems

    def test_equal_environments_and_seeds_under_another_policy_are_other_episodes(self, tmp_path):
        folders = [tmp_path / name for name in ("a", "b")]
        sources = [record(folder) for folder in folders]
        sources[1].close()
        with h5py.File(sources[1].files[0][0].replace(tmp_path / "b.hdf5"), "r+") as file:
            for demo in file["data"].values():
                demo["actions"][:] = demo["actions"][:] + 1.0
        merge([sources[0], RecordedDataset(tmp_path / "b.hdf5")], tmp_path / "all.hdf5")
        assert check_recording(RecordedDataset(tmp_path / "all.hdf5")) == []

    def test_progress_is_reported(self, source):
        counts = []
        check_recording(source, counts.append)
        assert counts == list(range(1, len(source) + 1))


def shorten(group: h5py.Group, key: str) -> None:
    rows = group[key][:2]
    del group[key]
    group[key] = rows


class TestPlot:
    def test_components_have_names(self, source):
        names = {
            "states/articulation/robot/root_pose": ["x [m]", "y [m]", "z [m]", "qx", "qy", "qz", "qw"],
            "states/articulation/robot/joint_position": ["slider_to_cart", "cart_to_pole"],
            "applied_effort/robot": ["slider_to_cart", "cart_to_pole"],
            "obs": ["[0]", "[1]", "[2]", "[3]"],
            "rewards": ["rewards"],
        }
        for key, expected in names.items():
            assert component_names(source, key, len(expected)) == expected

    def test_a_picture_of_every_component(self, source, tmp_path):
        pytest.importorskip("matplotlib")
        for key in ("rewards", "states/articulation/robot/joint_position", "states/articulation/robot/root_pose"):
            plot_key(source, key, [0, 1], tmp_path / "plot.png")
            picture = iio.imread(tmp_path / "plot.png")
            assert picture.std() > 5
        with pytest.raises(DatasetError, match="unknown key 'reward'. Did you mean 'rewards'"):
            plot_key(source, "reward", [0], tmp_path / "other.png")
        assert not (tmp_path / "other.png").exists()

    @pytest.mark.parametrize(
        ("key", "episodes", "message"),
        [
            ("rewards", [], "No episode to draw"),
            ("initial_state/articulation/robot/root_pose", [0], "has one value per episode, nothing to draw"),
        ],
    )
    def test_what_cannot_be_drawn(self, source, tmp_path, key, episodes, message):
        pytest.importorskip("matplotlib")
        with pytest.raises(DatasetError, match=message):
            plot_key(source, key, episodes, tmp_path / "plot.png")
        assert not list(tmp_path.iterdir())

    def test_a_picture_has_the_name_that_was_given(self, source, tmp_path):
        pytest.importorskip("matplotlib")
        with pytest.raises(LabError, match=f"Cannot write {tmp_path}: .*Is a directory"):
            plot_key(source, "rewards", [0], tmp_path)
        plot_key(source, "rewards", [0], tmp_path / "picture")
        assert [path.name for path in tmp_path.iterdir()] == ["picture"]
