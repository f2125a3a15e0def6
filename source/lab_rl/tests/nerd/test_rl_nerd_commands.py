"""``lab nerd record``, ``fit`` and ``eval`` from the command line, on the cart-pole."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path

import pytest
import torch

from lab_core.cli import main
from lab_core.datasets import RecordedDataset
from lab_core.errors import LabError
from lab_core.registry import get_task, task_ids
from lab_newton import NeRDSolverCfg
from lab_newton.nerd import load_mdlus, load_model
from lab_rl.nerd.physics_steps import read_physics_steps
from lab_rl.nerd.returns import compare_returns
from lab_rl.nerd.teacher import find_teacher
from lab_rl.nerd.windows import window_starts
from lab_rl.runs.progress import read_progress
from lab_rl.runs.trained_policy import load_trained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("Lab-Cartpole-Explore" not in task_ids(), reason="lab_tasks is not installed"),
]
JOINTS = ["slider_to_cart", "cart_to_pole"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two recordings, and a model that was fitted to them for a few seconds."""
    folder = tmp_path_factory.mktemp("nerd")
    for label, policy, seed in (("exploring", "random", "1"), ("passive", "zero", "2")):
        record = ["nerd", "record", "Lab-Cartpole-Explore", "--episodes", "96", "--num-envs", "32", "--label", label]
        assert main([*record, "--policy", policy, "--seed", seed, "--output", str(folder / label)]) == 0
    fit = ["nerd", "fit", str(folder / "exploring"), str(folder / "passive"), "--device", "cpu"]
    options = ["--updates", "400", "--fit.options.hidden", "64", "64", "--fit.batch-size", "256"]
    assert main([*fit, *options, "--fit.eval-interval", "100", "--logs", str(folder / "logs")]) == 0
    return folder


def run_of(folder: Path) -> Path:
    (run,) = (path for path in (folder / "logs/nerd/Lab-Cartpole-Explore").iterdir() if not path.is_symlink())
    return run


def test_a_recording_holds_every_physics_step_and_how_they_join(folder):
    with RecordedDataset(folder / "exploring") as source:
        steps = read_physics_steps([source], "robot", JOINTS, floating=False)
        infos = source.infos
    assert len(steps) == 2 * sum(info.length for info in infos)  # two physics steps in each of the environment
    ends = steps.episode[1:] != steps.episode[:-1]
    assert not steps.joins[:-1][ends].any() and steps.joins[:-1][~ends].all()
    assert len(window_starts(steps, 2)) == len(steps) - len(infos)
    torch.testing.assert_close(steps.q_next, steps.q + steps.qd_next / 120, rtol=0.0, atol=2e-6)
    assert not steps.effort[:, 1].any() and steps.effort[:, 0].abs().max() > 100.0


def test_the_effort_is_the_one_that_entered_the_solver(folder):
    """The motor's own damping, 10 N s/m, is in it; nothing else pushes the cart."""
    with RecordedDataset(folder / "passive") as source:
        steps = read_physics_steps([source], "robot", JOINTS, floating=False)
    torch.testing.assert_close(steps.effort[:, 0], -10.0 * steps.qd[:, 0], rtol=1e-6, atol=1e-5)


def test_a_fit_learns_and_writes_what_its_run_was(folder):
    run = run_of(folder)
    model, known = load_model(run / "model.nerd")
    assert model.network_name == "Manipulator" and known.extra["task"] == "Lab-Cartpole-Explore"
    (name, error), (_, velocity), _ = known.extra["held_out"].items()
    assert (
        re.fullmatch(r"nmse\[\w{12}\]", name) and error < 0.01 and velocity < 0.02
    )  # the mean alone has an error of 1
    errors = [row[f"Fit/{name}"] for row in read_progress(run / "progress.jsonl")]
    assert errors == sorted(errors, reverse=True) and errors[-1] == error and len(errors) == 4
    assert {path.name for path in run.iterdir()} >= {"config.yaml", "versions.json", "progress.jsonl", "checkpoints"}
    with RecordedDataset(folder / "exploring") as source:
        assert known.fingerprint == find_teacher([source]).fingerprint


def test_a_report_tells_steps_rollouts_and_returns(folder, capsys):
    run = run_of(folder)
    train = ["train", "Lab-Cartpole", "--num-envs", "16", "--max-iterations", "1", "--no-video", "--device", "cpu"]
    assert main([*train, "--logs", str(folder / "policies")]) == 0
    policy = (folder / "policies/Lab-Cartpole/latest").resolve()
    command = [
        "nerd",
        "eval",
        str(run),
        "--data",
        str(folder / "exploring"),
        str(folder / "passive"),
        "--num-envs",
        "8",
    ]
    assert main([*command, "--seconds", "0.1", "0.5", "--policy", str(policy)]) == 0
    report = (run / "report.md").read_text()
    assert "held out" in report and "| channel | all | exploring | passive |" in report
    assert report.count(" s | ") == 2 and (run / "rollouts.png").stat().st_size > 5_000
    assert "| regime | with everything | without efforts | without velocities |" in report
    assert "None: A fixed robot that touches nothing" in report
    assert (run / "one_step.png").stat().st_size > 5_000
    assert re.search(r"-?[\d.]+ in the model, -?[\d.]+ in its teacher, gap [+-]", report)


