"""Policies with a memory: what they remember is input and output of the exported file."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest
import torch

from lab_core.agents import PPOCfg, RecurrentCfg
from lab_core.cli import main
from lab_core.registry import TaskSpec, register_task
from lab_core.rollouts import make_policy
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.export.onnx_file import ExportError, check_memory
from lab_rl.runs import latest_run
from lab_rl.runs.trained_policy import load_trained

TASK = "Stub-Memory"
KINDS = {"lstm": ("h", "c"), "gru": ("h",)}


def env_cfg(play: bool = False):
    return analytic_cartpole_env_cfg(num_envs=6, episode_length_s=0.5)


def ppo_cfg() -> PPOCfg:
    return PPOCfg(num_steps_per_env=8, actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_mini_batches=2,
                  obs_normalization=True, clip_actions=2.0, recurrent=RecurrentCfg(hidden_dim=6))  # fmt: skip


register_task(TaskSpec(id=TASK, env_cfg=env_cfg, agents={"ppo": ppo_cfg}))


@pytest.fixture(scope="module", params=KINDS)
def exported(request, tmp_path_factory):
    """A run and its file, made by the commands."""
    logs = tmp_path_factory.mktemp(request.param)
    command = ["train", TASK, "--logs", str(logs), "--max-iterations", "2", "--device", "cpu", "--frontend", "torch"]
    layers = ["--agent.recurrent.type", request.param, "--agent.recurrent.num-layers", "2"]
    assert main([*command, *layers, "--no-video"]) == 0
    run = latest_run(logs / TASK)
    assert run is not None and main(["export", str(run.path)]) == 0
    return request.param, run.path, run.path / "policy.onnx"


def test_the_file_says_what_is_remembered(exported):
    kind, _, path = exported
    session = onnxruntime.InferenceSession(path)
    names = KINDS[kind]
    assert [given.name for given in session.get_inputs()] == ["obs", *(f"{name}_in" for name in names)]
    assert [given.name for given in session.get_outputs()] == ["actions", *(f"{name}_out" for name in names)]
    assert session.get_inputs()[1].shape[::2] == [2, 6]
    metadata = json.loads(session.get_modelmeta().custom_metadata_map["lab"])
    assert [part["input"] for part in metadata["memory"]] == [f"{name}_in" for name in names]
    assert all((part["layers"], part["width"]) == (2, 6) for part in metadata["memory"])


def test_it_acts_like_the_policy_over_100_steps_with_resets(exported):
    _, run, path = exported
    env = env_cfg().build("cpu")
    trained, played = load_trained(run).attach(env), make_policy(str(path), env)
    resets = 0
    with torch.inference_mode():
        env.reset()
        for step in range(100):
            if step == 40:
                env.reset(mask=torch.arange(6) < 2)
            expected, actual = trained(), played(env.get_observations())
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
            env.step(expected)
            resets += int(env.reset_buf.sum())
    assert resets > 6


def test_it_can_be_played(exported, capsys):
    _, _, path = exported
    env = env_cfg().build("cpu")
    act = make_policy(str(path), env)
    with torch.inference_mode():
        env.reset()
        first = act(env.get_observations()).clone()
        second = act(env.get_observations())  # the episodes have not moved on: both begin
    assert torch.equal(first, second)


def test_a_file_that_forgets_is_found_out(exported):
    _, run, path = exported
    policy = load_trained(run).attach(env_cfg().build("cpu"))
    data = path.read_bytes()
    seen = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    starts = torch.zeros(5, 3, dtype=torch.bool)
    starts[0] = True
    with torch.inference_mode():
        actions = []
        for one, begins in zip(seen, starts, strict=True):
            policy.forget(begins)
            actions.append(policy.act({"policy": one}).clone())
    expected = torch.stack(actions)
    check_memory(data, policy, seen, starts, expected)
    with pytest.raises(ExportError, match="differs from the trained one"):
        check_memory(data, policy, seen, torch.ones_like(starts), expected)
    assert np.isfinite(expected.numpy()).all()
