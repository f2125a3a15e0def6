"""``lab play`` of exported policies: accepted in the task that they were made for, refused by field name in others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from lab_core import registry
from lab_core.agents import PPOCfg
from lab_core.cli import main
from lab_core.errors import ConfigError
from lab_core.registry import TaskSpec, get_task, task_ids
from lab_core.rollouts import describe_contract, make_policy
from lab_core.testing import AnalyticCartpoleBackend, analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.export import export_onnx
from lab_rl.runs import Checkpoint, RunCfg
from lab_rl.runs.trained_policy import TrainedPolicy
from lab_rl.term_widths import action_terms, observation_terms

TASK = "Stub-Contract"


def env_cfg(play: bool = False):
    return analytic_cartpole_env_cfg(num_envs=2)


def paint(self, camera) -> np.ndarray:
    return np.zeros((camera.height, camera.width, 3), np.uint8)


def export_untrained(task: str, env, path: Path) -> None:
    """Writes a policy with random weights for ``env`` as ``lab export`` does, without a run."""
    agent = PPOCfg(num_steps_per_env=1, num_mini_batches=1, actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    cfg = RunCfg(task=task, device="cpu", env=env.cfg, agent=agent)
    checkpoint = Checkpoint(
        task=task,
        config_hash=cfg.hash(),
        num_envs=env.num_envs,
        observations={"policy": observation_terms(env)["policy"]},
        actions=action_terms(env),
        runner=PPORunner(env, agent).state_dict(),
        contract=json.loads(json.dumps(describe_contract(env, ["policy"]))),
    )
    trained = TrainedPolicy(path, checkpoint, cfg)
    export_onnx(trained, trained.attach(env), path)


@pytest.mark.slow  # builds each task
@pytest.mark.parametrize("task", [task for task in task_ids() if task.startswith("Lab-")])
@pytest.mark.filterwarnings("ignore")
def test_an_exported_policy_of_every_task_plays_in_it(task, tmp_path):
    cfg = get_task(task).make_env_cfg(play=True)
    cfg.scene.num_envs = 2
    try:
        env = cfg.build("cpu")
    except ConfigError as error:
        assert "learned other physics" in str(error)
        pytest.skip("its model learned the ANYdrive, whose network is not part of the project")
    path = tmp_path / "policy.onnx"
    export_untrained(task, env, path)
    policy = make_policy(str(path), env)
    observations, _ = env.reset()
    for _ in range(3):
        observations, *_ = env.step(policy(observations))
    assert torch.isfinite(observations["policy"]).all()
    env.close()


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Plays a policy that was exported from the unchanged task; returns the exit code."""
    monkeypatch.setattr(registry, "_registered_tasks", {TASK: TaskSpec(id=TASK, env_cfg=env_cfg, agents={})})
    monkeypatch.setattr(AnalyticCartpoleBackend, "render", paint)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "policy.onnx"
    export_untrained(TASK, env_cfg().build("cpu"), path)

    def run(*options: str) -> int:
        return main(
            [
                "play",
                TASK,
                "--policy",
                str(path),
                "--video",
                "clip.mp4",
                "--video-length",
                "4",
                "--device",
                "cpu",
                *options,
            ]
        )

    return run


EDITS = [
    (["--env.decimation", "4"], "control_dt: 0.01666"),
    (["--env.actions.cart-effort.scale", "50.0"], "action.cart_effort.scale[0]: 100.0 for the policy, 50.0 here"),
    (["--env.actions.cart-effort.offset", "1.0"], "action.cart_effort.offset[0]: 0.0 for the policy, 1.0 here"),
    (
        ["--env.actions.cart-effort.joint-names", "cart_to_pole"],
        "action.cart_effort.joint_names[0]: 'slider_to_cart' for the policy, 'cart_to_pole' here",
    ),
    (
        ["--env.observations.policy.terms.joint-vel-rel.scale", "0.5"],
        "observation.policy/joint_vel_rel.scale: None for the policy, 0.5 here",
    ),
    (
        ["--env.observations.policy.terms.joint-pos-rel.func", "lab_core.mdp:joint_vel_rel"],
        "observation.policy/joint_pos_rel.function: 'joint_pos_rel' for the policy, 'joint_vel_rel' here",
    ),
    (
        ["--env.observations.policy.terms.joint-pos-rel.clip", "-1.0", "1.0"],
        "observation.policy/joint_pos_rel.clip: None for the policy, [-1.0, 1.0] here",
    ),
]


def test_the_task_that_it_was_made_for_is_accepted(play):
    assert play() == 0


@pytest.mark.parametrize(("options", "message"), EDITS)
@pytest.mark.filterwarnings("ignore:.*was made for another environment", "ignore:JointEffortAction")
def test_what_differs_is_refused_by_name_unless_forced(play, capsys, options, message):
    assert play(*options) == 1
    assert message in " ".join(capsys.readouterr().err.split())
    assert play(*options, "--force") == 0


def test_another_width_is_refused_whatever_is_forced(play, capsys):
    option = ["--env.observations.policy.terms.joint-pos-rel", "None", "--force"]
    assert play(*option) == 1
    assert "reads 4 observations; ['policy'] of this task have 2" in " ".join(capsys.readouterr().err.split())
