from __future__ import annotations

import dataclasses
import json
import os
import re
import signal

import imageio.v3 as iio
import numpy as np
import pytest

from lab_core import mdp
from lab_core.agents import PPOCfg
from lab_core.cli import main, resolve_device
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import ObservationTermCfg
from lab_core.registry import TaskSpec, get_task, register_task
from lab_core.testing import AnalyticCartpoleBackend, analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.cli import options
from lab_rl.runs import RunFolder, latest_run
from lab_rl.runs.config import RunCfg, load_run_cfg

TASK = "Stub-Commands"


def env_cfg(play: bool = False):
    cfg = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=1.0 if play else 0.1)
    if play:
        cfg.scene.num_envs = 5
        cfg.rewards["cart_vel"] = None
    return cfg


def ppo_cfg() -> PPOCfg:
    return PPOCfg(num_steps_per_env=4, max_iterations=2, actor_hidden_dims=(8,), critic_hidden_dims=(8,))


register_task(TaskSpec(id=TASK, env_cfg=env_cfg, agents={"ppo": ppo_cfg}))


def velocity_env_cfg(play: bool = False):
    """The cart-pole, told a velocity that it observes and ignores."""
    cfg = env_cfg(play)
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0))
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(0.03, 0.03), ranges=ranges)
    cfg.observations["policy"].terms["command"] = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}
    )
    return cfg


register_task(TaskSpec(id="Stub-Velocity", env_cfg=velocity_env_cfg, agents={"ppo": ppo_cfg}))
register_task(TaskSpec(id="Stub-Other", env_cfg=env_cfg, agents={"ppo": ppo_cfg}))


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> RunFolder:
    """A short run, shared by tests that only read it."""
    logs = tmp_path_factory.mktemp("trained")
    assert main(["train", TASK, "--no-video", "--logs", str(logs), "--env.rewards.alive.weight", "2.5"]) == 0
    run = latest_run(logs / TASK)
    assert run is not None
    return run


def run_of(logs) -> RunFolder:
    run = latest_run(logs / TASK)
    assert run is not None
    return run


class StubViewer:
    """Keeps what it is told."""

    url = "http://127.0.0.1:8099"
    updates = 0
    closed = False

    def open(self, camera, host="127.0.0.1", port=8080, commands=None, on_reset=None) -> StubViewer:
        self.port, self.commands, self.on_reset = port, commands, on_reset
        return self

    def env(self) -> ManagerBasedRLEnv:
        return self.commands["velocity"]._env

    def should_step(self) -> bool:
        return True

    def update(self, status: str = "") -> None:
        self.updates += 1

    def close(self) -> None:
        self.closed = True


def paint(self, camera) -> np.ndarray:
    position = float(self.entities["robot"].joint_pos[0, 0])
    return np.full((camera.height, camera.width, 3), int(128 + 30 * np.clip(position, -4, 4)), np.uint8)


def shown(capsys) -> list[str]:
    """What the first lines of a training say of its front end."""
    lines = capsys.readouterr().out.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("iteration 1/"))
    return [line for line in lines[:first] if line.startswith(("Front end", "A step is", "Nothing of a step"))]


def fails(capsys, *argv: str) -> str:
    """Runs a command that must fail, and returns its message in one line."""
    try:
        code = main(list(argv))
    except SystemExit as stop:
        code = stop.code
    assert code not in (0, None)
    captured = capsys.readouterr()
    return " ".join((captured.err + captured.out).split())


class TestBench:
    def test_learning_is_timed_with_its_parts(self, tmp_path, capsys):
        path = tmp_path / "learning.json"
        argv = ["bench", TASK, "--train", "--iterations", "2", "--device", "cpu", "--json", str(path)]
        assert main([*argv, "--num-envs", "6", "--agent.num-steps-per-env", "8"]) == 0
        lines = capsys.readouterr().out.splitlines()
        for start in (
            "collection ",
            "learning ",
            "waiting ",
            "whole iteration ",
            "environment steps per second, with l",
        ):
            assert any(line.startswith(start) for line in lines), start
        result = json.loads(path.read_text())
        assert result["recorded"] in lines
        assert "Acts and learns" in result["recorded"]
        assert (result["task"], result["algorithm"], result["num_envs"], result["iterations"]) == (TASK, "ppo", 6, 2)
        parts = result["parts_ms"]
        assert parts["collection"] + parts["learning"] == pytest.approx(result["iteration_ms"], rel=0.2)
        assert result["env_steps_per_s_with_learning"] == pytest.approx(48 / result["iteration_ms"] * 1e3, rel=0.01)


