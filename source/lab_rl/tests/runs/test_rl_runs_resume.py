"""Resuming with edited settings: each acts or is refused by name, and is told."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.console import Console

from lab_core.agents import PPOCfg
from lab_core.errors import ConfigError
from lab_core.managers import CurriculumTermCfg, EventTermCfg
from lab_core.mdp import modify_reward_weight, modify_term_cfg, randomize_actuator_gains
from lab_core.rollouts import ContractError
from lab_core.signals import UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.export import policy_metadata
from lab_rl.runs import RunCfg, RunFolder, load_checkpoint
from lab_rl.runs.config import load_run_cfg
from lab_rl.runs.trained_policy import load_trained
from lab_rl.runs.training import train

AGENT = {"num_steps_per_env": 4, "actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}


def make_cfg(iterations: int = 2) -> RunCfg:
    env = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.1)
    return RunCfg(task="Task", device="cpu", env=env, agent=PPOCfg(max_iterations=iterations, **AGENT))


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path)


@pytest.fixture
def resumed(run, monkeypatch) -> Callable[..., Any]:
    """Trains, goes on with an edit, and returns the runner of the second part, as it was when it was resumed."""

    def resume(edit: Callable[[RunCfg], None], cfg: Callable[[int], RunCfg] = make_cfg) -> PPORunner:
        train(cfg(2), run, console=quiet())
        runners = []
        load = PPORunner.load_state_dict
        monkeypatch.setattr(
            PPORunner, "load_state_dict", lambda self, state: (load(self, state), runners.append(self))[0]
        )
        edited = cfg(3)
        edit(edited)
        resume.console = quiet()
        monkeypatch.setattr(PPORunner, "iterate", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(edited, run, console=resume.console, checkpoint=run.checkpoint(2))
        assert load_run_cfg(run.config).env == edited.env
        return runners[0]

    return resume


def actuator(cfg: RunCfg) -> Any:
    return next(iter(cfg.env.scene.entities["robot"].actuators.values()))


def set_actuator(**values: Any) -> Callable[[RunCfg], None]:
    def edit(cfg: RunCfg) -> None:
        for name, value in values.items():
            setattr(actuator(cfg), name, value)

    return edit


CONSTANTS = [
    (set_actuator(stiffness=3.0), "joint_stiffness", 3.0),
    (set_actuator(damping=0.25), "joint_damping", 0.25),
    (set_actuator(effort_limit=7.0), "joint_effort_limits", 7.0),
]


@pytest.mark.parametrize(("edit", "buffer", "value"), CONSTANTS)
def test_edited_constants_of_a_robot_act(edit, buffer, value, resumed):
    runner = resumed(edit)
    data = runner.env.scene["robot"].data
    assert bool((getattr(data, buffer) == value).any(dim=1).all())


def test_an_edited_default_pose_acts_and_the_episodes_go_on(resumed, run):
    def edit(cfg: RunCfg) -> None:
        cfg.env.scene.entities["robot"].init_state.joint_pos = {"slider_to_cart": 0.5}

    env = resumed(edit).env
    data, state = env.scene["robot"].data, load_checkpoint(run.checkpoint(2)).runner["environment"]["physics"]
    assert bool((data.default_joint_pos[:, 0] == 0.5).all())
    torch.testing.assert_close(data.joint_pos, state["joint_pos"], rtol=0, atol=0)


def test_a_fixed_base_stands_where_it_is_edited_to(resumed):
    def edit(cfg: RunCfg) -> None:
        cfg.env.scene.entities["robot"].init_state.pos = (0.0, 0.0, 1.5)

    data = resumed(edit).env.scene["robot"].data
    assert bool((data.root_link_pose_w[:, 2] == 1.5).all())
    assert bool((data.body_link_pose_w[:, 0, 2] == 1.5).all())


def test_edited_soft_limits_act(resumed):
    def edit(cfg: RunCfg) -> None:
        cfg.env.scene.entities["robot"].soft_joint_pos_limit_factor = 0.5

    data = resumed(edit).env.scene["robot"].data
    torch.testing.assert_close(data.soft_joint_pos_limits[:, 0], data.joint_pos_limits[:, 0] * 0.5)


def test_edited_startup_events_act(resumed):
    def edit(cfg: RunCfg) -> None:
        cfg.env.events["gains"] = EventTermCfg(
            func=randomize_actuator_gains, mode="startup", params={"stiffness_distribution_params": (2.0, 3.0)}
        )

    cfg = make_cfg(1)
    edit(cfg)
    fresh = cfg.env.build("cpu").scene["robot"].data.joint_stiffness
    assert torch.equal(resumed(edit).env.scene["robot"].data.joint_stiffness, fresh)


def test_what_was_drawn_at_the_start_stays_where_nothing_was_edited(resumed, run):
    runner = resumed(lambda cfg: None)
    stored = load_checkpoint(run.checkpoint(2)).runner["environment"]["physics"]
    for name, tensor in runner.env.physics.state_dict().items():
        assert torch.equal(tensor, stored[name]), name


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_an_edited_learning_rate_acts(schedule, resumed):
    def edit(cfg: RunCfg) -> None:
        cfg.agent.learning_rate, cfg.agent.schedule = 1e-5, schedule

    alg = resumed(edit).alg
    assert alg.learning_rate == 1e-5 and {group["lr"] for group in alg.optimizer.param_groups} == {1e-5}


def test_a_learning_rate_that_was_adapted_goes_on_where_it_was_not_edited(resumed, run):
    runner = resumed(lambda cfg: setattr(cfg.agent, "entropy_coef", 0.02))
    stored = load_checkpoint(run.checkpoint(2)).runner["algorithm"]["optimizer_state_dict"]["param_groups"][0]["lr"]
    assert runner.alg.learning_rate == stored and runner.alg.entropy_coef == 0.02


def test_edits_are_told_and_logged(resumed, run):
    def edit(cfg: RunCfg) -> None:
        cfg.agent.learning_rate = 1e-5
        cfg.env.rewards["alive"].weight = 3.0

    runner = resumed(edit)
    assert runner.env.reward_manager.get_term_cfg("alive").weight == 3.0
    edits = ["env.rewards.alive.weight: 1.0 -> 3.0", "agent.learning_rate: 0.001 -> 1e-05"]
    text = resumed.console.file.getvalue()
    assert "Goes on with edited settings" in text and all(edit in text for edit in edits)
    assert [entry.get("edited") for entry in json.loads(run.versions.read_text())] == [None, edits]


def test_edits_of_the_file_by_hand_are_edits_too(run):
    """The checkpoint holds the settings that it was made with, whatever ``config.yaml`` says since then."""
    train(make_cfg(2), run, console=quiet())
    run.config.write_text(run.config.read_text().replace("learning_rate: 0.001", "learning_rate: 0.5"))
    cfg, console = load_run_cfg(run.config), quiet()
    cfg.agent.max_iterations = 3
    train(cfg, run, console=console, checkpoint=run.checkpoint(2))
    assert "agent.learning_rate: 0.001 -> 0.5" in console.file.getvalue()


@pytest.mark.parametrize(
    ("field", "value"),
    [("init_std", 0.5), ("activation", "relu"), ("actor_hidden_dims", (9,)), ("init_at_random_ep_len", False)],
)
def test_edits_that_act_on_new_runs_only_are_refused(field, value, run):
    train(make_cfg(2), run, console=quiet())
    before = run.config.read_text()
    cfg = make_cfg(3)
    setattr(cfg.agent, field, value)
    with pytest.raises(ConfigError, match=rf"agent.{field} \(.* -> .*\): it acts on a new run only"):
        train(cfg, run, console=quiet(), checkpoint=run.checkpoint(2))
    assert run.config.read_text() == before


def test_another_seed_is_refused(run):
    train(make_cfg(2), run, console=quiet())
    cfg = make_cfg(3)
    cfg.env.seed = 7
    with pytest.raises(ConfigError, match=r"env.seed \(42 -> 7\): a resumed run goes on with the random state"):
        train(cfg, run, console=quiet(), checkpoint=run.checkpoint(2))


def with_curriculum(iterations: int) -> RunCfg:
    cfg = make_cfg(iterations)
    cfg.env.curriculum = {
        "weight": CurriculumTermCfg(
            func=modify_reward_weight, params={"term_name": "alive", "weight": 9.0, "num_steps": 0}
        ),
        "scale": CurriculumTermCfg(
            func=modify_term_cfg,
            params={"manager_name": "action", "term_name": "cart_effort", "changes": {"scale": 5.0}, "num_steps": 0},
        ),
    }
    return cfg


def edit_weight(cfg: RunCfg) -> None:
    cfg.env.rewards["alive"].weight = 2.0


def edit_scale(cfg: RunCfg) -> None:
    cfg.env.actions["cart_effort"] = replace(cfg.env.actions["cart_effort"], scale=1.0)


def edit_curriculum(cfg: RunCfg) -> None:
    cfg.env.curriculum["scale"].params["changes"] = {"scale": 6.0}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edit_weight, r"env.rewards.alive.weight \(1.0 -> 2.0\): the curriculum has set it to 9.0"),
        (edit_scale, r"env.actions.cart_effort.scale \(.*\): the curriculum has set it to 5.0"),
        (edit_curriculum, r"env.curriculum.scale.params.changes.scale \(5.0 -> 6.0\): it has changed env.actions.cart"),
    ],
)
def test_edits_that_a_curriculum_overrules_are_refused(edit, message, run):
    train(with_curriculum(2), run, console=quiet())
    cfg = with_curriculum(3)
    edit(cfg)
    with pytest.raises(ConfigError, match=message):
        train(cfg, run, console=quiet(), checkpoint=run.checkpoint(2))


def test_other_settings_of_a_term_that_a_curriculum_changed_act(resumed):
    def edit(cfg: RunCfg) -> None:
        cfg.env.actions["cart_effort"] = replace(cfg.env.actions["cart_effort"], offset=0.5)
        cfg.env.curriculum["weight"].params["weight"] = 4.0

    term = resumed(edit, with_curriculum).env.action_manager.get_term("cart_effort").cfg
    assert (term.scale, term.offset) == (5.0, 0.5)


def scaled_cfg(iterations: int) -> RunCfg:
    """A curriculum that changes the scales of an action and of an observation, and noise."""
    cfg = with_curriculum(iterations)
    changes = {"scale": 0.25, "noise": UniformNoiseCfg(n_min=-0.1, n_max=0.1)}
    params = {"manager_name": "observation", "term_name": "policy/joint_vel_rel", "changes": changes, "num_steps": 0}
    cfg.env.curriculum["observation"] = CurriculumTermCfg(func=modify_term_cfg, params=params)
    return cfg


def test_a_policy_plays_with_what_a_curriculum_made_of_its_scales(run):
    train(scaled_cfg(2), run, console=quiet())
    trained = load_trained(run.path)
    env = make_cfg().env.build("cpu")
    policy = trained.attach(env)
    assert env.action_manager.get_term("cart_effort").cfg.scale == 5.0
    term = env.observation_manager.get_term_cfg("policy/joint_vel_rel")
    assert (term.scale, term.noise) == (0.25, None)
    observed = env.get_observations()["policy"][:, 2:]
    torch.testing.assert_close(observed, 0.25 * env.scene["robot"].data.joint_vel)
    metadata = policy_metadata(policy, trained)
    assert metadata["actions"][0]["scale"] == [5.0]
    assert [term["scale"] for term in metadata["observations"]] == [None, 0.25]


def test_a_policy_refuses_other_scales_than_in_training(run):
    train(make_cfg(2), run, console=quiet())
    cfg = make_cfg().env
    cfg.actions["cart_effort"] = replace(cfg.actions["cart_effort"], scale=3.0)
    env, trained = cfg.build("cpu"), load_trained(run.path)
    with pytest.raises(ContractError, match=r"2.pt was made for .*\n.*action.cart_effort.scale\[0\]: 100.0 .*3.0 here"):
        trained.attach(env)
    with pytest.warns(UserWarning, match="was made for another environment"):
        trained.attach(env, force=True)
