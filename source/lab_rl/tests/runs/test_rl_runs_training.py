from __future__ import annotations

import io
import json
import os
import signal
import time

import numpy as np
import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lab_core.agents import PPOCfg
from lab_core.errors import ConfigError, LabError
from lab_core.physics import HealthReport
from lab_core.testing import AnalyticCartpoleBackend, analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.algorithms.ppo.finite import NonFiniteError
from lab_rl.runs import RunCfg, RunFolder, load_checkpoint
from lab_rl.runs.config import load_run_cfg
from lab_rl.runs.progress import read_progress
from lab_rl.runs.training import train

AGENT = {"num_steps_per_env": 4, "save_interval": 100, "actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}


def make_cfg(iterations: int = 3, task: str = "Task", num_envs: int = 4, frontend: str = "torch", **agent) -> RunCfg:
    return RunCfg(
        task=task,
        device="cpu",
        frontend=frontend,
        env=analytic_cartpole_env_cfg(num_envs=num_envs, episode_length_s=0.1),
        agent=PPOCfg(max_iterations=iterations, **AGENT | agent),
    )


def quiet() -> Console:
    return Console(file=io.StringIO())


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_run_folder_holds_what_a_user_looks_for(run):
    console = quiet()
    result = train(make_cfg(iterations=5, save_interval=4), run, console=console)
    assert result.iteration == 5 and not result.interrupted and result.checkpoint == run.checkpoint(5)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["4.pt", "5.pt"]
    assert run.curves.stat().st_size > 1000
    assert load_run_cfg(run.config).task == "Task"
    assert json.loads(run.versions.read_text())[0]["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    rows = read_progress(run.progress)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5] and rows[-1]["env_steps"] == 5 * 4 * 4
    assert all(first["elapsed_s"] <= second["elapsed_s"] for first, second in zip(rows, rows[1:], strict=False))
    assert "iteration 5/5" in text_of(console) and "4 environments on cpu" in text_of(console)
    assert list(run.path.rglob(".*")) == []


def test_equal_runs_give_equal_checkpoints(tmp_path):
    files = []
    for _ in range(2):
        run = RunFolder.create(tmp_path)
        train(make_cfg(), run, console=quiet())
        files.append(run.checkpoint(3).read_bytes())
    assert files[0] == files[1]


def test_seed_decides(tmp_path):
    files = []
    for seed in (1, 2):
        run, cfg = RunFolder.create(tmp_path), make_cfg()
        cfg.env.seed = seed
        train(cfg, run, console=quiet())
        files.append(load_checkpoint(run.checkpoint(3)).runner["algorithm"]["actor_state_dict"]["mlp.0.weight"])
    assert not torch.equal(*files)


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_resumed_run_equals_an_uninterrupted_one(frontend, tmp_path):
    whole, parts = RunFolder.create(tmp_path), RunFolder.create(tmp_path)
    train(make_cfg(iterations=20, frontend=frontend), whole, console=quiet())
    train(make_cfg(iterations=10, frontend=frontend), parts, console=quiet())
    first_part = parts.checkpoint(10).read_bytes()
    torch.manual_seed(99)
    np.random.seed(99)
    train(make_cfg(iterations=20, frontend=frontend), parts, console=quiet(), checkpoint=parts.checkpoint(10))
    assert parts.checkpoint(20).read_bytes() == whole.checkpoint(20).read_bytes()
    assert parts.checkpoint(10).read_bytes() == first_part
    assert [row["iteration"] for row in read_progress(parts.progress)] == list(range(1, 21))
    assert [entry["from_iteration"] for entry in json.loads(parts.versions.read_text())] == [0, 10]


def test_resuming_from_an_earlier_checkpoint_replaces_what_came_after(run):
    train(make_cfg(iterations=8, save_interval=4), run, console=quiet())
    before, console = run.checkpoint(8).read_bytes(), quiet()
    time.sleep(1.1)  # TensorBoard reads files by name, and the name begins with the second in which a run began
    train(make_cfg(iterations=6), run, console=console, checkpoint=run.checkpoint(4))
    assert run.latest_checkpoint() == run.checkpoint(6)
    superseded = run.checkpoints / "8.pt.superseded"
    assert superseded.read_bytes() == before and str(superseded) in text_of(console)
    assert [row["iteration"] for row in read_progress(run.progress)] == list(range(1, 7))
    time.sleep(1.1)
    train(make_cfg(iterations=9), run, console=quiet(), checkpoint=run.checkpoint(4))
    assert [row["iteration"] for row in read_progress(run.progress)] == list(range(1, 10))
    events = EventAccumulator(str(run.path)).Reload()
    assert [event.step for event in events.Scalars("Loss/value")] == list(range(1, 10))


def test_ages_are_random_in_new_runs_only(run, monkeypatch):
    calls = []
    monkeypatch.setattr(PPORunner, "randomize_episode_ages", lambda self: calls.append(1))
    train(make_cfg(iterations=4), run, console=quiet())
    train(make_cfg(iterations=5), run, console=quiet(), checkpoint=run.checkpoint(4))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: make_cfg(iterations=9, task="Other"), "is a checkpoint of Task, not of Other"),
        (lambda: make_cfg(iterations=9, num_envs=5), "was trained with 4 environments .* got 5"),
        (lambda: make_cfg(iterations=4), "has finished 4 of 4 iterations; give a larger total with --max-iterations"),
    ],
)
def test_checkpoint_that_does_not_fit_is_refused_and_the_run_stays(run, change, message):
    train(make_cfg(iterations=4), run, console=quiet())
    with pytest.raises(LabError, match=message):
        train(change(), run, console=quiet(), checkpoint=run.checkpoint(4))
    assert run.checkpoint(4).is_file() and len(read_progress(run.progress)) == 4