class TestTrain:
    def test_short_options_reach_the_configuration(self, logs):
        argv = ["train", TASK, "--num-envs", "3", "--seed", "7", "--max-iterations", "1", "--name", "mine"]
        assert main([*argv, "--no-video", "--env.rewards.alive.weight", "2.5", "--agent.gamma", "0.9"]) == 0
        run = run_of(logs)
        cfg = load_run_cfg(run.config)
        assert run.path.name.endswith("_mine") and run.latest_checkpoint() == run.checkpoint(1)
        assert (cfg.task, cfg.device, cfg.env.scene.num_envs) == (TASK, str(resolve_device("auto")), 3)
        assert cfg.env.seed == 7
        assert cfg.env.rewards["alive"].weight == 2.5 and cfg.agent.gamma == 0.9

    def test_deterministic_asks_torch_and_physics(self, logs, monkeypatch):
        trained = []
        monkeypatch.setattr("lab_rl.cli.train._train", lambda cfg, *given: trained.append(cfg.env) or 0)
        assert main(["train", TASK]) == main(["train", TASK, "--deterministic"]) == 0
        assert [env.deterministic for env in trained] == [False, True]

    def test_seed_minus_one_draws_one_and_writes_it_down(self, logs, capsys):
        assert main(["train", TASK, "--seed", "-1", "--no-video"]) == 0
        first = run_of(logs)
        seed = load_run_cfg(first.config).env.seed
        assert seed >= 0 and f"seed {seed}" in capsys.readouterr().out
        assert main(["train", TASK, "--seed", str(seed), "--no-video"]) == 0
        assert run_of(logs).checkpoint(2).read_bytes() == first.checkpoint(2).read_bytes()

    def test_first_line_says_what_runs_where(self, logs, capsys):
        assert main(["train", TASK, "--max-iterations", "1", "--no-video", "--device", "cpu"]) == 0
        line = f"{TASK}: 4 environments on cpu, 60 Hz control, seed 42, physics: analytic"
        assert line in capsys.readouterr().out.splitlines()

    def test_first_lines_say_which_front_end_runs_and_what_is_not_recorded(self, logs, capsys):
        argv = ["train", TASK, "--max-iterations", "1", "--no-video", "--device", "cpu"]
        assert main(argv) == 0
        front_end, step = shown(capsys)
        assert front_end == "Front end warp (the default where it is installed; --frontend torch asks for the other)"
        assert re.fullmatch(r"A step is \d+ graphs\. Not recorded: physics analytic: its steps are no kernels.*", step)
        assert load_run_cfg(run_of(logs).config).frontend == "warp"
        assert main([*argv, "--frontend", "torch", "--agent.no-captured"]) == 0
        learning = "Acts and learns in rsl-rl's own code, without graphs: agent.captured is off."
        assert shown(capsys) == ["Front end torch (as configured)", f"Nothing of a step is recorded. {learning}"]
        assert load_run_cfg(run_of(logs).config).frontend == "torch"

    def test_a_run_goes_on_with_its_front_end(self, logs, capsys):
        assert main(["train", TASK, "--max-iterations", "1", "--no-video", "--frontend", "torch"]) == 0
        run = run_of(logs)
        assert main(["train", "--resume", str(run.path), "--max-iterations", "2", "--no-video"]) == 0
        assert load_run_cfg(run.config).frontend == "torch"

    @pytest.mark.parametrize("source", ["path", "config"])
    def test_a_run_or_its_config_file_alone_repeats_it(self, logs, trained, source):
        assert main(["train", "--config", str(getattr(trained, source)), "--no-video"]) == 0
        assert run_of(logs).checkpoint(2).read_bytes() == trained.checkpoint(2).read_bytes()

    def test_resume_continues_in_the_same_folder(self, logs):
        assert main(["train", TASK, "--no-video"]) == 0
        run = run_of(logs)
        assert main(["train", "--resume", str(run.path), "--max-iterations", "3", "--no-video"]) == 0
        assert run.latest_checkpoint() == run.checkpoint(3)
        assert len(list((logs / TASK).iterdir())) == 2  # the run, and `latest`

    def test_play_config_trains_in_the_environment_for_watching(self, logs):
        assert main(["train", TASK, "--play-config", "--no-video", "--max-iterations", "1"]) == 0
        assert load_run_cfg(run_of(logs).config).env.episode_length_s == 1.0

    def test_experiment_name_is_the_folder(self, logs):
        argv = ["train", TASK, "--no-video", "--max-iterations", "1", "--agent.experiment-name", "poles"]
        assert main(argv) == 0
        assert latest_run(logs / "poles") is not None

    def test_summary_names_files_and_next_commands(self, logs, capsys):
        assert main(["train", TASK, "--no-video"]) == 0
        text = capsys.readouterr().out
        assert "Finished after 2 iterations" in text and "checkpoints/2.pt" in text and "curves.png" in text
        assert f"lab play {TASK} --checkpoint" in text and "lab export" in text

    def test_interrupt_exits_with_130_and_says_how_to_go_on(self, logs, monkeypatch, capsys):
        iterate = PPORunner.iterate

        def interrupted(self):
            os.kill(os.getpid(), signal.SIGINT)
            return iterate(self)

        monkeypatch.setattr(PPORunner, "iterate", interrupted)
        assert main(["train", TASK]) == 130
        text = capsys.readouterr().out
        assert (
            "Interrupted after 1 iterations" in text
            and f"lab train --resume {run_of(logs).path.relative_to(logs.parent)}" in text
        )
        assert run_of(logs).latest_checkpoint() == run_of(logs).checkpoint(1)

    def test_video_goes_where_it_is_wanted(self, logs, monkeypatch):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        argv = ["train", TASK, "--max-iterations", "1", "--video-length", "4"]
        assert main([*argv, "--video", "mine.mp4"]) == 0
        assert main([*argv, "--video"]) == 0
        assert (logs.parent / "mine.mp4").is_file() and (run_of(logs).videos / "final.mp4").is_file()

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["Stub-Comands"], "unknown task 'Stub-Comands'. Did you mean 'Stub-Commands'"),
            ([TASK, "--frontend", "numba"], "unknown front end 'numba'. Available: auto, torch"),
            ([TASK, "--device", "cuda:99"], "Device 'cuda:99' does not exist"),
            ([TASK, "--device", "gpu"], "Unknown device 'gpu'"),
            ([TASK, "--seed", "-5"], "seed must be in 0"),
            ([TASK, "--num-envs", "0"], "num_envs must be at least 1, got 0"),
            ([TASK, "--env.rewards.pole_pos.params.target", "up"], "--env.rewards.pole-pos.params.target"),
            ([TASK, "--agent.learning-rate", "fast"], "--agent.learning-rate"),
            ([TASK, "--max-iterations", "0"], "agent.max_iterations must be at least 1, got 0"),
            ([TASK, "--agent.obs-groups.critic", "polcy"], "unknown observation group 'polcy'. Did you mean 'policy'"),
            ([TASK, "--video", "clip.avi"], "must end in .mp4, got 'clip.avi'"),
            ([TASK, "--name", "a/b"], "run's name may have letters"),
            ([TASK, "--num-env", "3"], "--num-envs"),
            ([TASK, "--env.rewards.alife.weight", "1"], "--env.rewards.alive.weight"),
            (["--resume", "nowhere"], "There is no run or checkpoint nowhere"),
            (["--config", "nowhere.yaml"], "nowhere.yaml"),
            ([], "Which task?"),
        ],
    )
    def test_bad_input_is_named_and_leaves_no_folder(self, logs, capsys, argv, message):
        assert message in fails(capsys, "train", *argv)
        assert not logs.exists() or latest_run(logs / TASK) is None
        assert not (logs / TASK / "latest").is_symlink()
        assert not logs.exists() or [path for path in logs.rglob("*") if path.is_file()] == []

    def test_log_directory_without_permission_is_named(self, logs, capsys):
        logs.write_text("not a folder")
        assert "Cannot write the run folder" in fails(capsys, "train", TASK)

    def test_resume_refuses_another_task(self, trained, capsys):
        message = fails(capsys, "train", "Stub-Other", "--resume", str(trained.path))
        assert f"is a run of {TASK}, not of Stub-Other" in message

    def test_resume_on_another_kind_of_device_is_refused(self, logs, capsys):
        assert main(["train", TASK, "--no-video", "--device", "cpu"]) == 0
        run = run_of(logs)
        run.config.write_text(run.config.read_text().replace("device: cpu", "device: cuda:0"))
        message = fails(capsys, "train", "--resume", str(run.path), "--max-iterations", "3", "--device", "cpu")
        assert "was trained on cuda:0 and cannot go on on cpu" in message

    @pytest.mark.parametrize(
        ("first", "second", "reason"),
        [
            ("--resume=R", "--seed=3", "goes on with the random state"),
            ("--resume=R", "--env.seed=3", "goes on with the random state"),
            ("--resume=R", "--logs=elsewhere", "in its own folder"),
            ("--resume=R", "--name=mine", "in its own folder"),
            ("--resume=R", "--config=config.yaml", "with its own config.yaml"),
            ("--resume=R", "--play-config", "in the environment that it had"),
            ("--config=config.yaml", "--play-config", "the file says which environment"),
        ],
    )
    def test_options_that_would_be_ignored_are_refused(self, capsys, first, second, reason):
        name, other = first.partition("=")[0], second.partition("=")[0]
        message = fails(capsys, "train", *first.split("="), *second.split("="))
        assert f"{other} cannot be given together with {name}" in message and reason in message

    @pytest.mark.parametrize("argv", [["train", TASK, "--help"], ["train", "--help"], ["play", TASK, "--help"],
                                      ["play", "--help"], ["export", "--help"]])  # fmt: skip
    def test_help_has_defaults_and_an_example(self, logs, capsys, argv):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        assert f"Example: lab {argv[0]}" in text and "--logs" in text and "(default: logs)" in text
        assert not logs.exists()


