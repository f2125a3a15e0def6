"""Full disks, stopped programs, damaged and foreign files."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from lab_core.cli import main
from lab_core.datasets import DatasetCfg, DatasetError, RecordedDataset
from lab_core.datasets import shard as shard_module
from lab_core.recorder import RecorderCfg, RecorderError
from lab_core.recorder.presets import action_state_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

SCRIPT = """
import sys
from pathlib import Path
import torch
from lab_core.datasets import DatasetCfg
from lab_core.recorder import RecorderCfg
from lab_core.recorder.presets import action_state_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

cfg = analytic_cartpole_env_cfg(4, episode_length_s=5 / 60)
dataset = DatasetCfg(folder=Path(sys.argv[1]), shard_megabytes=0.004, existing=sys.argv[3])
cfg.recorder = RecorderCfg(terms=action_state_terms(), dataset=dataset)
env = cfg.build()
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    env.step(torch.zeros(4, 1))
env.close()
print("closed", flush=True)
"""


def make(folder: Path, **dataset):
    cfg = analytic_cartpole_env_cfg(2, episode_length_s=5 / 60)
    cfg.recorder = RecorderCfg(terms=action_state_terms(), dataset=DatasetCfg(folder=folder, **dataset))
    return cfg.build()


def run(env, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1))


def run_until_error(env, seconds: float = 20.0) -> RecorderError:
    """Steps until the environment raises; the writer's thread needs its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            run(env, 1)
        except RecorderError as error:
            return error
    raise AssertionError("no step has raised")


class TestDisk:
    @pytest.fixture
    def full_after(self, monkeypatch):
        def limit(files: int) -> None:
            saved = []
            original = shard_module.save_bytes

            def save(path, data):
                if path.suffix == ".hdf5":
                    if len(saved) >= files:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    saved.append(path)
                original(path, data)

            monkeypatch.setattr(shard_module, "save_bytes", save)

        return limit

    def test_the_next_step_says_what_failed_and_what_is_saved(self, tmp_path, full_after):
        full_after(2)
        env = make(tmp_path, shard_megabytes=0.001)
        message = str(run_until_error(env))
        assert f"cannot write {tmp_path}/dataset-00002.hdf5: No space left on device. Saved are 2 files" in message
        saved = len(RecordedDataset(tmp_path))
        assert f"with {saved} episodes in {tmp_path}" in message
        with pytest.raises(RecorderError, match="episodes are lost"):
            run(env, 1)
        env.close()  # it has been said

    def test_closing_says_it_where_no_step_did(self, tmp_path, full_after):
        full_after(0)
        env = make(tmp_path)
        run(env, 7)
        with pytest.raises(RecorderError, match=r"Saved are 0 files .*; 4 episodes are lost"):
            env.close()
        env.recorder_manager.close()
        assert not list(tmp_path.iterdir())  # nothing that would keep the next recording out

    @pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
    @pytest.mark.parametrize("stage", ["fsync", "replace"])
    def test_a_name_is_given_to_complete_files_only(self, tmp_path, monkeypatch, stage, error):
        """Whatever breaks off between the first byte and the new name."""
        path = tmp_path / "x-00000.hdf5"
        path.write_bytes(b"old")

        def fails(*_: object) -> None:
            assert path.read_bytes() == b"old"  # a crash would leave it like this
            raise error

        monkeypatch.setattr(shard_module.os, stage, fails)
        with pytest.raises(type(error)) as raised:
            shard_module.save_bytes(path, b"new")
        assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
        if isinstance(error, OSError):
            assert raised.value.filename == str(path)

    def test_a_real_limit_on_file_size(self, tmp_path):
        """In a process of its own, in which no file may grow beyond 6 KiB."""
        limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (6144, 6144))\n" + SCRIPT
        command = [sys.executable, "-c", limited, str(tmp_path), "100", "refuse"]
        # The limit would kill `git status` while it writes its index, whose lock then stays in the repository.
        without_locks = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
        process = subprocess.run(command, capture_output=True, text=True, timeout=120, env=without_locks)
        assert process.returncode != 0 and "closed" not in process.stdout
        assert "cannot write" in process.stderr and "File too large" in process.stderr
        assert not list(tmp_path.glob("*.hdf5")) and not list(tmp_path.glob(".*partial"))


