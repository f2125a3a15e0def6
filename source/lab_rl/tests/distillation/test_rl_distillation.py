"""A student learns what its teacher does, by the commands that users type."""

from __future__ import annotations

import copy

import onnxruntime
import pytest
import torch

from lab_core.agents import DistillationCfg, PPOCfg, RecurrentCfg
from lab_core.cli import main
from lab_core.errors import ConfigError, LabError
from lab_core.registry import TaskSpec, register_task
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.distillation import DistillationRunner
from lab_rl.distillation.settings import check_distillation_cfg
from lab_rl.runs import latest_run
from lab_rl.runs.progress import read_progress

TASK = "Stub-Distillation"
SMALL = ["--agent.num-steps-per-env", "8", "--no-video", "--device", "cpu", "--frontend", "torch"]


def env_cfg(play: bool = False):
    return analytic_cartpole_env_cfg(num_envs=8, episode_length_s=0.2)


def ppo_cfg() -> PPOCfg:
    return PPOCfg(actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_mini_batches=2)


register_task(TaskSpec(id=TASK, env_cfg=env_cfg, agents={"ppo": ppo_cfg}))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """With a teacher that has a memory, trained from the command line."""
    logs = tmp_path_factory.mktemp("logs")
    options = ["--agent.recurrent.type", "gru", "--agent.recurrent.hidden-dim", "6", "--max-iterations", "2"]
    assert main(["train", TASK, "--logs", str(logs), "--name", "teacher", *options, *SMALL]) == 0
    return logs


@pytest.fixture(scope="module")
def teacher(logs):
    run = latest_run(logs / TASK, "ppo")
    assert run is not None
    return str(run.path)


def make_cfg(teacher: str, **changes) -> DistillationCfg:
    sizes = {"num_steps_per_env": 8, "student_hidden_dims": (8,), "gradient_length": 4}
    return DistillationCfg(teacher=teacher, **{**sizes, **changes})


def test_a_student_comes_near_its_teacher(logs, teacher, capsys):
    command = ["train", TASK, "--algorithm", "distillation", "--agent.teacher", teacher, "--logs", str(logs)]
    options = ["--agent.student-hidden-dims", "16", "--agent.learning-rate", "0.01", "--agent.gradient-length", "4"]
    assert main([*command, *options, "--max-iterations", "25", *SMALL]) == 0
    assert "distillation is not captured" in capsys.readouterr().out
    run = latest_run(logs / TASK, "distillation")
    assert run is not None
    losses = [row["Loss/behavior"] for row in read_progress(run.progress)]
    assert losses[-1] < 0.5 * losses[0]
    exported = logs / "student.onnx"
    assert main(["export", str(run.path), "--output", str(exported)]) == 0
    session = onnxruntime.InferenceSession(exported)
    assert [given.name for given in session.get_inputs()] == ["obs"]


@pytest.mark.parametrize("recurrent", [None, RecurrentCfg(hidden_dim=5)])
def test_a_resumed_run_equals_an_uninterrupted_one(teacher, recurrent):
    cfg = make_cfg(teacher, recurrent=recurrent, obs_normalization=True)
    runners = [DistillationRunner(env_cfg().build("cpu"), cfg) for _ in range(2)]
    runner, resumed = runners
    for _ in range(2):
        runner.iterate()
    state = copy.deepcopy(runner.state_dict())
    for one in runners:
        one.teacher._policy.network.reset()  # what the teacher remembers is no part of the student's state
    runner.iterate()
    resumed.load_state_dict(state)
    resumed.iterate()
    for first, second in zip(runner._weights().values(), resumed._weights().values(), strict=True):
        torch.testing.assert_close(first, second, rtol=0.0, atol=0.0)


def test_what_cannot_teach_is_refused(teacher):
    with pytest.raises(ConfigError, match="agent.teacher is missing"):
        check_distillation_cfg(DistillationCfg())
    with pytest.raises(ConfigError, match=r"agent.gradient_length must divide .* = 8, .* got 3"):
        check_distillation_cfg(make_cfg(teacher, gradient_length=3))
    with pytest.raises(ConfigError, match="must have the key 'student'"):
        check_distillation_cfg(make_cfg(teacher, obs_groups={"actor": ("policy",)}))
    with pytest.raises(LabError, match="There is no run or checkpoint"):
        DistillationRunner(env_cfg().build("cpu"), make_cfg("nowhere"))
    wider = env_cfg()
    wider.observations["policy"].terms["again"] = copy.deepcopy(wider.observations["policy"].terms["joint_pos_rel"])
    with pytest.raises(LabError, match="observation group 'policy'"):
        DistillationRunner(wider.build("cpu"), make_cfg(teacher))
