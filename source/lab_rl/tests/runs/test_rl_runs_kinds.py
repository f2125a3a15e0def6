"""Settings of the wrong kind or range, from code and from a file."""

from __future__ import annotations

import math

import pytest

from lab_core.agents import PPOCfg
from lab_core.config import check_kinds, save_yaml
from lab_core.errors import ConfigError
from lab_core.registry import get_task, task_ids
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms import get_algorithm
from lab_rl.runs import RunCfg
from lab_rl.runs.config import load_run_cfg

AGENT = [
    ("actor_hidden_dims", (), "one width or more"),
    ("actor_hidden_dims", (0,), "each at least 1"),
    ("critic_hidden_dims", (8, -1), "each at least 1"),
    ("obs_groups", {"actor": ("policy", "policy"), "critic": ("policy",)}, "obs_groups.actor must name groups, each"),
    ("obs_groups", {"actor": (), "critic": ("policy",)}, "obs_groups.actor must name groups"),
    ("obs_groups", {"critic": ("policy",)}, "must have the keys 'actor' and 'critic'"),
    ("learning_rate", "fast", r"agent.learning_rate: got 'fast' \(str\), expected float"),
    ("learning_rate", math.inf, "positive and finite"),
    ("num_steps_per_env", 1.5, r"agent.num_steps_per_env: got 1.5 \(float\), expected int"),
]


@pytest.mark.parametrize(("field", "value", "message"), AGENT)
def test_wrong_settings_of_an_agent_are_named(field, value, message):
    cfg = PPOCfg()
    setattr(cfg, field, value)
    with pytest.raises(ConfigError, match=message):
        get_algorithm("ppo").check(cfg)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("episode_length_s", "five", r"episode_length_s: got 'five' \(str\), expected float"),
        ("episode_length_s", math.inf, "episode_length_s must be positive and finite"),
        ("decimation", 1.5, r"decimation: got 1.5 \(float\), expected int"),
        ("decimation", None, "decimation: got None"),
        ("scene.env_spacing", -1.0, "scene.env_spacing: got -1.0, expected finite float at least 0"),
        ("scene.camera.width", 0, "scene.camera.width: got 0, expected int at least 1"),
        ("scene.camera.fov", 180.0, "scene.camera.fov: got 180.0, expected finite float between 0 and 180"),
        ("scene.ground.friction", math.inf, "scene.ground.friction: got inf, expected finite float at least 0"),
        ("scene.entities.robot.soft_joint_pos_limit_factor", 0.0, "soft_joint_pos_limit_factor: got 0.0, expected"),
        ("scene.entities.robot.actuators.cart.stiffness", math.inf, "cart.stiffness: got inf, expected finite float"),
        ("actions.cart_effort.scale", math.inf, "actions.cart_effort.scale: got inf, expected finite float"),
        ("actions.cart_effort.offset", {".*": math.inf}, "actions.cart_effort.offset"),
    ],
)
def test_wrong_settings_of_an_environment_are_named(field, value, message):
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    *parts, last = field.split(".")
    part = cfg
    for name in parts:
        part = part[name] if isinstance(part, dict) else getattr(part, name)
    setattr(part, last, value)
    with pytest.raises(ConfigError, match=message):
        cfg.build("cpu")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("learning_rate: 0.001", "learning_rate: fast", r"config.yaml: agent.learning_rate: got 'fast'"),
        ("episode_length_s: 5.0", "episode_length_s: five", r"config.yaml: env.episode_length_s: got 'five'"),
        (
            "target: 0.0",
            "target: up",
            r"env.rewards.pole_pos.params.target: got .up. .*expected float",
        ),
        ("num_steps_per_env: 24", "num_steps_per_env: 1.5", r"config.yaml: agent.num_steps_per_env: got 1.5"),
    ],
)
def test_wrong_settings_in_a_file_are_named(before, after, message, tmp_path):
    path = tmp_path / "config.yaml"
    save_yaml(RunCfg(task="Task", device="cpu", env=analytic_cartpole_env_cfg(), agent=PPOCfg()), path)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(ConfigError, match=message):
        load_run_cfg(path)


def test_settings_of_every_task_are_of_their_kinds():
    for task in task_ids():
        spec = get_task(task)
        for cfg in (spec.make_env_cfg(), spec.make_env_cfg(play=True), *map(spec.make_agent_cfg, spec.agents)):
            check_kinds(cfg, task)