class TestStoppedPrograms:
    def test_ctrl_c_loses_nothing_where_the_environment_is_closed(self, tmp_path):
        env = make(tmp_path)
        try:
            run(env, 7)
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            env.close()
        assert [info.complete for info in RecordedDataset(tmp_path).infos] == [True] * 2 + [False] * 2

    def test_a_program_that_forgets_to_close(self, tmp_path):
        script = SCRIPT.replace("env.close()\n", "")
        command = [sys.executable, "-c", script, str(tmp_path), "7", "refuse"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        assert [info.length for info in RecordedDataset(tmp_path).infos] == [5] * 4 + [2] * 4

    def test_a_program_that_drops_its_environment_keeps_the_episodes_that_ended(self, tmp_path):
        script = SCRIPT.replace(
            "env.close()\n", "import gc, weakref\nalive = weakref.ref(env)\ndel env\ngc.collect()\n"
        )
        script = script.replace("shard_megabytes=0.004, ", "") + "print(alive())"
        command = [sys.executable, "-c", script, str(tmp_path), "7", "refuse"]
        process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        assert process.stdout.split()[-1] == "None"
        dataset = RecordedDataset(tmp_path)
        assert [info.length for info in dataset.infos] == [5] * 4 and not dataset.notices

    @pytest.mark.slow
    def test_killed_at_random_points(self, tmp_path):
        """Every finished file is whole, episodes are numbered without a gap, and a new run goes on from there."""
        generator = random.Random(0)
        before = 0
        for attempt in range(20):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                env = make(tmp_path, shard_megabytes=0.002, existing="resume")
                while True:
                    run(env, 1)
                    os.write(writer, b"!")
            for _ in range(generator.randint(1, 200)):  # steps, not seconds: a loaded machine makes as many
                assert os.read(reader, 1)
            time.sleep(generator.uniform(0.0, 0.01))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            dataset = RecordedDataset(tmp_path)
            assert dataset.names == [f"demo_{index}" for index in range(len(dataset))], attempt
            for episode in dataset:
                assert {len(value) for value in episode.steps.values()} == {len(episode)}
            assert len(dataset) >= before
            assert "was not closed" in dataset.notices[0]
            before = len(dataset)
        assert before > 40
        env = make(tmp_path, existing="resume")
        run(env, 5)
        env.close()
        assert len(RecordedDataset(tmp_path)) == before + 2 and not RecordedDataset(tmp_path).notices


class TestDamagedAndForeignFiles:
    @pytest.fixture
    def recorded(self, tmp_path) -> Path:
        env = make(tmp_path)
        run(env, 5)
        env.close()
        return tmp_path / "dataset-00000.hdf5"

    def test_a_file_that_is_cut_off(self, recorded):
        recorded.write_bytes(recorded.read_bytes()[:-5000])
        with pytest.raises(DatasetError, match=f"Cannot read {recorded}: it is cut off"):
            RecordedDataset(recorded)
        with pytest.raises(DatasetError, match="it is cut off"):
            RecordedDataset(recorded.parent)

    def test_a_file_of_another_kind(self, tmp_path):
        path = tmp_path / "picture.hdf5"
        path.write_bytes(b"\x89PNG" * 100)
        with pytest.raises(DatasetError, match="picture.hdf5: it is no HDF5 file"):
            RecordedDataset(path)

    def test_an_hdf5_file_without_episodes(self, tmp_path):
        with h5py.File(tmp_path / "other.hdf5", "w") as file:
            file["weights"] = np.zeros(3)
        with pytest.raises(DatasetError, match=r"holds no episodes: it has no group 'data', only \['weights'\]"):
            RecordedDataset(tmp_path / "other.hdf5")
        with h5py.File(tmp_path / "other.hdf5", "w") as file:
            file["data/pixels"] = np.zeros(3)
        with pytest.raises(DatasetError, match="other.hdf5 is of another kind: pixels in its 'data' are no episodes"):
            RecordedDataset(tmp_path / "other.hdf5")

    def test_a_file_of_a_newer_format(self, recorded):
        with h5py.File(recorded, "r+") as file:
            file.attrs["format_version"] = 2
        with pytest.raises(DatasetError, match=r"has format 2/1; this version reads up to 1/1"):
            RecordedDataset(recorded)

    def test_what_does_not_exist(self, tmp_path, recorded):
        with pytest.raises(DatasetError, match="There is no file or folder"):
            RecordedDataset(tmp_path / "nowhere")
        (tmp_path / "empty").mkdir()
        with pytest.raises(DatasetError, match="holds no recording"):
            RecordedDataset(tmp_path / "empty")
        with pytest.raises(DatasetError, match="unknown recording 'datset'. Did you mean 'dataset'"):
            RecordedDataset(tmp_path, "datset")
        dataset = RecordedDataset(tmp_path)
        with pytest.raises(IndexError, match="holds 2 episodes; got index 2"):
            dataset.load(2)
        with pytest.raises(DatasetError, match="demo_0: unknown key 'action'. Did you mean 'actions'"):
            dataset.load(0, ["action"])

    def test_a_missing_file_of_a_recording(self, tmp_path):
        env = make(tmp_path, shard_megabytes=0.0001)
        run(env, 10)
        env.close()
        damaged = tmp_path / "dataset-00001.hdf5"
        damaged.write_bytes(damaged.read_bytes()[:-5000])
        with pytest.raises(DatasetError, match="it is cut off: .* The other files can be read by themselves"):
            RecordedDataset(tmp_path)
        damaged.unlink()
        with pytest.raises(
            DatasetError,
            match=r"files of the recording 'dataset' are missing: .*-00001.hdf5'.. The other files can be read",
        ):
            RecordedDataset(tmp_path)

    def test_a_damaged_index(self, recorded):
        (recorded.parent / "dataset.index.json").write_text("{}")
        with pytest.raises(DatasetError, match="dataset.index.json is not the index of a recording"):
            RecordedDataset(recorded.parent)
        (recorded.parent / "dataset.index.json").unlink()
        assert len(RecordedDataset(recorded.parent)) == 2

    def test_an_episode_deleted_by_another_program(self, recorded):
        with h5py.File(recorded, "r+") as file:
            del file["data/demo_0"]
        dataset = RecordedDataset(recorded)
        assert dataset.names == ["demo_1"] and dataset.infos[0].env_id == 1

    def test_what_other_programs_store_beside_arrays_is_left_alone(self, tmp_path):
        path = tmp_path / "other.hdf5"
        with h5py.File(path, "w") as file:
            file.create_group("data").attrs.update(names="[robot", versions="1", git="x", command="{}", total=[5])
            demo = file.create_group("data/demo_0")
            demo["actions"] = np.zeros((5, 2), np.float32)
            demo["weight"], demo["words"] = 1.0, np.array([b"go"] * 5)
        dataset = RecordedDataset(path)
        assert dataset.step_keys == ["actions"] and list(dataset.load(0).steps) == ["actions"]
        assert dataset.entity_names("robot", "joint_names") is None
        assert main(["data", "info", str(path), "--episodes"]) == 0
        assert main(["data", "check", str(path)]) == 1  # its total is no number

    def test_facts_of_another_kind(self, tmp_path):
        path = tmp_path / "other.hdf5"
        with h5py.File(path, "w") as file:
            file.create_group("data/demo_0")
            file.attrs["format_version"] = "new"
        with pytest.raises(DatasetError, match=f"Cannot read {path}: it is damaged or of another kind .*'new'"):
            RecordedDataset(path)

    def test_damage_anywhere_is_an_error_in_one_line(self, recorded, tmp_path, capsys):
        """Single bytes are changed at random: no command may end with an error of HDF5 or Python."""
        whole, damaged = recorded.read_bytes(), tmp_path / "damaged.hdf5"
        generator = random.Random(0)
        codes = set()
        for attempt in range(25):
            content = bytearray(whole)
            for _ in range(generator.choice((1, 5, 20))):
                content[generator.randrange(len(content))] = generator.randrange(256)
            damaged.write_bytes(content)
            outputs = ["--output", str(tmp_path / str(attempt))]
            for command in (["info", "--episodes"], ["check"], ["merge", *outputs], ["split", *outputs]):
                codes.add(main(["data", command[0], str(damaged), *command[1:]]))
        assert codes == {0, 1}


class TestFilesOfIsaacLab:
    def write(self, path: Path, version: int | None) -> None:
        """Two episodes of 3 steps, as its recorder writes them; the robot is turned by 90 degrees about z."""
        turned = [0.5**0.5, 0.0, 0.0, 0.5**0.5] if version is None else [0.0, 0.0, 0.5**0.5, 0.5**0.5]
        with h5py.File(path, "w") as file:
            if version is not None:
                file.attrs["format_version"] = version
            data = file.create_group("data")
            data.attrs["total"] = 6
            for name in ("demo_0", "demo_1"):
                demo = data.create_group(name)
                demo.attrs["num_samples"] = 3
                demo.attrs["success"] = name == "demo_1"
                demo["actions"] = np.arange(6, dtype=np.float32).reshape(3, 2)
                for key, length in (("initial_state", 1), ("states", 3)):
                    robot = demo.create_group(f"{key}/articulation/robot")
                    robot["root_pose"] = np.tile(np.float32([1, 2, 3, *turned]), (length, 1))
                    robot["joint_position"] = np.zeros((length, 2), np.float32)

    @pytest.mark.parametrize("version", [None, 1])
    def test_both_formats_give_the_same(self, tmp_path, version):
        self.write(tmp_path / "file.hdf5", version)
        dataset = RecordedDataset(tmp_path / "file.hdf5")
        assert [(info.length, info.success, info.env_id) for info in dataset.infos] == [(3, False, -1), (3, True, -1)]
        assert dataset.initial_keys == [
            "initial_state/articulation/robot/joint_position",
            "initial_state/articulation/robot/root_pose",
        ]
        episode = dataset.load(1)
        expected = torch.tensor([1, 2, 3, 0, 0, 0.5**0.5, 0.5**0.5])
        assert torch.equal(episode.initial["initial_state/articulation/robot/root_pose"], expected)
        assert torch.equal(episode.steps["states/articulation/robot/root_pose"], expected.expand(3, 7))
        rows = dataset.array(0, "states/articulation/robot/root_pose", slice(1, 2), mapped=True)
        assert rows.tolist() == expected[None].tolist()
        assert dataset.config == ""