class TestPlay:
    def test_video_of_the_latest_run(self, logs, monkeypatch, capsys):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        assert main(["train", TASK, "--no-video"]) == 0
        assert main(["play", TASK, "--video", "--video-length", "6"]) == 0
        assert len(list(iio.imiter(run_of(logs).videos / "play.mp4", plugin="FFMPEG"))) == 3
        printed = capsys.readouterr()
        assert "checkpoints/2.pt" in printed.out.replace("\n", "") and "6/6 steps" in printed.err

    def test_video_says_how_many_episodes_ended_early(self, trained, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        argv = ["play", TASK, "--checkpoint", str(trained.path), "--num-envs", "3"]
        argv += ["--video", str(tmp_path / "clip.mp4")]
        cut = ["--env.terminations.cart-out-of-bounds.params.bounds", "-0.0", "0.0", "--video-length", "4"]
        assert main([*argv, *cut]) == 0
        assert "(2 pictures; 12 episodes of 3 environments ended early)" in " ".join(capsys.readouterr().out.split())

    @pytest.mark.parametrize("policy", ["zero", "random"])
    def test_untrained_policies_need_no_run(self, logs, monkeypatch, policy):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        assert main(["play", TASK, "--policy", policy, "--video", "clip.mp4", "--video-length", "4"]) == 0
        assert (logs.parent / "clip.mp4").is_file()

    def test_without_a_run_the_one_that_comes_with_the_task_plays(self, trained, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        demo = tmp_path / "demo.onnx"
        assert main(["export", str(trained.path), "--output", str(demo)]) == 0
        monkeypatch.setattr(TaskSpec, "demo_path", lambda self: demo)
        spec = dataclasses.replace(get_task(TASK), demo="somewhere:demo.onnx")
        monkeypatch.setattr("lab_rl.cli.play.get_task", lambda task: spec)
        video = ["--video", str(tmp_path / "clip.mp4"), "--video-length", "4"]
        assert main(["play", TASK, "--logs", str(tmp_path / "none"), *video]) == 0
        assert "with the demo policy" in capsys.readouterr().out
        assert main(["play", TASK, "--logs", str(trained.path.parents[1]), *video]) == 0
        assert "with the demo policy" not in capsys.readouterr().out

    def test_an_exported_policy_plays(self, trained, tmp_path, monkeypatch):
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        policy = str(tmp_path / "policy.onnx")
        assert main(["export", str(trained.path), "--output", policy]) == 0
        argv = ["--policy", policy, "--video", str(tmp_path / "clip.mp4"), "--video-length", "4"]
        assert main(["play", TASK, *argv]) == 0
        assert (tmp_path / "clip.mp4").is_file()

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ("rnadom", "There is no policy 'rnadom'; use demo, random, zero"),
            ("nowhere.onnx", "There is no file nowhere.onnx"),
            ("demo", f"No policy comes with {TASK}; train one with `lab train {TASK}`"),
        ],
    )
    def test_an_unknown_policy_is_refused_before_anything_is_built(self, monkeypatch, capsys, policy, message):
        monkeypatch.setattr("lab_core.envs.make_env", lambda *_: pytest.fail("it was built"))
        assert main(["play", TASK, "--policy", policy]) == 1
        assert message in " ".join(capsys.readouterr().err.split())

    @pytest.mark.parametrize("count", [["--steps", "0"], ["--video-length", "0"], ["--video-length", "-3"]])
    def test_impossible_counts_are_refused_before_anything_is_built(self, logs, monkeypatch, capsys, count):
        monkeypatch.setattr("lab_core.envs.make_env", lambda *_: pytest.fail("it was built"))
        assert main(["play", TASK, "--policy", "zero", "--video", "clip.mp4", *count]) == 1
        assert f"{count[0]} must be at least 1, got {count[1]}." in capsys.readouterr().err
        if count[0] == "--video-length":
            assert main(["train", TASK, *count]) == 1
            assert f"{count[0]} must be at least 1, got {count[1]}." in capsys.readouterr().err
        assert not logs.exists()

    def test_two_policies_are_refused(self, trained, capsys):
        assert main(["play", TASK, "--policy", "zero", "--checkpoint", str(trained.path)]) == 1
        assert "Play which? --policy zero and --checkpoint" in capsys.readouterr().err

    def test_viewer_is_opened_with_the_controls_of_the_task_and_closed(self, trained, monkeypatch, capsys):
        viewer = StubViewer()
        monkeypatch.setattr(AnalyticCartpoleBackend, "open_viewer", viewer.open)
        argv = ["--steps", "5", "--port", "8099"]
        assert main(["play", TASK, "--checkpoint", str(trained.path), *argv]) == 0
        assert viewer.updates == 2 and viewer.closed  # at most 30 pictures per second of 60 steps
        assert viewer.port == 8099 and viewer.commands == {}
        assert viewer.url in capsys.readouterr().out
        assert main(["play", "Stub-Velocity", "--policy", "zero", *argv]) == 0
        assert list(viewer.commands) == ["velocity"]

    def test_reset_button_resets_all_environments(self, monkeypatch):
        viewer = StubViewer()
        lengths = []

        def reset_after_two_steps() -> bool:
            env = viewer.env()
            if env.step_count == 2:
                viewer.on_reset()
            lengths.append(env.episode_length_buf.tolist())
            return True

        viewer.should_step = reset_after_two_steps
        monkeypatch.setattr(AnalyticCartpoleBackend, "open_viewer", viewer.open)
        assert main(["play", "Stub-Velocity", "--policy", "zero", "--steps", "4"]) == 0
        assert lengths == [[0] * 5, [1] * 5, [0] * 5, [1] * 5]

    @pytest.mark.parametrize("output", [["--steps", "4"], ["--video", "clip.mp4", "--video-length", "4"]])
    def test_fixed_command_holds_in_viewer_and_video(self, logs, monkeypatch, capsys, output):
        commands = []
        step = ManagerBasedRLEnv.step

        def observe(env, actions):
            commands.append(env.get_observations()["policy"][:, 4:].tolist())
            return step(env, actions)

        monkeypatch.setattr(ManagerBasedRLEnv, "step", observe)
        monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
        monkeypatch.setattr(AnalyticCartpoleBackend, "open_viewer", StubViewer().open)
        argv = ["play", "Stub-Velocity", "--policy", "zero", "--frontend", "torch", "--command", "0.5", "-0.25", "3"]
        assert main([*argv, *output]) == 0
        assert commands == [[[0.5, -0.25, 3.0]] * 5] * 4
        assert "ang_vel_z 3 is beyond what the task draws, -1 .. 1" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("task", "values", "message"),
        [
            ("Stub-Velocity", ["0.5", "0"], "--command: Stub-Velocity takes 3 numbers (lin_vel_x [m/s], "
             "lin_vel_y [m/s], ang_vel_z [rad/s]), got 2."),
            ("Stub-Velocity", [], "takes 3 numbers"),
            ("Stub-Velocity", ["nan", "0", "0"], "takes finite numbers, got [nan, 0.0, 0.0]"),
            ("Stub-Velocity", ["fast"], "--command"),
            (TASK, ["0.5"], f"--command: {TASK} has no command that can be set."),
        ],
    )  # fmt: skip
    def test_impossible_command_is_refused(self, capsys, task, values, message):
        assert message in fails(capsys, "play", task, "--policy", "zero", "--command", *values)

    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            ([], (5, 5, 42)),  # as the task says for watching
            (["--no-play-config"], (4, 4, 42)),
            (["--num-envs", "3", "--seed", "8"], (3, 3, 8)),
            (["--env.scene.num-envs", "3", "--env.seed", "8"], (3, 3, 8)),
            (["--env.scene.camera.num-envs", "2"], (5, 2, 42)),
        ],
    )
    def test_environments_and_seed_have_one_meaning(self, monkeypatch, argv, expected):
        played = []
        monkeypatch.setattr("lab_rl.cli.play._play", lambda task, args, trained: played.append(args.env) or 0)
        assert main(["play", TASK, "--policy", "zero", *argv]) == 0
        (env,) = played
        assert (env.scene.num_envs, env.scene.camera.num_envs, env.seed) == expected

    def test_a_wrong_file_is_refused_before_the_environment_is_built(self, monkeypatch, capsys):
        monkeypatch.setattr("lab_rl.cli.play._play", lambda *given: pytest.fail("too late"))
        message = fails(capsys, "play", TASK, "--policy", "zero", "--video", "clip.avi")
        assert "must end in .mp4, got 'clip.avi'" in message

    def test_without_a_run_it_says_how_to_train(self, logs, capsys):
        assert f"Train one with `lab train {TASK}`" in fails(capsys, "play", TASK)

    def test_other_task_is_refused(self, trained, capsys):
        message = fails(capsys, "play", "Stub-Other", "--checkpoint", str(trained.path))
        assert f"is a checkpoint of {TASK}, not of Stub-Other" in message

    def test_physics_without_a_viewer_says_so(self, trained, capsys):
        message = fails(capsys, "play", TASK, "--checkpoint", str(trained.path))
        assert "The 'analytic' physics backend has no viewer" in message


