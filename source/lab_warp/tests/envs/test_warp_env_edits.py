"""Changes of running terms."""

from __future__ import annotations

import copy
import dataclasses
import gc
import weakref
from typing import Any

import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ManagerTermBase,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TermError,
)
from lab_core.signals import ConstantNoiseCfg, NoiseWithBiasCfg, UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, step_report
from lab_warp.twins import twin_of

N = 6


def cartpole(episode_length_s: float = 5.0) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(N, episode_length_s)
    for event in cfg.events.values():
        assert event is not None
        event.params |= {"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)}
    return cfg


def make(cfg: ManagerBasedRLEnvCfg | None = None, device: str = "cpu") -> ManagerBasedRLEnvWarp:
    return ManagerBasedRLEnvWarp(cfg or cartpole(), device)


def step(env: ManagerBasedRLEnvWarp, times: int = 1) -> tuple[Any, ...]:
    """Returns what the last of these steps returns."""
    return [env.step(torch.zeros(env.num_envs, 1, device=env.device)) for _ in range(times)][-1]


def captures(env: ManagerBasedRLEnvWarp) -> int:
    return step_report(env).num_captures


def test_terms_with_one_function_keep_their_own_ranges(device):
    """And a changed range acts on the next event, with a new capture."""
    env = make(device=device)
    for name, value in (("reset_cart", 0.5), ("reset_pole", -0.25)):
        cfg = copy.deepcopy(env.event_manager.get_term_cfg(name))
        cfg.params["position_range"] = (value, value)
        env.event_manager.set_term_cfg(name, cfg)
    env.reset()
    expected = torch.tensor([0.5, -0.25], device=device).expand(N, 2)
    assert torch.equal(env.scene["robot"].data.joint_pos, expected)
    step(env)
    env.scene["robot"].data.joint_pos[:, 0] = 10.0
    step(env)
    assert torch.equal(env.scene["robot"].data.joint_pos, expected)


def test_a_new_interval_acts_without_a_new_capture():
    cfg = cartpole()
    cart = SceneEntityCfg(joint_names=("slider_to_cart",))
    params = {"position_range": (1.0, 1.0), "velocity_range": (0.0, 0.0), "asset_cfg": cart}
    cfg.events["jump"] = EventTermCfg(
        func=mdp.reset_joints_by_offset, mode="interval", interval_range_s=(4.0, 4.0), params=params
    )
    env = make(cfg)
    step(env, 3)
    assert (env.scene["robot"].data.joint_pos[:, 0] < 0.5).all()
    cfg = dataclasses.replace(env.event_manager.get_term_cfg("jump"), interval_range_s=(env.step_dt, env.step_dt))
    env.event_manager.set_term_cfg("jump", cfg)
    step(env)
    assert (env.scene["robot"].data.joint_pos[:, 0] == 1.0).all()
    assert captures(env) == 1


def test_a_weight_raised_from_zero_runs_its_term(device):
    """One new capture when it leaves 0, none when it comes back or changes."""
    cfg = cartpole()
    cfg.rewards = {"cart": RewardTermCfg(func=mdp.joint_pos_target_l2, weight=0.0, params=_cart_target(2.0))}
    env = make(cfg, device)
    _, reward, *_ = step(env)
    assert not reward.any()
    for weight, number in ((3.0, 2), (6.0, 2), (0.0, 2), (-1.0, 2)):
        term = dataclasses.replace(env.reward_manager.get_term_cfg("cart"), weight=weight)
        env.reward_manager.set_term_cfg("cart", term)
        env.reset()
        _, reward, *_ = step(env)  # the cart stays at 0, 2 m from its target
        expected = torch.full((N,), weight * 4.0 * env.step_dt, device=device)
        torch.testing.assert_close(reward, expected)
        torch.testing.assert_close(env.reward_manager._episode_sums.squeeze(1), expected)
        assert captures(env) == number


def _cart_target(target: float) -> dict[str, Any]:
    return {"target": target, "asset_cfg": SceneEntityCfg(joint_names=("slider_to_cart",))}


@pytest.mark.parametrize(
    "manager", ["reward", "event", "termination", "observation", "curriculum", "metrics", "action", "command"]
)
def test_a_term_set_to_its_own_configuration_captures_and_changes_nothing(manager):
    """With every kind of term that has a memory, timers and draws."""
    results = []
    for sets in (True, False):
        env = make(eventful())
        rollout(env, 20)
        terms = getattr(env, f"{manager}_manager")
        assert terms.term_names
        for name in terms.term_names if sets else ():
            terms.set_term_cfg(name, terms.get_term_cfg(name))
            terms.set_term_cfg(name, copy.deepcopy(terms.get_term_cfg(name)))
        results.append(rollout(env, 20, seed=1))
        assert [report.num_captures for report in env.capture_report()] == [1, 1, 1]
    assert_same_results(*results)


def eventful() -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(N, 0.2)
    cfg.curriculum["weight"] = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "alive", "weight": 2.0, "num_steps": 5}
    )
    cfg.commands["idle"] = mdp.NullCommandCfg(resampling_time_range=(0.02, 0.1))
    for name, is_global in (("own", False), ("shared", True)):
        params = {"position_range": (-0.1, 0.1), "velocity_range": (-0.1, 0.1)}
        cfg.events[name] = EventTermCfg(
            func=mdp.reset_joints_by_offset,
            mode="interval",
            interval_range_s=(0.02, 0.1),
            is_global_time=is_global,
            params=params,
        )
    cfg.rewards["calls"] = RewardTermCfg(func=count_calls, weight=1.0)
    policy = cfg.observations["policy"]
    policy.enable_corruption = True
    policy.terms["joint_pos_rel"].noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    bias = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    policy.terms["joint_vel_rel"].noise = NoiseWithBiasCfg(noise=ConstantNoiseCfg(bias=0.0), bias=bias)
    policy.terms["joint_vel_rel"].history_length = 2
    return cfg


