"""``lab record``, ``lab replay`` and ``lab data``, as a user types them."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from rich.console import Console

from lab_core.cli import main
from lab_core.cli.progress import ProgressDisplay
from lab_core.datasets import DatasetCfg, RecordedDataset
from lab_core.recorder import RecorderCfg, RetentionCfg
from lab_core.recorder.presets import action_state_terms
from lab_core.registry import TaskSpec, register_task
from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

TASK = "Stub-Record"


def env_cfg(play: bool = False):
    cfg = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.1)
    cfg.observations["policy"].enable_corruption = not play
    return cfg


register_task(TaskSpec(id=TASK, env_cfg=env_cfg))


def recorded_env_cfg(play: bool = False):
    """A task that says what of it is recorded, where it would go, and which episodes succeed."""
    cfg = env_cfg(play)
    cfg.recorder = RecorderCfg(
        terms={
            name: term for name, term in action_state_terms().items() if name in ("actions", "states", "initial_state")
        },
        retention=RetentionCfg(max_episode_length=4, on_overflow="drop_oldest"),
        dataset=DatasetCfg(folder=Path("elsewhere")),
        success=lambda env: torch.arange(env.num_envs) % 2 == 0,
    )
    return cfg


register_task(TaskSpec(id="Stub-Recorder", env_cfg=recorded_env_cfg))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lab(capsys, *argv: str, code: int = 0) -> str:
    """Runs a command and returns all that it printed, in one line."""
    try:
        result = main(list(argv))
    except SystemExit as stop:
        result = stop.code
    captured = capsys.readouterr()
    text = " ".join((captured.out + captured.err).split())
    assert result == code, text
    return text


class TestRecord:
    def test_the_shortest_command(self, capsys):
        text = lab(capsys, "record", TASK)
        assert "Recorded 10 episodes in recordings/Stub-Record; see `lab data info recordings/Stub-Record`" in text
        dataset = RecordedDataset("recordings/Stub-Record")
        assert [(info.env_id, info.length) for info in dataset.infos][:4] == [(0, 6), (1, 6), (2, 6), (3, 6)]
        assert sorted(info.env_id for info in dataset.infos) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
        assert all(info.complete and info.label == "" for info in dataset.infos)
        assert "Stub-Record" in dataset.attributes["env_args"]

    def test_options_reach_the_files(self, capsys):
        lab(
            capsys, "record", TASK, "--episodes", "2", "--output", "out", "--name", "walk", "--label", "walking",
            "--policy", "zero", "--seed", "5", "--compression", "3", "--env.decimation", "3",
        )  # fmt: skip
        dataset = RecordedDataset("out", "walk")
        assert [(info.label, info.seed) for info in dataset.infos] == [("walking", 5)] * 2
        assert not dataset.load(0).steps["actions"].any() and dataset.attributes["decimation"] == 3
        assert "seed: 5" in dataset.config and "num_envs: 2" in dataset.config

    def test_the_play_config(self, capsys):
        for option, corrupted in (("--play-config", "false"), ("--no-play-config", "true")):
            lab(capsys, "record", TASK, "--episodes", "1", option, "--output", corrupted)
            assert f"enable_corruption: {corrupted}" in RecordedDataset(corrupted).config

    def test_resuming_records_what_is_missing_with_another_seed(self, capsys):
        lab(capsys, "record", TASK, "--episodes", "2", "--output", "out")
        assert "already holds a recording 'dataset'" in lab(capsys, "record", TASK, "--output", "out", code=1)
        lab(capsys, "record", TASK, "--episodes", "5", "--output", "out", "--existing", "resume")
        assert [info.seed for info in RecordedDataset("out").infos] == [42] * 2 + [43] * 3
        text = lab(capsys, "record", TASK, "--episodes", "5", "--output", "out", "--existing", "resume")
        assert "out already holds 5 episodes" in text
        lab(capsys, "record", TASK, "--episodes", "1", "--output", "out", "--existing", "overwrite")
        assert len(RecordedDataset("out")) == 1

    def test_an_existing_recording_is_refused_before_anything_is_built(self, capsys, monkeypatch):
        lab(capsys, "record", TASK, "--episodes", "2", "--output", "out", "--mode", "separate")
        monkeypatch.setattr("lab_core.envs.make_env", lambda *args: pytest.fail("an environment was built"))
        for mode, name in (("separate", "dataset_failed"), ("all", "dataset_failed")):
            argv = ("--mode", mode, "--name", name) if mode == "all" else ("--mode", mode)
            text = lab(capsys, "record", TASK, "--output", "out", *argv, code=1)
            assert f"out already holds a recording '{name}' (1 files)" in text
        Path("file").write_text("mine")
        text = lab(capsys, "record", TASK, "--output", "file", code=1)
        assert "cannot record into file: it is a file, not a folder" in text

    def test_what_cannot_start_overwrites_nothing(self, capsys):
        lab(capsys, "record", TASK, "--episodes", "2", "--output", "out")
        for argv in (["--memory-limit", "1e-7"], ["--policy", "rnd"], ["--compression", "10"]):
            lab(capsys, "record", TASK, "--output", "out", "--existing", "overwrite", *argv, code=1)
        assert len(RecordedDataset("out")) == 2 and not RecordedDataset("out").notices

    def test_resuming_with_the_same_command_repeats_no_episode(self, capsys):
        for episodes in ("2", "4", "6"):
            options = ("--episodes", episodes, "--seed", "5", "--existing", "resume")
            lab(capsys, "record", TASK, "--output", "out", *options)
        assert [info.seed for info in RecordedDataset("out").infos] == [5, 5, 6, 6, 7, 7]
        assert "6 episodes, no problem found" in lab(capsys, "data", "check", "out")

    def test_ctrl_c_at_the_end_loses_nothing(self, capsys, monkeypatch):
        interrupted = []
        original = threading.Thread.join

        def join(self, timeout=None):
            if self.name.startswith("recorder") and not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt
            original(self, timeout)

        monkeypatch.setattr(threading.Thread, "join", join)
        text = lab(capsys, "record", TASK, "--episodes", "3", "--output", "out", code=130)
        assert "Recorded 3 episodes in out" in text and not RecordedDataset("out").notices

    def test_ctrl_c_keeps_what_is_complete(self, capsys, monkeypatch):
        steps = []
        original = AnalyticCartpoleBackend.step

        def step(self, substeps):
            steps.append(0)
            if len(steps) == 16:
                raise KeyboardInterrupt
            original(self, substeps)

        monkeypatch.setattr(AnalyticCartpoleBackend, "step", step)
        text = lab(capsys, "record", TASK, "--episodes", "100", "--output", "out", code=130)
        assert "Recorded 8 episodes in out" in text and "interrupted" in text
        dataset = RecordedDataset("out")
        assert len(dataset) == 8 and not dataset.notices

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            ([], "Which task? Give its id, as in `lab record Lab-Cartpole`"),
            (["Stub-Recrod"], "unknown task 'Stub-Recrod'. Did you mean 'Stub-Record'"),
            ([TASK, "--episodes", "0"], "--episodes must be at least 1, got 0"),
            ([TASK, "--policy", "rnd"], "There is no policy 'rnd'"),
            ([TASK, "--frontend", "troch"], "unknown front end 'troch'. Did you mean 'torch'"),
            ([TASK, "--device", "tpu"], "Unknown device 'tpu'"),
            ([TASK, "--memory-limit", "1e-7"], "the recorder would keep"),
            ([TASK, "--num-envs", "0"], "--num-envs must be at least 1, got 0"),
            ([TASK, "--action-noise", "-1"], "--action-noise must be at least 0, got -1"),
            ([TASK, "--action-noise", "nan"], "--action-noise must be at least 0, got nan"),
            ([TASK, "--shard-seconds", "-1"], "shard_seconds: got -1.0, expected finite float at least 0"),
            ([TASK, "--mode", "successful"], "no episode of Stub-Record succeeds"),
        ],
    )
    def test_wrong_arguments(self, capsys, argv, message):
        assert message in lab(capsys, "record", *argv, code=1)
        assert not [path for path in Path().rglob("*") if path.is_file()]

    def test_help_names_every_option_and_an_example(self, capsys):
        text = lab(capsys, "record", TASK, "--help")
        for option in ("--policy", "--episodes", "--output", "--label", "--existing", "--env.decimation"):
            assert option in text
        assert f"Example: lab record {TASK} --policy policy.onnx" in text

    def test_the_recorder_of_the_task_says_what_and_how_much_is_kept(self, capsys):
        text = lab(capsys, "record", "Stub-Recorder", "--output", "out", "--episodes", "4", "--mode", "successful")
        assert "Recorder: 9 keys, up to 4 steps of 4 " in text
        assert "recorder.dataset of the environment is left out" in text and not Path("elsewhere").exists()
        dataset = RecordedDataset("out")
        assert {key.split("/")[0] for key in dataset.step_keys} == {"actions", "states"}
        assert {(info.length, info.dropped_steps, info.success) for info in dataset.infos} == {(4, 2, True)}
        text = lab(capsys, "record", "Stub-Recorder", "--output", "b", "--memory-limit", "1e-9", code=1)
        assert "memory_limit_gib = 1e-09" in text

    def test_without_a_recorder_of_the_task_the_limit_is_8_gib(self, capsys, monkeypatch):
        monkeypatch.setattr("lab_core.recorder.retention.ring_bytes", lambda *_: 9 * 2**30)
        assert "memory_limit_gib = 8;" in lab(capsys, "record", TASK, code=1)

    def test_robomimic_reads_what_it_records(self, capsys):
        """The steps of robomimic's ``SequenceDataset`` and ``get_shape_metadata_from_dataset``, with their options."""
        import h5py

        lab(capsys, "record", TASK)
        path = "recordings/Stub-Record/dataset-00000.hdf5"
        with h5py.File(path, "r", swmr=True, libver="latest") as file:
            demos = list(file["data"].keys())
            numbers = np.argsort([int(name[5:]) for name in demos])
            assert [demos[index] for index in numbers] == [f"demo_{number}" for number in range(10)]
            assert json.loads(file["data"].attrs["env_args"]).keys() >= {"env_name", "type", "env_kwargs"}
            assert [*file["data/demo_0/obs"]] == ["policy"]
            assert file["data/demo_0/obs/policy"].shape[1:] == (4,) and file["data/demo_0/actions"].shape[1:] == (1,)
            for demo in demos:
                length = file[f"data/{demo}"].attrs["num_samples"]
                for key in ("obs/policy", "actions", "rewards", "dones"):
                    values = file[f"data/{demo}/{key}"][()].astype("float32")
                    assert len(values) == length and np.isfinite(values).all()