class TestOptions:
    def test_changes_of_a_run_carry_over_to_the_environment_for_watching(self, trained):
        from lab_core.registry import get_task

        run = load_run_cfg(trained.config)
        cfg = options.play_env_cfg(get_task(TASK), run)
        assert cfg.rewards["alive"].weight == 2.5  # changed by the run
        assert cfg.episode_length_s == 1.0 and cfg.rewards["cart_vel"] is None  # of the environment for watching
        as_trained = options.play_env_cfg(get_task(TASK), run, ["--no-play-config"])
        assert as_trained == run.env and as_trained is not run.env

    @pytest.mark.parametrize(
        ("given", "completed"),
        [
            (["--video"], ["--video", "auto"]),
            (["--video", "--seed", "1"], ["--video", "auto", "--seed", "1"]),
            (["--video", "a.mp4"], ["--video", "a.mp4"]),
            (["--no-video"], ["--video", "none"]),
            (["--play_config", "--env.a_b=c_d", "e_f"], ["--play-config", "--env.a-b=c_d", "e_f"]),
            ([], []),
        ],
    )
    def test_spellings(self, given, completed):
        assert options.prepare(given) == completed


def test_export_writes_into_the_run_folder(trained, capsys):
    onnx = pytest.importorskip("onnx")
    assert main(["export", str(trained.path)]) == 0
    assert "checked with onnxruntime" in " ".join(capsys.readouterr().out.split())
    model = onnx.load(trained.path / "policy.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["lab"])["task"] == TASK


def test_export_refuses_a_wrong_file_before_the_environment_is_built(trained, monkeypatch, capsys):
    monkeypatch.setattr(ManagerBasedRLEnv, "__init__", lambda *given: pytest.fail("too late"))
    message = fails(capsys, "export", str(trained.path), "--output", "policy.pt")
    assert "must end in .onnx, got 'policy.pt'" in message


def test_export_refuses_what_would_be_ignored(logs, trained, capsys):
    checkpoint = str(trained.path)
    assert f"is a checkpoint of {TASK}, not of Stub-Other" in fails(
        capsys, "export", "Stub-Other", "--checkpoint", checkpoint
    )
    assert "Export which?" in fails(capsys, "export", checkpoint, "--checkpoint", checkpoint)


def test_export_takes_a_task_for_a_task_also_where_a_folder_has_its_name(logs, capsys):
    (logs.parent / TASK).mkdir()
    assert f"Train one with `lab train {TASK}`" in fails(capsys, "export", TASK)


def test_export_without_a_subject_or_with_an_unknown_one(logs, capsys):
    assert "Export what?" in fails(capsys, "export")
    assert "unknown task 'Stub-Comands'" in fails(capsys, "export", "Stub-Comands")
    assert f"Train one with `lab train {TASK}`" in fails(capsys, "export", TASK)


def test_run_cfg_is_importable_by_the_name_in_the_file(trained):
    assert isinstance(load_run_cfg(trained.config), RunCfg)
    assert trained.config.read_text().startswith("!cfg:lab_rl.runs.config:RunCfg")