class count_calls(ManagerTermBase):
    """How often it was asked."""

    def __init__(self, cfg: RewardTermCfg, env: Any) -> None:
        super().__init__(cfg, env)
        self.calls = torch.zeros(env.num_envs, device=env.device)

    def __call__(self, env: Any) -> torch.Tensor:
        return self.calls.add_(1.0)


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_class_term_rests_while_its_weight_is_0(frontend):
    cfg = cartpole()
    cfg.rewards = {"calls": RewardTermCfg(func=count_calls, weight=1.0)}
    env = make_env(cfg, frontend=frontend)
    rewards = []
    for weight in (1.0, 1.0, 0.0, 0.0, 1.0, 1.0):
        env.reward_manager.weights = {"calls": weight}
        rewards.append(env.step(torch.zeros(N, 1))[1][0].item() / env.step_dt)
    assert rewards == pytest.approx([1.0, 2.0, 0.0, 0.0, 3.0, 4.0])


def test_a_curriculum_that_sets_a_weight_at_every_reset_captures_nothing_anew():
    cfg = cartpole(0.2)
    cfg.curriculum["cart_vel"] = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "cart_vel", "weight": -0.005, "num_steps": 20}
    )
    env = make(cfg)
    rollout(env, 60)
    assert captures(env) == 1
    column = env.reward_manager.term_names.index("cart_vel")
    speed = env.scene["robot"].data.joint_vel[:, 0].abs()
    kept = env.episode_length_buf > 0
    torch.testing.assert_close(env.reward_manager.step_reward[kept, column], -0.005 * speed[kept])
    assert env.extras["log"]["Curriculum/cart_vel"] == pytest.approx(-0.005)


def one(env: Any, mask: torch.Tensor) -> float:
    return 1.0


def two(env: Any, mask: torch.Tensor) -> float:
    return 2.0


@twin_of(two)
def two_warp(env: Any, mask: wp.array, out: wp.array) -> None:
    out.fill_(2.0)


def test_a_curriculum_term_that_gets_a_twin_logs_on():
    cfg = cartpole()
    cfg.curriculum["level"] = CurriculumTermCfg(func=one)
    env = make(cfg)
    for func, value in ((one, 1.0), (two, 2.0), (one, 1.0)):
        env.curriculum_manager.set_term_cfg("level", CurriculumTermCfg(func=func))
        env.reset()
        step(env)
        assert env.extras["log"]["Curriculum/level"] == value


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_curriculum_acts_in_the_step_that_it_names(frontend):
    cfg = cartpole()
    cfg.curriculum["alive"] = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "alive", "weight": 2.0, "num_steps": 3}
    )
    env = make_env(cfg, frontend=frontend)
    weights = []
    for _ in range(4):
        env.step(torch.zeros(N, 1))
        weights.append(env.reward_manager.weights["alive"])
    assert weights == [1.0, 1.0, 2.0, 2.0]


