"""Memory, curiosity, symmetry and groups of observations: each trains, resumes bit for bit, and acts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from lab_core.agents import CuriosityCfg, PPOCfg, RecurrentCfg, SymmetryCfg
from lab_core.errors import ConfigError
from lab_core.managers import ObservationGroupCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.algorithms.ppo.algorithm import PPOAlgorithm
from lab_rl.algorithms.ppo.settings import check_ppo_cfg


def mirrored(env: Any, obs: TensorDict | None, actions: torch.Tensor | None) -> tuple[Any, Any]:
    """The cart-pole, left and right exchanged: all that it observes and does changes its sign."""
    assert env.unwrapped.num_envs
    both = None if obs is None else torch.cat([obs, obs.apply(torch.neg)])
    return both, None if actions is None else torch.cat([actions, -actions])


EXTENSIONS: dict[str, dict[str, Any]] = {
    "lstm": {"recurrent": RecurrentCfg(hidden_dim=6, num_layers=2)},
    "gru": {"recurrent": RecurrentCfg(type="gru", hidden_dim=6), "obs_normalization": True},
    "curiosity": {
        "curiosity": CuriosityCfg(
            groups=("policy", "extra"), state_normalization=True, reward_normalization=True, schedule="linear",
            final_step=100, predictor_hidden_dims=(4,), target_hidden_dims=(4,), num_outputs=2,
        )
    },
    "symmetry": {"symmetry": SymmetryCfg(function=mirrored, mirror_loss_coef=0.5)},
    "groups": {"obs_groups": {"actor": ("extra",), "critic": ("policy", "extra")}, "obs_normalization": True},
}  # fmt: skip


def make_cfg(**changes: Any) -> PPOCfg:
    sizes = {"num_steps_per_env": 8, "actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "num_mini_batches": 2}
    return PPOCfg(**{**sizes, **changes})


def make_env(num_envs: int = 6, is_finite_horizon: bool = False):
    cfg = analytic_cartpole_env_cfg(num_envs=num_envs, episode_length_s=0.15)
    cfg.is_finite_horizon = is_finite_horizon
    cfg.observations["extra"] = ObservationGroupCfg(terms=copy.deepcopy(cfg.observations["policy"].terms))
    return cfg.build("cpu")


def weights(runner: PPORunner) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in runner.alg.get_policy().parameters()]


@pytest.mark.parametrize("name", EXTENSIONS)
def test_it_trains_and_goes_on_bit_for_bit(name):
    cfg = make_cfg(**EXTENSIONS[name])
    runner = PPORunner(make_env(), cfg)
    before = weights(runner)
    for _ in range(3):
        runner.iterate()
    state = copy.deepcopy(runner.state_dict())
    assert not all(torch.equal(old, new) for old, new in zip(before, weights(runner), strict=True))
    figures = runner.iterate().scalars
    resumed = PPORunner(make_env(), cfg)
    resumed.load_state_dict(state)
    again = resumed.iterate().scalars
    assert all(torch.equal(old, new) for old, new in zip(weights(resumed), weights(runner), strict=True))
    for loss in (key for key in figures if key.startswith("Loss/")):
        assert figures[loss] == again[loss], loss
    assert {"curiosity": "Loss/rnd", "symmetry": "Loss/symmetry"}.get(name, "Loss/value") in figures


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("lstm", "recurrent networks are not captured"),
        ("curiosity", "random network distillation is not captured"),
        ("symmetry", "mirrored steps are not captured"),
    ],
)
def test_it_takes_the_plain_path_and_says_why(name, why):
    assert why in PPORunner(make_env(), make_cfg(captured=True, **EXTENSIONS[name])).describe()


def test_new_states_are_worth_more_by_the_weight():
    rewards = []
    for weight in (0.0, 50.0):
        torch.manual_seed(0)
        runner = PPORunner(make_env(is_finite_horizon=True), make_cfg(curiosity=CuriosityCfg(weight=weight)))
        with torch.inference_mode():
            runner._collect()
        plain, seen = runner._rollout.rewards, runner.alg.storage.rewards.squeeze(-1)
        rewards.append((seen - plain).mean())
    assert rewards[0] == 0.0 and rewards[1] > 0.0


def test_a_mirrored_policy_learns_to_be_odd():
    torch.manual_seed(0)
    runner = PPORunner(make_env(), make_cfg(symmetry=SymmetryCfg(function=mirrored, mirror_loss_coef=10.0)))
    losses = [runner.iterate().scalars["Loss/symmetry"] for _ in range(12)]
    assert losses[-1] < 0.3 * losses[0]


def test_a_policy_remembers_an_episode_and_forgets_it_at_its_end():
    cfg = make_cfg(recurrent=RecurrentCfg(hidden_dim=6))
    runner = PPORunner(make_env(), cfg)
    runner.iterate()
    env = make_env()
    policy = PPOAlgorithm().load_policy(env, cfg, runner.state_dict())
    with torch.inference_mode():
        first = policy()
        second = policy.act(env.get_observations())  # the same observations a step later
        assert not torch.equal(first, second)
        env.reset()
        policy()
        alone = policy.network.get_hidden_state()[0].clone()
        assert bool((alone != 0).any())
        env.episode_length_buf = torch.arange(6)  # so that they do not end together
        for _ in range(20):
            env.step(policy())
            if bool(env.reset_buf.any()):
                break
        assert bool(env.reset_buf.any())
        began = env.reset_buf.clone()
        policy.forget(env.episode_length_buf == 0)
        memory = policy.network.get_hidden_state()[0]
    assert bool((memory[:, began] == 0).all()) and bool((memory[:, ~began] != 0).any())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recurrent": RecurrentCfg(hidden_dim=0)}, "agent.recurrent.hidden_dim must be at least 1, got 0"),
        ({"symmetry": SymmetryCfg()}, "agent.symmetry.function is missing"),
        ({"symmetry": SymmetryCfg(function=mirrored), "recurrent": RecurrentCfg()}, "do not go together"),
        ({"curiosity": CuriosityCfg(weight=float("inf"))}, "agent.curiosity.weight must be finite"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_ppo_cfg(make_cfg(**changes))


def test_whole_rollouts_need_as_many_environments_as_mini_batches():
    with pytest.raises(ConfigError, match="1 environments cannot be split into 2 mini-batches"):
        PPORunner(make_env(num_envs=1), make_cfg(recurrent=RecurrentCfg()))


def test_groups_that_do_not_exist_are_named():
    with pytest.raises(Exception, match="observation group 'unknown'"):
        PPORunner(make_env(), make_cfg(curiosity=CuriosityCfg(groups=("unknown",))))