def test_environment_that_cannot_be_built_leaves_no_folder(run):
    cfg = make_cfg()
    cfg.env.decimation = 0
    with pytest.raises(ConfigError, match="decimation must be at least 1"):
        train(cfg, run, console=quiet())
    assert not run.path.exists()


def test_wrong_settings_of_the_agent_are_refused_before_the_environment_is_built(run, monkeypatch):
    """Building may take minutes, where kernels have to be compiled."""
    monkeypatch.setattr("lab_rl.runs.training.make_env", lambda *given: pytest.fail("the environment was built"))
    with pytest.raises(ConfigError, match=r"agent.schedule: got 'adaptiv' \(str\), expected Literal"):
        train(make_cfg(schedule="adaptiv"), run, console=quiet())
    monkeypatch.setattr("lab_rl.algorithms.ppo.settings.version", lambda name: "4.0.0")
    with pytest.raises(LabError, match="needs rsl-rl-lib 5.5.1, found 4.0.0"):
        train(make_cfg(), RunFolder.create(run.path.parent), console=quiet())
    assert list(run.path.parent.iterdir()) == []


def test_start_that_fails_late_leaves_nothing(run, monkeypatch):
    closed = []
    monkeypatch.setattr(AnalyticCartpoleBackend, "close", lambda self: closed.append(self))
    (run.config / "in the way").mkdir(parents=True)
    with pytest.raises(LabError, match="config.yaml"):
        train(make_cfg(), run, console=quiet())
    assert list(run.path.parent.iterdir()) == [] and len(closed) == 1


def interrupt_in_iteration(monkeypatch, number: int, times: int = 1) -> None:
    """Presses Ctrl-C ``times`` times in the given iteration."""
    iterate = PPORunner.iterate

    def interrupted(self):
        if self.iteration + 1 == number:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return iterate(self)

    monkeypatch.setattr(PPORunner, "iterate", interrupted)