def test_a_minimum_between_resets_acts_at_once():
    """It lies on the device, so that not even one new capture is needed."""
    cfg = cartpole()
    cfg.events["reset_cart"].params["position_range"] = (0.5, 0.5)
    env = make(cfg)
    step(env, 6)
    data = env.scene["robot"].data
    term = env.event_manager.get_term_cfg("reset_cart")
    env.event_manager.set_term_cfg("reset_cart", dataclasses.replace(term, min_step_count_between_reset=1000))
    last = env.event_manager._last_step["reset_cart"]
    before = last.clone()
    data.joint_pos[:, 0] = 10.0
    step(env)
    assert torch.equal(last, before) and not data.joint_pos[:, 0].any()  # the default state, and nothing drawn
    env.event_manager.set_term_cfg("reset_cart", term)
    data.joint_pos[:, 0] = 10.0
    step(env)
    assert (last == env.step_count).all() and (data.joint_pos[:, 0] == 0.5).all()
    assert captures(env) == 1


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_events_without_a_pause_act_at_every_reset_also_when_the_counter_was_set_back(frontend):
    cfg = cartpole()
    cfg.events["reset_cart"].params["position_range"] = (0.5, 0.5)
    env = make_env(cfg, frontend=frontend)
    cart = env.scene["robot"].data.joint_pos[:, 0]
    for counter in (100, 0):
        env.step_count = counter
        cart.fill_(10.0)
        env.step(torch.zeros(N, 1))
        assert (cart == 0.5).all()


def test_noise_clip_and_scale_change_without_a_new_capture(device):
    cfg = cartpole()
    cfg.observations["policy"].enable_corruption = True
    env = make(cfg, device)
    step(env)
    term = copy.deepcopy(env.observation_manager.get_term_cfg("policy/joint_pos_rel"))
    term.noise, term.clip, term.scale = ConstantNoiseCfg(bias=3.0), (-1.0, 2.0), (10.0, 100.0)
    env.observation_manager.set_term_cfg("policy/joint_pos_rel", term)
    obs, *_ = step(env)
    assert torch.equal(obs["policy"][:, :2], torch.tensor([20.0, 200.0], device=device).expand(N, 2))
    assert captures(env) == 1


@pytest.mark.parametrize("in_place", [True, False])
def test_noise_with_a_memory_in_place_of_none_acts_too(in_place, device):
    cfg = cartpole()
    cfg.observations["policy"].enable_corruption = True
    cfg.observations["policy"].terms["joint_pos_rel"].noise = None
    env = make(cfg, device)
    step(env)
    noise = NoiseWithBiasCfg(noise=ConstantNoiseCfg(bias=1.0), bias=ConstantNoiseCfg(bias=4.0))
    term = env.observation_manager.get_term_cfg("policy/joint_pos_rel")
    if in_place:
        term.noise = noise
    else:
        env.observation_manager.set_term_cfg("policy/joint_pos_rel", dataclasses.replace(term, noise=noise))
    obs, *_ = step(env)
    assert torch.equal(obs["policy"][:, :2], env.scene["robot"].data.joint_pos + 5.0)
    assert captures(env) == 2
    assert "observation term 'policy/joint_pos_rel': its memory" in step_report(env).islands


def test_parameters_of_a_term_change_with_one_new_capture(device):
    env = make(device=device)
    step(env, 2)
    term = copy.deepcopy(env.termination_manager.get_term_cfg("cart_out_of_bounds"))
    term.params["bounds"] = (-1e-9, -1e-9)
    env.termination_manager.set_term_cfg("cart_out_of_bounds", term)
    _, _, terminated, *_ = step(env)
    assert terminated.all()
    assert captures(env) == 2
    term.time_out = True
    env.termination_manager.set_term_cfg("cart_out_of_bounds", term)
    _, _, terminated, truncated, _ = step(env)
    assert truncated.all() and not terminated.any()
    assert captures(env) == 2


def test_what_a_capture_uses_lives_until_the_next_one():
    """A graph on a GPU does not keep the index tensors of replaced parameters."""
    env = make()
    step(env)
    term = env.observation_manager.get_term_cfg("policy/joint_pos_rel")
    used = weakref.ref(term.params["asset_cfg"])
    term = copy.deepcopy(term)
    term.params["asset_cfg"] = SceneEntityCfg(joint_names=("cart_to_pole", "slider_to_cart"), preserve_order=True)
    env.observation_manager.set_term_cfg("policy/joint_pos_rel", term)
    assert used() is not None
    step(env)
    gc.collect()
    assert used() is None


