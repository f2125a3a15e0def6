"""The loop: that it learns, repeats, resumes, and survives numbers that are not finite."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch.utils._pytree import tree_flatten

from lab_core.errors import ConfigError, LabError
from lab_core.imagination import ImaginationError
from lab_core.managers import RewardTermCfg
from lab_core.recorder import RecorderCfg, action_state_terms
from lab_core.signals import UniformNoiseCfg
from lab_rl.supermimic import SuperMimicAlgorithm, SuperMimicRunner
from lab_rl.supermimic.settings import check_supermimic_cfg


def small(settings, **changes):
    model = {"first_updates": 4, "batch_size": 32, "hidden_dims": (16, 16)}
    quick = {"warmup_updates": 3, "world_model_updates": 2, "policy_updates": 2, "batch_size": 16, "horizon": 6}
    return settings(**{**quick, **changes}, world_model=model)


def make(cart_cfg, cfg, num_envs: int = 8) -> SuperMimicRunner:
    env_cfg = cart_cfg(num_envs)
    env_cfg.observations["policy"].enable_corruption = True
    env_cfg.observations["policy"].terms["joint_pos"].noise = UniformNoiseCfg(n_min=-0.01, n_max=0.01)
    return SuperMimicRunner(env_cfg.build("cpu"), cfg)


def assert_equal(a, b) -> None:
    left, right = tree_flatten(a), tree_flatten(b)
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0], strict=True):
        assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


def mean_step_reward(runner: SuperMimicRunner, act, steps: int = 100) -> float:
    env, total = runner.env, 0.0
    with torch.no_grad():
        observations, _ = env.reset()
        for _ in range(steps):
            observations, reward, *_ = env.step(act(observations))
            total += float(reward.mean())
    return total / steps


def test_it_learns_to_track(cart_cfg, settings):
    runner = SuperMimicRunner(cart_cfg(64).build("cpu"), settings())
    before = mean_step_reward(runner, runner.policy().act)
    iterations = [runner.iterate() for _ in range(35)]
    after = mean_step_reward(runner, runner.policy().act)
    assert before < 0.5 and after > 0.75
    assert iterations[-1].reward > 4 * iterations[0].reward
    assert iterations[-1].episode_length > 60
    assert iterations[-1].scalars["Imagined/failures"] < 0.05


def test_the_same_seed_repeats_bit_for_bit_and_resuming_goes_on_bit_for_bit(cart_cfg, settings):
    cfg = small(settings)
    whole, again, resumed = (make(cart_cfg, cfg) for _ in range(3))
    for _ in range(4):
        whole.iterate()
        again.iterate()
    assert_equal(whole.state_dict()["policy"], again.state_dict()["policy"])
    stored = copy.deepcopy(whole.state_dict())
    resumed.iterate()  # elsewhere
    resumed.load_state_dict(stored)
    for _ in range(4):
        last, last_resumed = whole.iterate(), resumed.iterate()
    assert last.scalars["Imagined/return"] == last_resumed.scalars["Imagined/return"]
    state, other = whole.state_dict(), resumed.state_dict()
    for name in ("model", "policy", "generator", "episodes", "exploration", "iteration"):
        assert_equal(state[name], other[name])


def test_a_run_without_its_replay_collects_it_anew(cart_cfg, settings):
    runner, resumed = (make(cart_cfg, small(settings, save_replay=False)) for _ in range(2))
    runner.iterate()
    stored = runner.state_dict()
    assert stored["replay"] is None
    resumed.load_state_dict(stored)
    steps = resumed.iterate().env_steps - stored["env_steps"]
    assert steps == (32 + 8) * 8 and resumed.replay.count == 40
    assert resumed.fit.update_count == runner.fit.update_count + 2, "no second warm-up of the model"


def test_states_of_other_clips_or_networks_are_refused(cart_cfg, settings):
    runner = make(cart_cfg, small(settings))
    runner.iterate()
    state = runner.state_dict()
    with pytest.raises(LabError, match="clips.slow"):
        runner.load_state_dict({**state, "trained_on": {**state["trained_on"], "clips": {"slow": 7}}})
    other = make(cart_cfg, small(settings, actor_hidden_dims=(8,)))
    with pytest.raises(LabError, match="do not fit the settings"):
        other.load_state_dict(state)


def test_policy_updates_change_neither_the_world_model_nor_a_normaliser(cart_cfg, settings):
    runner = make(cart_cfg, small(settings))
    runner.iterate()
    update = runner.policy_update
    model, actor = copy.deepcopy(runner.fit.model.state_dict()), copy.deepcopy(update.actor.state_dict())
    critic = copy.deepcopy(update.critic.state_dict())
    for _ in range(3):
        update.update()
    assert_equal(model, runner.fit.model.state_dict())
    for before, network in ((actor, update.actor), (critic, update.critic)):
        for name, value in network.state_dict().items():
            assert torch.equal(value, before[name]) == name.startswith("normalizer")


@pytest.mark.parametrize("decay", [0.5, 0.0])
def test_an_average_of_the_policy_follows_it(cart_cfg, settings, decay):
    """With 0 it is the policy."""
    runner = make(cart_cfg, small(settings, ema_decay=decay))
    runner.iterate()
    update = runner.policy_update
    mean = [parameter.clone() for parameter in update.averaged.parameters()]
    update.update_count = 100
    update.update()
    for before, now, new in zip(mean, update.averaged.parameters(), update.actor.parameters(), strict=True):
        torch.testing.assert_close(now, decay * before + (1.0 - decay) * new)


@pytest.mark.parametrize("bad", ["one", "all"])
def test_numbers_that_are_not_finite_do_not_reach_the_networks(cart_cfg, settings, bad):
    runner = make(cart_cfg, small(settings))
    runner.iterate()
    steps, update = runner.replay.ring.steps, runner.policy_update
    rows = slice(None) if bad == "all" else slice(0, 1)
    steps["start/joint_vel"][:, rows] = math.inf
    steps["end/joint_vel"][:, rows] = math.nan
    actor, model = copy.deepcopy(update.actor.state_dict()), copy.deepcopy(runner.fit.model.state_dict())
    for _ in range(4):
        runner.fit.update()
        update.update()
    assert int(update.left_out) > 0
    networks = {"actor": (actor, update.actor), "model": (model, runner.fit.model)}
    for name, (before, network) in networks.items():
        now = network.state_dict()
        assert all(value.isfinite().all() for value in now.values()), name
        moved = any(not torch.equal(now[key], before[key]) for key in now)
        assert moved == (bad == "one"), name


def test_a_run_that_is_stuck_stops(cart_cfg, settings):
    runner = make(cart_cfg, small(settings, max_skipped_updates=4, policy_updates=4))
    runner.iterate()
    runner.cfg.reward_scale = math.inf
    actor = copy.deepcopy(runner.policy_update.actor.network.state_dict())
    with pytest.raises(LabError, match="last 4 updates of the policy had gradients that are not finite"):
        for _ in range(2):
            runner.iterate()
    assert_equal(actor, runner.policy_update.actor.network.state_dict())


def test_the_model_is_measured_against_velocities_that_stay(cart_cfg, settings):
    runner = make(cart_cfg, small(settings, warmup_updates=60, holdout_interval=1))
    scalars = runner.iterate().scalars
    assert scalars["WorldModel/held_out_one_step"] < 0.8
    found, still = (scalars[f"WorldModel/held_out_{name}joint_pos_8"] for name in ("", "still_"))
    assert 0.0 < found < still
    assert "WorldModel/held_out_joint_pos_16" not in scalars, "windows have 8 steps"


def test_phases_add_up_to_the_iteration(cart_cfg, settings):
    scalars = make(cart_cfg, small(settings)).iterate().scalars
    phases = [scalars[f"Perf/{name}_time"] for name in ("collection", "world_model", "policy", "critic")]
    assert min(phases) > 0.0
    assert sum(phases) <= 1.0 / scalars["Perf/iterations_per_s"]


def test_weights_that_a_curriculum_changes_act_in_updates(cart_cfg, settings):
    runner = make(cart_cfg, small(settings))
    runner.iterate()
    task, manager = runner.task, runner.env.reward_manager
    inputs, forgotten = runner.policy_update.draw(), []
    runner.policy_update.forget = lambda: forgotten.append(True)
    before = runner.policy_update.imagine(inputs, runner._context).reward
    manager.weights = {"track": 2.0 * manager.weights["track"]}
    assert not task.refresh()
    torch.testing.assert_close(runner.policy_update.imagine(inputs, runner._context).reward, 2.0 * before)
    manager.weights = {"track": 0.0}
    runner.iterate()
    assert not forgotten and not runner.policy_update.imagine(inputs, runner._context).reward.any()
    runner.env.observation_manager.get_term_cfg("policy/joint_pos").scale = 3.0
    runner.iterate()
    assert forgotten == [True], "other settings are constants of a graph"


def test_rewards_of_events_are_predicted(cart_cfg, settings):
    """A cost of the right half: the model learns how likely it is, and imagination pays for it."""
    env_cfg = cart_cfg(16)
    env_cfg.rewards["right"] = RewardTermCfg(func=_is_right, weight=-30.0)
    cfg = small(settings, warmup_updates=300, predicted_rewards=("right",))
    cfg.world_model.event_weight, cfg.world_model.learning_rate = 10.0, 1e-2
    runner = SuperMimicRunner(env_cfg.build("cpu"), cfg)
    runner.iterate()
    batch = runner._held_out_batch
    runner.replay.draw_steps(batch)
    state = runner.fit.states(batch.values, "start", batch.env_ids).map(lambda part: part[0])
    context = runner._context[batch.env_ids]
    following, logits = runner.fit.model(state, batch.values["targets"][0], context)
    right = following.joint_pos[:, :1] > 0.0
    assert logits[right].mean() > 1.0 and logits[~right].mean() < -1.0
    rollout = runner.policy_update.imagine(runner.policy_update.draw(), runner._context)
    assert rollout.reward.min() < -0.4 and rollout.reward.requires_grad


def test_noise_of_observations_is_measured(cart_cfg, settings):
    runner = make(cart_cfg, small(settings))
    expected = [0, 0, 0.01 / 3**0.5, 0.01 / 3**0.5, 0, 0, 0]
    torch.testing.assert_close(runner._noise_std, torch.tensor(expected), rtol=0.1, atol=0)


def test_context_is_the_deviation_from_the_configured_robot(cart_cfg, settings):
    cfg = small(settings)
    cfg.world_model.context = {"body_mass": 0.5}
    env = cart_cfg(8).build("cpu")
    env.scene["robot"].data.body_mass[3, 1] += 2.0
    runner = SuperMimicRunner(env, cfg)
    assert runner._context.shape == (8, 3) and runner._context[3].tolist() == [0.0, 4.0, 0.0]
    assert runner._context.abs().sum() == 4.0
    runner.iterate()
    cfg.world_model.context = {"body_weight": 0.5}
    with pytest.raises(ConfigError, match=r"agent.world_model.context: .*body_weight.*body_mass"):
        SuperMimicRunner(cart_cfg(8).build("cpu"), cfg)


def test_muon_and_bf16_run(cart_cfg, settings):
    runner = make(cart_cfg, small(settings, optimizer="muon", precision="bf16"))
    before = copy.deepcopy(runner.policy_update.actor.state_dict())
    scalars = [runner.iterate() for _ in range(2)][-1].scalars
    assert scalars["Skipped/policy"] == scalars["Skipped/model"] == 0.0
    assert not torch.equal(before["network.layers.1.weight"], runner.policy_update.actor.network.layers[1].weight)


def test_tasks_that_do_not_fit_are_refused(cart_cfg, settings):
    cfg = cart_cfg(4)
    cfg.commands = {}
    cfg.events = cfg.rewards = {}
    cfg.terminations = {"time_out": cfg.terminations["time_out"]}
    cfg.observations["policy"].terms.pop("reference")
    with pytest.raises(ConfigError, match="one command, which plays clips"):
        SuperMimicRunner(cfg.build("cpu"), settings())
    cfg = cart_cfg(4)
    cfg.rewards["effort"] = RewardTermCfg(func=_effort, weight=-1.0)
    with pytest.raises(ImaginationError, match="'effort'"):
        SuperMimicRunner(cfg.build("cpu"), settings())
    SuperMimicRunner(cfg.build("cpu"), settings(without_rewards=("effort",)))
    cfg = cart_cfg(4)
    cfg.recorder = RecorderCfg(terms={"actions": action_state_terms()["actions"]})
    with pytest.raises(ConfigError, match="set that to None"):
        SuperMimicRunner(cfg.build("cpu"), settings())


def test_an_action_that_becomes_something_else_than_it_says_is_noticed(cart_cfg, settings):
    runner = make(cart_cfg, small(settings))
    term = runner.task.env.action_manager.get_term("cart_effort")
    term.processed_for = lambda env, actions: 90.0 * actions
    with pytest.raises(LabError, match="'cart_effort'.*processed_for"):
        runner.iterate()


def _is_right(env) -> torch.Tensor:
    return (env.scene["robot"].data.joint_pos[:, 0] > 0.0).float()


def _effort(env) -> torch.Tensor:
    return env.scene["robot"].data.applied_effort.square().sum(-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "agent.horizon must be at least 1, got 0"),
        ({"gamma": 1.5}, "agent.gamma must be in 0 .. 1"),
        ({"learning_rate": 0.0}, "agent.learning_rate must be positive"),
        ({"precision": "fp8"}, r"agent.precision: got 'fp8' .*'fp32', 'tf32', 'bf16'"),
        ({"warmup_steps": 4}, "agent.warmup_steps must be at least the 8 steps of a window"),
        ({"world_model": {"horizon": 0}}, "agent.world_model.horizon must be at least 1"),
        ({"world_model": {"failure_share": 0.8, "newest_share": 0.3}}, "add up to more than 1"),
        ({"exploration": ()}, "agent.exploration"),
        ({"max_state_gradient": -1.0}, "agent.max_state_gradient"),
    ],
)
def test_impossible_settings_are_named(settings, changes, message):
    with pytest.raises(ConfigError, match=message):
        SuperMimicAlgorithm().check(settings(**changes))


def test_default_settings_are_possible(settings):
    check_supermimic_cfg(replace(settings()))
    check_supermimic_cfg(SuperMimicAlgorithm.cfg_type())


@pytest.mark.gpu
def test_captured_updates_are_those_that_are_called(cart_cfg, settings):
    runners = [
        SuperMimicRunner(cart_cfg(64).build("cuda"), settings(captured=captured, precision="fp32"))
        for captured in (True, False)
    ]
    for runner in runners:
        runner.iterate()
    captured, called = (runner.state_dict()["policy"]["actor"] for runner in runners)
    for name, value in captured.items():
        torch.testing.assert_close(value, called[name], rtol=1e-3, atol=1e-4)
    memory = []
    for _ in range(6):
        runners[0].iterate()
        memory.append(torch.cuda.memory_allocated())
    assert memory[-1] <= 1.01 * memory[2]


@pytest.mark.gpu
def test_updates_do_not_wait_for_the_device(cart_cfg, settings):
    runner = SuperMimicRunner(cart_cfg(64).build("cuda"), settings())
    for _ in range(3):
        runner.iterate()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            runner.task.refresh()
            runner.fit.update()
            runner.policy_update.update()
    finally:
        torch.cuda.set_sync_debug_mode("default")