class TestReplay:
    def test_a_recording_repeats(self, capsys):
        lab(capsys, "record", TASK, "--output", "out")
        text = lab(capsys, "replay", "out", "--tolerance", "0")
        assert "10 episodes (60 steps) repeat within 0." in text
        assert "2 episodes (12 steps) repeat within" in lab(capsys, "replay", "out", "--episodes", "3", "7")
        text = lab(capsys, "replay", "out/dataset-00000.hdf5", "--task", TASK)
        assert "The physics differs" not in text

    def test_a_difference_ends_with_code_1(self, capsys):
        lab(capsys, "record", TASK, "--output", "out", "--env.physics.gravity", "0", "0", "-5")
        text = lab(capsys, "replay", "out", "--task", TASK, code=1)
        assert "The physics differs from that of the recording: forces.gravity: [0.0, 0.0, -9.81], was [0.0, " in text
        assert "10 of 10 episodes do not repeat within 0.0001. First: step 0, states/articulation/robot/joint_" in text

    def test_a_video_shows_every_step_for_as_long_as_it_took(self, capsys, monkeypatch):
        """Steps of the environment, of which each is two of the physics."""
        lab(capsys, "record", TASK, "--output", "out", "--episodes", "2")
        assert RecordedDataset("out").attributes["decimation"] == 2
        monkeypatch.setattr(
            AnalyticCartpoleBackend, "render", lambda self, camera: np.zeros((48, 64 * camera.num_envs, 3), np.uint8)
        )
        lab(capsys, "replay", "out", "--video", "replay.mp4")
        assert len(list(iio.imiter("replay.mp4", plugin="FFMPEG"))) == 6
        assert iio.immeta("replay.mp4", plugin="FFMPEG")["fps"] == 60.0

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            ([], "Which recording? Give a file or folder"),
            (["nowhere"], "There is no file or folder nowhere"),
            (["out", "--name", "other"], "unknown recording 'other'"),
            (["out", "--episodes", "99"], "holds 2 episodes; got index 99"),
            (["out", "--num-envs", "0"], "--num-envs must be at least 1, got 0"),
            (["out", "--tolerance", "nan"], "--tolerance must be at least 0, got nan"),
        ],
    )
    def test_wrong_arguments(self, capsys, argv, message):
        lab(capsys, "record", TASK, "--output", "out", "--episodes", "2")
        assert message in lab(capsys, "replay", *argv, code=1)