def test_interrupt_saves_a_checkpoint_that_can_be_resumed(tmp_path, monkeypatch):
    whole, parts = RunFolder.create(tmp_path), RunFolder.create(tmp_path)
    handler = signal.getsignal(signal.SIGINT)  # ignored, in a shell's background
    train(make_cfg(iterations=6), whole, console=quiet())
    with monkeypatch.context() as patch:
        interrupt_in_iteration(patch, 3)
        console = quiet()
        result = train(make_cfg(iterations=6), parts, console=console)
    assert result.interrupted and result.checkpoint == parts.checkpoint(3) and result.checkpoint.is_file()
    assert "Stopping after this iteration" in text_of(console)
    assert signal.getsignal(signal.SIGINT) is handler
    train(make_cfg(iterations=6), parts, console=quiet(), checkpoint=parts.checkpoint(3))
    assert parts.checkpoint(6).read_bytes() == whole.checkpoint(6).read_bytes()


def test_second_interrupt_stops_at_once(run, monkeypatch):
    handler = signal.getsignal(signal.SIGINT)
    interrupt_in_iteration(monkeypatch, 3, times=2)
    with pytest.raises(KeyboardInterrupt):
        train(make_cfg(iterations=6), run, console=quiet())
    assert not run.checkpoint(3).exists()
    assert signal.getsignal(signal.SIGINT) is handler


def test_bad_value_stops_the_run_and_keeps_the_last_checkpoint(run, monkeypatch):
    iterate = PPORunner.iterate

    def poisoned(self):
        if self.iteration == 5:
            with torch.no_grad():
                self.alg.critic.mlp[0].weight.fill_(float("nan"))
        return iterate(self)

    monkeypatch.setattr(PPORunner, "iterate", poisoned)
    with pytest.raises(NonFiniteError, match=r"Iteration 6: the critic's value is not finite.*checkpoint is .*4\.pt"):
        train(make_cfg(iterations=9, save_interval=4), run, console=quiet())
    assert [path.name for path in run.checkpoints.iterdir()] == ["4.pt"]


def test_trouble_in_the_physics_is_shown_once(run, monkeypatch):
    report = HealthReport(non_finite_envs=2, overflows={"contacts": "raise physics.solver.nconmax to 40"})
    monkeypatch.setattr(AnalyticCartpoleBackend, "health", lambda self: report)
    monkeypatch.setattr("lab_core.envs.first_steps.LOOKS", ())  # what it reads early would count twice here
    console = quiet()
    train(make_cfg(iterations=3), run, console=console)
    assert text_of(console).count("raise physics.solver.nconmax to 40") == 1
    assert text_of(console).count("2 environments became non-finite or too fast in iteration 1") == 1
    assert [row["Physics/non_finite_envs"] for row in read_progress(run.progress)] == [2.0, 2.0, 2.0]


def paint(self, camera) -> np.ndarray:
    """A picture whose brightness follows the cart."""
    position = float(self.entities["robot"].joint_pos[0, 0])
    return np.full((camera.height, camera.width, 3), int(128 + 30 * np.clip(position, -4, 4)), np.uint8)


def test_clip_of_the_trained_policy_is_recorded(run, monkeypatch):
    import imageio.v3 as iio

    monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
    result = train(make_cfg(), run, console=quiet(), video=run.videos / "final.mp4", video_steps=20)
    assert result.video == run.videos / "final.mp4"
    assert iio.immeta(result.video, plugin="FFMPEG")["fps"] == 30.0
    assert len(list(iio.imiter(result.video, plugin="FFMPEG"))) == 10


def test_clip_changes_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
    files = []
    for video in (None, tmp_path / "clip.mp4"):
        run = RunFolder.create(tmp_path)
        train(make_cfg(), run, console=quiet(), video=video, video_steps=4)
        files.append(run.checkpoint(3).read_bytes())
    assert files[0] == files[1]


def test_physics_that_cannot_draw_does_not_fail_the_run(run):
    console = quiet()
    result = train(make_cfg(), run, console=console, video=run.videos / "final.mp4")
    assert result.video is None and result.iteration == 3
    assert "No video: The 'analytic' physics backend cannot render" in text_of(console)
    assert list(run.videos.iterdir()) == []