def test_a_policy_is_trained_in_the_model_that_comes_along(tmp_path):
    """Eight iterations in 32 worlds; what it then does in the teacher is finite too."""
    train = ["train", "Lab-Cartpole-Learned", "--num-envs", "32", "--max-iterations", "8", "--no-video"]
    assert main([*train, "--device", "cpu", "--logs", str(tmp_path)]) == 0
    run = (tmp_path / "Lab-Cartpole-Learned/latest").resolve()
    rows = read_progress(run / "progress.jsonl")
    assert [row["iteration"] for row in rows][-1] == 8
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    policy = load_trained(run)
    learned = policy.cfg.env.physics.solver
    assert isinstance(learned, NeRDSolverCfg)
    returns = compare_returns(policy, learned, learned.teacher, 16, "cpu")
    assert returns.episodes >= 16 and math.isfinite(returns.gap)


def test_recordings_that_were_partly_trained_on_are_refused(folder, capsys):
    command = ["nerd", "eval", str(run_of(folder)), "--data", str(folder / "exploring"), "--num-envs", "4"]
    assert main(command) == 1
    assert "Some of these recordings were trained on" in capsys.readouterr().err


def test_recordings_of_other_physics_are_refused_by_field(folder, tmp_path, capsys):
    record = ["nerd", "record", "Lab-Cartpole-Explore", "--episodes", "2", "--output", str(tmp_path / "damped")]
    assert main([*record, "--env.scene.entities.robot.actuators.cart.damping", "12"]) == 0
    command = ["nerd", "eval", str(run_of(folder)), "--data", str(tmp_path / "damped"), "--num-envs", "4"]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "learned other physics" in error and "damping: 12" in error


def test_a_model_takes_every_actuator_that_it_was_recorded_with(folder, tmp_path, capsys):
    """Gains and kinds of actuators: the model is told efforts, whoever makes them."""
    damping = "--env.scene.entities.robot.actuators.cart.damping"
    record = ["nerd", "record", "Lab-Cartpole-Explore", "--episodes", "8", "--output", str(tmp_path / "damped")]
    assert main([*record, damping, "12"]) == 0
    fit = ["nerd", "fit", str(folder / "exploring"), str(tmp_path / "damped"), "--device", "cpu", "--updates", "4"]
    assert main([*fit, "--logs", str(tmp_path / "logs")]) == 0
    cfg = get_task("Lab-Cartpole").make_env_cfg()
    cfg.physics.solver = NeRDSolverCfg(model=str(run_of(tmp_path) / "model.nerd"))
    for recorded in (10.0, 12.0):
        cfg.scene.entities["robot"].actuators["cart"].damping = recorded
        cfg.build("cpu").close()
    cfg.scene.entities["robot"].actuators["cart"].damping = 14.0
    with pytest.raises(LabError, match=r"damping: 14.0, was 10.0"):
        cfg.build("cpu")


def test_recordings_that_differ_in_more_than_actuators_are_refused(folder, tmp_path, capsys):
    record = ["nerd", "record", "Lab-Cartpole-Explore", "--episodes", "2", "--output", str(tmp_path / "slow")]
    assert main([*record, "--env.physics.gravity", "0", "0", "-1.6"]) == 0
    assert main(["nerd", "fit", str(folder / "exploring"), str(tmp_path / "slow"), "--updates", "4"]) == 1
    assert "was recorded with other physics" in capsys.readouterr().err


def test_a_model_refuses_another_pole_and_another_time_step(folder):
    learned = NeRDSolverCfg(model=str(run_of(folder) / "model.nerd"))
    cfg = get_task("Lab-Cartpole").make_env_cfg()
    cfg.scene.num_envs = 3  # another number than it was recorded with is no other physics
    cfg.physics.solver = learned
    cfg.build("cpu").close()
    cfg.physics.dt = 1 / 100
    with pytest.raises(LabError, match="dt"):
        cfg.build("cpu")


def test_a_model_becomes_a_file_of_physicsnemo_or_a_message_says_what_to_install(folder, tmp_path, capsys):
    run, output = run_of(folder), tmp_path / "cart_pole.mdlus"
    installed = importlib.util.find_spec("physicsnemo") is not None
    assert main(["nerd", "export", str(run), "--output", str(output)]) == (0 if installed else 1)
    if not installed:
        assert "pip install 'lab_newton[nerd]'" in capsys.readouterr().err and not output.exists()
        return
    model, known = load_mdlus(output)
    assert model.network_name == "Manipulator" and known.extra["task"] == "Lab-Cartpole-Explore"
