"""Settings of terms that change while an environment runs, and resumed runs."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

from lab_core import mdp
from lab_core.managers import CurriculumTermCfg, SceneEntityCfg
from lab_core.signals import GaussianNoiseCfg, UniformNoiseCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def test_settings_of_terms_that_a_curriculum_changed_are_resumed():
    """Of every manager, also other functions and classes. What was not changed comes from the configuration."""

    def change(env, mask):
        if env.step_count != 3:
            return
        for manager, name, changes in (
            (env.event_manager, "reset_pole", {"params": {"position_range": (-0.01, 0.01)}}),
            (env.termination_manager, "cart_out_of_bounds", {"params": {"bounds": (-0.3, 0.3)}}),
            (env.observation_manager, "policy/joint_pos_rel", {"scale": 3.0, "noise": GaussianNoiseCfg(std=0.1)}),
            (env.observation_manager, "policy/joint_vel_rel", {"params": {"asset_cfg": swapped}}),
            (env.action_manager, "cart_effort", {"scale": 50.0}),
            (env.reward_manager, "pole_pos", {"func": mdp.is_alive, "params": {}, "weight": 0.25}),
        ):
            cfg = copy.deepcopy(manager.get_term_cfg(name))
            if "func" not in changes and "params" in changes:
                changes["params"] = cfg.params | changes["params"]
            manager.set_term_cfg(name, dataclasses.replace(cfg, **changes))

    swapped = SceneEntityCfg(joint_names=["cart_to_pole", "slider_to_cart"], preserve_order=True)

    def build(velocity=(-0.1, 0.1)):
        cfg = analytic_cartpole_env_cfg(num_envs=8, episode_length_s=0.5)
        cfg.events["reset_pole"].params["velocity_range"] = velocity
        cfg.observations["policy"].enable_corruption = True
        cfg.observations["policy"].terms["joint_pos_rel"].noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
        cfg.curriculum["change"] = CurriculumTermCfg(func=change)
        return cfg.build()

    def rollout(env, steps):
        results = []
        for i in range(steps):
            observations, reward, *_, extras = env.step(torch.full((8, 1), (-1.0) ** i))
            results += [observations["policy"], reward, *extras["log"].values()]
        return results

    env, resumed, edited = build(), build(), build((-0.2, 0.2))
    fresh = env.state_dict()
    rollout(env, 10)
    resumed.load_state_dict(env.state_dict())
    edited.load_state_dict(env.state_dict())
    params = edited.event_manager.get_term_cfg("reset_pole").params
    assert (params["position_range"], params["velocity_range"]) == ((-0.01, 0.01), (-0.2, 0.2))
    assert all(torch.equal(a, b) for a, b in zip(rollout(resumed, 50), rollout(env, 50), strict=True))
    resumed.load_state_dict(fresh)
    assert resumed.action_manager.get_term_cfg("cart_effort").scale == 100.0
    assert resumed.event_manager.changed_settings == {}


def test_a_changed_setting_that_has_no_text_form_warns_and_stops_no_checkpoint():
    env, other = (analytic_cartpole_env_cfg(2).build() for _ in range(2))
    cfg = dataclasses.replace(env.reward_manager.get_term_cfg("alive"), func=lambda env: torch.ones(2))
    assert env.reward_manager.changed_settings == {}
    env.reward_manager.set_term_cfg("alive", cfg)
    with pytest.warns(UserWarning, match="changed settings of reward term 'alive' cannot be saved: func: .*a lambda"):
        state = env.state_dict()
    other.load_state_dict(state)
    assert other.reward_manager.get_term_cfg("alive").func is mdp.is_alive


def test_the_later_of_two_changes_of_a_setting_holds_in_a_resumed_run_too():
    """Whatever order the curriculum lists them in."""

    def build():
        cfg = analytic_cartpole_env_cfg(num_envs=2)
        for name, step, bound in (("late", 4, 2.0), ("early", 2, 1.0)):
            params = {"manager_name": "termination", "term_name": "cart_out_of_bounds", "num_steps": step}
            params["changes"] = {"params": {"bounds": (-bound, bound)}}
            cfg.curriculum[name] = CurriculumTermCfg(func=mdp.modify_term_cfg, params=params)
        return cfg.build()

    env, resumed = build(), build()
    for _ in range(6):
        env.step(torch.zeros(2, 1))
        env.reset()
    resumed.load_state_dict(env.state_dict())
    for each in (env, resumed):
        assert each.termination_manager.get_term_cfg("cart_out_of_bounds").params["bounds"] == (-2.0, 2.0)
        each.reset()  # no change is made again
        assert each.termination_manager.get_term_cfg("cart_out_of_bounds").params["bounds"] == (-2.0, 2.0)