def test_the_scale_of_an_action_changes_without_a_new_capture(device):
    env = make(device=device)
    action = torch.ones(N, 1, device=device)
    env.step(action)
    env.action_manager.set_term_cfg(
        "cart_effort", dataclasses.replace(env.action_manager.get_term_cfg("cart_effort"), scale=7.0)
    )
    env.step(action)
    assert (env.action_manager.get_term("cart_effort").processed_actions == 7.0).all()
    assert captures(env) == 1


def test_a_torch_function_in_place_of_a_twin_is_captured_around():
    env = make()
    step(env)
    term = dataclasses.replace(
        env.reward_manager.get_term_cfg("alive"), func=lambda env: torch.full((env.num_envs,), 5.0), params={}
    )
    env.reward_manager.set_term_cfg("alive", term)
    step(env)
    assert (env.reward_manager.step_reward[:, 0] == 5.0).all()
    assert "reward term 'alive': no Warp twin" in step_report(env).islands


class seen(ManagerTermBase):
    """How often each environment was seen in its episode, twice: without a twin."""

    def __init__(self, cfg: ObservationTermCfg, env: Any) -> None:
        super().__init__(cfg, env)
        self.times = torch.zeros(env.num_envs, 2, device=env.device)

    def __call__(self, env: Any) -> torch.Tensor:
        return self.times.add_(1.0).clone()

    def reset(self, mask: torch.Tensor) -> None:
        self.times[mask] = 0.0


class seen_too(seen):
    """The same with a twin, which an observation with a memory does not use."""


@twin_of(seen_too)
class SeenTooWarp(seen):
    def __call__(self, env: Any, out: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise AssertionError("the end of a step could not be observed without a trace")


@pytest.mark.parametrize("func", [seen, seen_too])
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_an_observation_with_a_memory_in_place_of_one_without(frontend, func):
    """It sees each step once, though the end of the step is observed too, and other environments' resets not at all.
    Back again, the term is captured as before."""
    cfg = cartpole()
    cfg.compute_final_obs = True
    env = make_env(cfg, frontend=frontend)
    env.step(torch.zeros(N, 1))
    term = env.observation_manager.get_term_cfg("policy/joint_pos_rel")
    env.observation_manager.set_term_cfg("policy/joint_pos_rel", ObservationTermCfg(func=func))
    times = [env.step(torch.zeros(N, 1))[0]["policy"][0, 0] for _ in range(3)]
    env.reset(mask=[1])
    obs, *_ = env.step(torch.zeros(N, 1))
    assert [*times, *obs["policy"][:2, 0]] == [1.0, 2.0, 3.0, 4.0, 2.0]
    env.observation_manager.set_term_cfg("policy/joint_pos_rel", term)
    obs, *_ = env.step(torch.zeros(N, 1))
    assert torch.equal(obs["policy"][:, :2], env.scene["robot"].data.joint_pos)
    if isinstance(env, ManagerBasedRLEnvWarp):
        assert not any("joint_pos_rel" in island for island in step_report(env).islands)


def test_whether_torch_code_may_be_captured_can_change():
    env = make()
    func = torch.ones
    cfg = RewardTermCfg(func=lambda env: func(env.num_envs, device=env.device), weight=1.0)
    env.reward_manager.set_term_cfg("alive", cfg)
    step(env)
    assert "reward term 'alive': no Warp twin" in step_report(env).islands
    env.reward_manager.set_term_cfg("alive", dataclasses.replace(cfg, capturable=True))
    step(env)
    (island,) = [island for island in step_report(env).islands if "alive" in island]
    assert island == "reward term 'alive': no Warp twin (torch cannot be captured on the CPU)"


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_scale_of_another_length_is_refused(frontend):
    env = make_env(cartpole(), frontend=frontend)
    env.observation_manager.get_term_cfg("policy/joint_pos_rel").scale = [1.0, 2.0, 3.0]
    with pytest.raises(TermError, match="'policy/joint_pos_rel': scale has 3 values, the term has 2 components"):
        env.step(torch.zeros(N, 1))