class TestData:
    @pytest.fixture(autouse=True)
    def recordings(self, capsys):
        for label in ("standing", "walking"):
            lab(
                capsys,
                "record",
                TASK,
                "--output",
                label,
                "--label",
                label,
                "--episodes",
                "4",
                "--seed",
                str(len(label)),
            )

    def test_info(self, capsys):
        text = lab(capsys, "data", "info", "walking", "--episodes", "--config")
        for part in (
            "episodes 4", "labelled walking 4", "steps 24 (0.4 s)", "length 6 .. 6 steps", "task Stub-Record",
            "joints of robot slider_to_cart, cart_to_pole", "states/articulation/robot/root_pose (steps, 7) float32",
            "initial_state/articulation/robot/joint_position (1, 2) float32", "demo_3 3 0 0 6 time-out no walking",
            "episode_length_s: 0.1",
        ):  # fmt: skip
            assert part in text, part

    def test_check(self, capsys):
        assert "4 episodes, no problem found." in lab(capsys, "data", "check", "walking")
        import h5py

        with h5py.File("walking/dataset-00000.hdf5", "r+") as file:
            file["data/demo_2/obs/policy"][3, 0] = np.nan
        text = lab(capsys, "data", "check", "walking", code=1)
        assert "demo_2: 'obs/policy' is not finite in step 3. 1 problem." in text

    def test_merge_and_split(self, capsys):
        text = lab(capsys, "data", "merge", "standing", "walking", "--output", "all.hdf5")
        assert "Merged 8 episodes into all.hdf5." in text and "different configurations" not in text
        text = lab(capsys, "data", "split", "all.hdf5", "--fractions", "0.5", "0.25", "0.25", "--output", "parts")
        assert "parts/train.hdf5: 4 episodes parts/valid.hdf5: 2 episodes parts/test.hdf5: 2 episodes" in text
        assert {info.label for info in RecordedDataset("parts/valid.hdf5").infos} == {"standing", "walking"}
        assert "2 episodes, no problem found" in lab(capsys, "data", "check", "parts/test.hdf5")
        assert "2 episodes (12 steps) repeat" in lab(capsys, "replay", "parts/test.hdf5", "--task", TASK)

    def test_merging_different_configurations_warns(self, capsys):
        import h5py

        with h5py.File("walking/dataset-00000.hdf5", "r+") as file:
            config = file["lab/config"].asstr()[()]
            del file["lab/config"]
            file["lab/config"] = config.replace("decimation: ", "decimation: 1")
        text = lab(capsys, "data", "merge", "standing", "walking", "--output", "all.hdf5")
        assert "different configurations" in text and "needs --task" in text

    def test_plot(self, capsys):
        pytest.importorskip("matplotlib")
        lab(capsys, "data", "plot", "walking", "--key", "rewards", "--episodes", "0", "2", "--output", "plots/r.png")
        assert iio.imread("plots/r.png").std() > 5

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["show"], "unknown data command 'show'"),
            (["info"], "Give one recording first, as in `lab data info recordings/Lab-Cartpole --episodes`"),
            (["info", "walking", "standing"], "Give one recording first"),
            (["merge", "--output", "x.hdf5"], "Give recordings first"),
            (["merge", "walking"], "Where to? Give the new file with --output"),
            (["split", "walking"], "Where to? Give a folder with --output"),
            (["split", "walking", "--output", "x", "--fractions", "1"], "--fractions must be two or three numbers"),
            (["plot", "walking", "--episodes", "4"], "holds 4 episodes; got index 4"),
            (["plot", "walking", "--key", "reward"], "unknown key 'reward'. Did you mean 'rewards'"),
        ],
    )
    def test_wrong_arguments(self, capsys, argv, message):
        assert message in lab(capsys, "data", *argv, code=1)

    def test_help(self, capsys):
        text = lab(capsys, "data")
        for name in ("info", "plot", "check", "merge", "split"):
            assert name in text
            assert "Example: lab data" in lab(capsys, "data", name, "--help")


class TestProgress:
    def display(self, terminal: bool) -> tuple[ProgressDisplay, io.StringIO, list[float]]:
        text, now = io.StringIO(), [0.0]
        console = Console(file=text, force_terminal=terminal, width=120)
        return ProgressDisplay("episodes", 3, console, clock=lambda: now[0]), text, now

    def test_plain_lines_come_every_ten_seconds_and_at_the_end(self):
        display, text, now = self.display(terminal=False)
        with display:
            display.update(0)
            now[0] = 11.0
            display.update(1, "5 steps/s")
            now[0] = 12.0
            display.update(2)
            display.update(3, "6 steps/s")
            display.update(3)
        assert text.getvalue() == "1/3 episodes  5 steps/s\n3/3 episodes  6 steps/s\n"

    def test_a_terminal_shows_a_bar(self):
        display, text, _ = self.display(terminal=True)
        with display:
            display.update(2, "5 steps/s")
        assert "2/3" in text.getvalue() and "5 steps/s" in text.getvalue()
