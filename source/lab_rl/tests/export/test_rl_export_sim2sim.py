"""What ``lab export`` writes, played by ``scripts/play_in_mujoco.py``, does what the policy does in its environment."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch

from lab_core.cli import main
from lab_core.config import package_path
from lab_core.registry import task_ids
from lab_rl.runs import latest_run
from lab_rl.runs.trained_policy import load_trained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("Lab-Cartpole" not in task_ids(), reason="lab_tasks is not installed"),
]

SCRIPT = Path(__file__).parents[4] / "scripts/play_in_mujoco.py"
STEPS = 45
TOLERANCE = 2e-5
"""Of observations and actions [all units]. The environment computes in 32 bits, which round values of 8 by 5e-7, and
the falling pole lets a difference grow about tenfold in these steps; 1e-6 is the largest that was seen."""
DETAILS = [
    *("--env.observations.policy.history-length", "3", "--env.observations.policy.history-order", "time"),
    *("--env.observations.policy.terms.joint-pos-rel.delay-min-lag", "1"),
    *("--env.observations.policy.terms.joint-pos-rel.delay-max-lag", "1"),
    *("--env.observations.policy.terms.joint-vel-rel.scale", "0.5"),
    *("--env.observations.policy.terms.joint-vel-rel.clip", "-1.0", "1.0"),
    *("--env.actions.cart-effort.offset", "5.0", "--env.actions.cart-effort.clip", "20.0"),
    *("--env.scene.entities.robot.init-state.joint-pos", "{'slider_to_cart': 0.5, 'cart_to_pole': 0.1}"),
]
"""All that a controller could get wrong: memory, scale, clip, offset and default pose."""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = sys.modules[SCRIPT.stem] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def train_and_export(folder: Path, *settings: str) -> SimpleNamespace:
    """Returns the exported file, and an episode of the policy in its environment: start, observations, actions."""
    few = ("--device", "cpu", "--num-envs", "16", "--max-iterations", "3", "--no-video", "--logs", str(folder))
    assert main(["train", "Lab-Cartpole", *few, *settings]) == 0
    assert main(["export", "Lab-Cartpole", "--logs", str(folder), "--output", str(folder / "policy.onnx")]) == 0
    trained = load_trained(latest_run(folder / "Lab-Cartpole").path)
    trained.cfg.env.scene.num_envs = 1
    env = trained.cfg.env.build("cpu")
    policy = trained.attach(env)
    robot = env.scene["robot"]
    start = {
        name: (float(robot.data.joint_pos[0, joint]), float(robot.data.joint_vel[0, joint]))
        for joint, name in enumerate(robot.joint_names)
    }
    observations, actions = [], []
    with torch.inference_mode():
        for _ in range(STEPS):
            observations.append(env.get_observations()["policy"][0].numpy().copy())
            actions.append(policy()[0].numpy().copy())
            _, _, terminated, _, _ = env.step(torch.from_numpy(actions[-1])[None])
            if terminated.any():  # the cart left the rail
                break
    env.close()
    return SimpleNamespace(
        file=folder / "policy.onnx",
        model=package_path(robot.cfg.asset),
        start=start,
        observations=np.array(observations),
        actions=np.array(actions),
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train_and_export(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def detailed(tmp_path_factory):
    return train_and_export(tmp_path_factory.mktemp("detailed"), *DETAILS)


def compare(script, episode, file: Path) -> None:
    """Plays ``file`` from the start of ``episode`` by itself: what it does there decides what it sees next."""
    controller = script.Controller(file)
    robot = script.Robot(script.load_model(episode.model, controller), controller)
    for name, (position, velocity) in episode.start.items():
        robot.data.joint(name).qpos[0], robot.data.joint(name).qvel[0] = position, velocity
    for observation, action in zip(episode.observations, episode.actions, strict=True):
        seen = robot.step()
        np.testing.assert_allclose(seen, observation, rtol=0.0, atol=TOLERANCE)
        np.testing.assert_allclose(controller.action, action, rtol=0.0, atol=TOLERANCE)


def changed(file: Path, folder: Path, *keys, **to) -> Path:
    """Writes ``file`` with other metadata: at ``keys`` the values by name ``to``, which may be made of the old one."""
    model = onnx.load(file)
    (entry,) = (entry for entry in model.metadata_props if entry.key == "lab")
    lab = part = json.loads(entry.value)
    for key in keys:
        part = part[key]
    for name, value in to.items():
        part[name] = value(part[name]) if callable(value) else value
    entry.value = json.dumps(lab)
    onnx.save(model, folder / "changed.onnx")
    return folder / "changed.onnx"


def swapped(values: list) -> list:
    return values[::-1]


def slightly_more(values: list | float) -> list | float:
    return [1.001 * value for value in values] if isinstance(values, list) else 1.001 * values


def doubled(values: list) -> list:
    return [2.0 * value for value in values]  # where the effort is clipped, an offset does nothing


POSITIONS, VELOCITIES, ACTION, ROBOT = ("observations", 0), ("observations", 1), ("actions", 0), ("entities", "robot")


def test_the_cartpole_does_in_plain_mujoco_what_it_does_in_its_environment(script, plain):
    compare(script, plain, plain.file)


def test_so_it_does_with_memory_scales_clips_and_offsets(script, detailed):
    compare(script, detailed, detailed.file)


@pytest.mark.parametrize(
    ("keys", "to"),
    [
        (ROBOT, {"joint_names": swapped}),
        (ROBOT, {"default_joint_pos": slightly_more}),
        (ROBOT, {"joint_damping": slightly_more}),
        (("timing",), {"decimation": 1}),
        (("timing",), {"physics_dt": slightly_more}),
        ((*POSITIONS, "params", "asset_cfg"), {"joint_names": swapped}),
        (POSITIONS, {"delay_min_lag": 0, "delay_max_lag": 0}),
        (POSITIONS, {"history_order": "term"}),
        (VELOCITIES, {"scale": slightly_more}),
        (VELOCITIES, {"clip": slightly_more}),
        (VELOCITIES, {"function": "joint_pos_rel"}),
        (ACTION, {"scale": slightly_more}),
        (ACTION, {"offset": doubled}),
        (ACTION, {"clip": [[-20.02, 20.02]]}),
        (ACTION, {"joint_names": ["cart_to_pole"]}),
        (ACTION, {"class": "JointVelocityAction"}),
    ],
)
def test_a_file_that_says_something_else_is_noticed(script, detailed, tmp_path, keys, to):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(script, detailed, changed(detailed.file, tmp_path, *keys, **to))


@pytest.mark.parametrize(
    ("keys", "to", "message"),
    [
        ((), {"format": "lab policy 0"}, "is of format 'lab policy 0', not 'lab policy 1'"),
        ((), {"actions": lambda terms: terms * 2}, "has 2 action terms: ['cart_effort', 'cart_effort']"),
        (ACTION, {"class": "MyAction"}, "Action 'cart_effort' is of the unknown class MyAction"),
        (ACTION, {"class": "JointPositionAction"}, "Joints without stiffness get position targets: slider_to_cart"),
        (POSITIONS, {"function": "my_term"}, "Observation 'joint_pos_rel' has the unknown function my_term"),
        (POSITIONS, {"modifiers": [{"bias": 1.0}]}, "Observation 'joint_pos_rel' has modifiers"),
        (
            (*POSITIONS, "params", "asset_cfg"),
            {"entity": "ball"},
            "'joint_pos_rel' is of 'ball'; the policy moves 'robot'",
        ),
    ],
)
def test_what_the_script_cannot_do_is_refused_by_name(script, plain, tmp_path, capsys, keys, to, message):
    with pytest.raises(SystemExit) as ended:
        script.main([str(changed(plain.file, tmp_path, *keys, **to)), str(plain.model)])
    assert ended.value.code == 1 and message in capsys.readouterr().err
