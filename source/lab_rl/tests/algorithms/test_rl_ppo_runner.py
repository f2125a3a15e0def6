from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core.agents import PPOCfg
from lab_core.envs import DirectRLEnv, DirectRLEnvCfg
from lab_core.errors import ConfigError, LabError
from lab_core.managers import RewardTermCfg
from lab_core.physics import HealthReport
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.algorithms.ppo.finite import NonFiniteError


@dataclass(kw_only=True)
class CountingEnvCfg(DirectRLEnvCfg):
    """Reward 1; the observation is the age of the episode; even worlds die at ``death_age``, odd ones live on."""

    num_actions: int = 1
    num_observations: int = 1
    death_age: int = 1_000_000

    def build(self, device: str | torch.device = "cpu") -> CountingEnv:
        return CountingEnv(self, device)


class CountingEnv(DirectRLEnv):
    cfg: CountingEnvCfg

    def _setup(self) -> None:
        self.even = torch.arange(self.num_envs) % 2 == 0

    def _apply_actions(self) -> None:
        pass

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": self.episode_length_buf.float().unsqueeze(-1)}

    def _get_rewards(self) -> torch.Tensor:
        return torch.ones(self.num_envs)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        died = self.even & (self.episode_length_buf >= self.cfg.death_age)
        return died, self.episode_length_buf >= self.max_episode_length

    def _reset_state(self, mask: torch.Tensor) -> None:
        pass

    def _reset_buffers(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        return {"Metrics/resets": mask.float().sum()}


def counting_env_cfg(num_envs: int = 4, max_length: int = 3, **changes) -> CountingEnvCfg:
    cartpole = analytic_cartpole_env_cfg(num_envs=num_envs)
    return CountingEnvCfg(
        physics=cartpole.physics,
        scene=cartpole.scene,
        decimation=2,
        episode_length_s=max_length / 60,
        **changes,
    )


AGENT = PPOCfg(
    num_steps_per_env=4,
    actor_hidden_dims=(8,),
    critic_hidden_dims=(1,),
    activation="relu",
    num_learning_epochs=2,
    num_mini_batches=2,
    gamma=0.9,
)


def make_runner(env_cfg: DirectRLEnvCfg, slope: float = 0.0, constant: float = 0.0, **changes) -> PPORunner:
    """A runner whose critic is V(s) = slope * s + constant for s >= 0."""
    runner = PPORunner(env_cfg.build("cpu"), replace(AGENT, **changes))
    with torch.no_grad():
        for parameter, value in zip(runner.alg.critic.mlp.parameters(), (1.0, 0.0, slope, constant), strict=True):
            parameter.fill_(value)
    return runner


def rollout(runner: PPORunner) -> None:
    with torch.inference_mode():
        runner._collect()
        runner.alg.compute_returns(runner.adapter.get_observations())


def test_time_out_bootstraps_with_the_value_of_the_final_observation():
    runner = make_runner(counting_env_cfg(max_length=3), slope=10.0)
    rollout(runner)
    # Steps reach ages 1, 2, 3 (time-out, final observation 3), 1. V of the observation before the time-out is 20.
    assert runner.alg.storage.rewards[:, 0, 0].tolist() == pytest.approx([1.0, 1.0, 1.0 + 0.9 * 30.0, 1.0])
    assert runner.alg.storage.dones[:, 0, 0].tolist() == [0, 0, 1, 0]


def test_death_does_not_bootstrap():
    runner = make_runner(counting_env_cfg(max_length=100, death_age=3), slope=10.0)
    rollout(runner)
    assert runner.alg.storage.rewards[:, 0, 0].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert runner.alg.storage.dones[:, :2, 0].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0]]


def test_death_at_the_moment_of_the_time_out_does_not_bootstrap():
    runner = make_runner(counting_env_cfg(max_length=3, death_age=3), slope=10.0)
    rollout(runner)
    assert runner.alg.storage.rewards[2, :, 0].tolist() == pytest.approx([1.0, 28.0, 1.0, 28.0])


def test_finite_horizon_does_not_bootstrap():
    runner = make_runner(counting_env_cfg(max_length=3, is_finite_horizon=True), slope=10.0)
    rollout(runner)
    assert torch.all(runner.alg.storage.rewards == 1.0)


def test_advantages_of_a_true_value_function_are_zero_across_time_outs_and_negative_before_death():
    # Reward 1 for ever is worth 1 / (1 - gamma) = 10.
    runner = make_runner(counting_env_cfg(max_length=3, death_age=2), constant=10.0)
    rollout(runner)
    advantage = runner.alg.storage.returns - runner.alg.storage.values
    lives_on, dies = advantage[:, 1, 0], advantage[:, 0, 0]
    assert lives_on.abs().max() < 1e-5
    assert dies[1] == pytest.approx(1.0 - 10.0) and dies[0] < -1.0


def test_final_observations_are_required_unless_the_horizon_is_finite():
    with pytest.raises(ConfigError, match=r"env\.compute_final_obs"):
        make_runner(counting_env_cfg(compute_final_obs=False))
    rollout(make_runner(counting_env_cfg(compute_final_obs=False, is_finite_horizon=True)))


def test_looking_at_final_observations_disturbs_neither_normaliser_nor_memory():
    from rsl_rl.models import RNNModel

    runner = make_runner(counting_env_cfg(max_length=1), obs_normalization=True, captured=False)
    critic = RNNModel(
        runner.adapter.get_observations(), {"critic": ["policy"]}, "critic", 1, hidden_dims=[4], rnn_hidden_dim=3
    )
    extras = {"final_obs": {"policy": torch.ones(4, 1)}, "time_outs": torch.ones(4, dtype=torch.bool)}
    with torch.inference_mode():
        critic(runner.adapter.get_observations())
        runner.alg.critic = critic
        before = [tensor.clone() for tensor in critic.get_hidden_state()]
        first, second = (runner._rollout._value_of_time_outs(extras) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(before, critic.get_hidden_state(), strict=True))
    assert torch.equal(first, second)
    assert runner.alg.actor.obs_normalizer.count == 0


def test_iteration_reports_episodes_and_logs():
    runner = make_runner(counting_env_cfg(max_length=3))
    first = runner.iterate()
    assert (first.number, first.env_steps, first.reward, first.episode_length) == (1, 16, 3.0, 3.0)
    assert first.scalars["Train/episodes"] == 4 and first.scalars["Metrics/resets"] == 4
    assert {"Loss/value", "Loss/surrogate", "Loss/entropy", "Policy/mean_std", "Perf/total_fps"} <= first.scalars.keys()
    assert all(math.isfinite(value) for value in first.scalars.values())


def test_an_iteration_is_its_parts_and_waiting_lies_within_them(monkeypatch):
    """Also reading the health of the physics, which waits for the device, is part of the iteration."""
    runner = make_runner(counting_env_cfg())
    health = runner.env.health
    monkeypatch.setattr(runner.env, "health", lambda: time.sleep(0.2) or health())
    began = time.perf_counter()
    iteration = runner.iterate()
    whole, scalars = time.perf_counter() - began, iteration.scalars
    parts = scalars["Perf/collection_time"] + scalars["Perf/learning_time"]
    assert parts == pytest.approx(whole, abs=0.05)
    assert iteration.steps_per_second == scalars["Perf/total_fps"] == pytest.approx(16 / parts)
    assert 0.2 <= scalars["Perf/waiting_time"] < parts


def test_no_episode_ended_yet():
    runner = make_runner(counting_env_cfg(max_length=100))
    first = runner.iterate()
    assert first.reward is None and first.episode_length is None
    assert "Metrics/resets" not in first.scalars and "Train/mean_reward" not in first.scalars


def test_random_ages_spread_the_time_outs():
    runner = make_runner(counting_env_cfg(num_envs=64, max_length=50))
    runner.randomize_episode_ages()
    ages = runner.env.episode_length_buf
    assert ages.min() >= 0 and ages.max() < 50 and len(ages.unique()) > 20


class NoHostReads(TorchDispatchMode):
    """Raises where a GPU would have to be waited for."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        if any(word in name for word in ("_local_scalar_dense", "nonzero", "equal.default", "is_nonzero")):
            raise AssertionError(f"{name} waits for the device")
        return func(*args, **(kwargs or {}))


def test_collecting_never_waits_for_the_device():
    runner = make_runner(counting_env_cfg(max_length=3), obs_normalization=True)
    runner.env._action_check._raise_at_once = False  # as on a GPU
    with torch.inference_mode(), NoHostReads():
        runner._collect()
        runner.alg.compute_returns(runner.adapter.get_observations())
        runner.episodes.update(runner._rollout.rewards, runner.alg.storage.dones.squeeze(-1).bool())
    with pytest.raises(AssertionError, match="waits for the device"), NoHostReads():
        torch.ones(1).item()


def cartpole_runner(num_envs: int = 4, device: str = "cpu") -> PPORunner:
    return PPORunner(analytic_cartpole_env_cfg(num_envs=num_envs).build(device), AGENT)


def parameters(runner: PPORunner) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in runner.alg.actor.parameters()]


def test_bad_observation_is_named_with_its_term_before_it_reaches_the_networks(monkeypatch):
    runner = cartpole_runner()
    env = runner.env
    compute = env._compute_observations

    def broken(update_history: bool):
        observations = compute(update_history)
        observations["policy"][2, 3] = float("nan")
        return observations

    runner.iterate()
    before = parameters(runner)
    monkeypatch.setattr(env, "_compute_observations", broken)
    with pytest.raises(
        NonFiniteError,
        match=r"Iteration 2: observation group 'policy' \(term 'joint_vel_rel'\) is not finite in 1 of 4 environments "
        r"\(2\)",
    ):
        runner.iterate()
    assert all(torch.equal(*pair) for pair in zip(before, parameters(runner), strict=True))
    assert runner.iteration == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_bad_reward_is_named(monkeypatch, value):
    runner = make_runner(counting_env_cfg())
    rewards = torch.tensor([1.0, value, 1.0, value])
    monkeypatch.setattr(runner.env, "_get_rewards", lambda: rewards)
    with pytest.raises(
        NonFiniteError, match=r"the reward is not finite in 2 of 4 environments \(1, 3\), first in step 0"
    ):
        runner.iterate()


def test_bad_reward_is_named_with_its_term():
    def broken(env) -> torch.Tensor:
        return torch.where(torch.arange(4) == 1, math.inf if env.step_count == 6 else 0.0, 1.0)

    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.rewards["broken"] = RewardTermCfg(func=broken)
    runner = PPORunner(cfg.build("cpu"), AGENT)
    runner.iterate()
    with pytest.raises(
        NonFiniteError, match=r"Iteration 2: the reward \(term 'broken'\) is not finite in 1 of 4 environments \(1\)"
    ):
        runner.iterate()


def test_bad_policy_output_is_named():
    runner = make_runner(counting_env_cfg())
    with torch.no_grad():
        runner.alg.actor.mlp[0].weight.fill_(float("inf"))
    with pytest.raises(NonFiniteError, match="the policy's action is not finite in 4 of 4 environments"):
        runner.iterate()


def test_bad_critic_is_named():
    runner = make_runner(counting_env_cfg(max_length=100), constant=float("nan"))
    with pytest.raises(NonFiniteError, match="the critic's value is not finite"):
        runner.iterate()


def test_bad_final_observation_is_named(monkeypatch):
    runner = make_runner(counting_env_cfg(max_length=3))
    env = runner.env
    compute = env._compute_observations
    monkeypatch.setattr(
        env,
        "_compute_observations",
        lambda update_history: compute(update_history) if update_history else {"policy": torch.full((4, 1), torch.nan)},
    )
    with pytest.raises(
        NonFiniteError, match=r"critic's value of a final observation is not finite.*first in step 2 of 4"
    ):
        runner.iterate()


@pytest.mark.parametrize("captured", [True, False])
def test_failed_update_is_named(monkeypatch, captured):
    runner = make_runner(counting_env_cfg(), captured=captured)
    update = runner.alg.update if runner._update is None else runner._update

    def broken():
        losses = update()
        with torch.no_grad():
            runner.alg.actor.mlp[0].weight[0] = float("nan")
        return losses + torch.tensor([float("inf"), 0.0, 0.0]) if captured else losses | {"value": float("inf")}

    if captured:
        broken.rate, broken.std = update.rate, update.std
        monkeypatch.setattr(runner, "_update", broken)
    else:
        monkeypatch.setattr(runner.alg, "update", broken)
    with pytest.raises(NonFiniteError, match="value loss is inf; the policy has non-finite parameters"):
        runner.iterate()


@pytest.mark.gpu
def test_collecting_on_a_gpu_never_waits_for_it():
    runner = cartpole_runner(num_envs=64, device="cuda:0")
    runner.iterate()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            runner._collect()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_deterministic_runs_on_a_gpu_repeat_bit_for_bit():
    weights = []
    try:
        for _ in range(2):
            cfg = analytic_cartpole_env_cfg(num_envs=64, episode_length_s=0.1)
            cfg.deterministic = True
            runner = PPORunner(cfg.build("cuda:0"), AGENT)
            for _ in range(3):
                runner.iterate()
            weights.append(parameters(runner))
    finally:
        torch.set_deterministic_debug_mode("default")
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))


@pytest.mark.gpu
def test_state_moves_from_a_gpu_to_a_new_runner():
    runner = cartpole_runner(device="cuda:0")
    runner.iterate()
    other = cartpole_runner(device="cuda:0")
    other.load_state_dict(runner.state_dict())
    assert all(torch.equal(*pair) for pair in zip(parameters(runner), parameters(other), strict=True))
    assert other.iterate().number == 2


def test_health_of_the_physics_is_reported(monkeypatch):
    runner = make_runner(counting_env_cfg())
    report = HealthReport(non_finite_envs=3, overflows={"contacts": "raise physics.solver.nconmax to 40"})
    monkeypatch.setattr(runner.env, "health", lambda: report)
    iteration = runner.iterate()
    assert iteration.health is report and iteration.scalars["Physics/non_finite_envs"] == 3


def test_state_continues_bit_for_bit():
    runner = cartpole_runner()
    runner.iterate()
    state = runner.state_dict()
    expected = [runner.iterate().scalars["Loss/value"] for _ in range(3)]
    weights = parameters(runner)
    other = cartpole_runner()
    other.load_state_dict(state)
    assert [other.iterate().scalars["Loss/value"] for _ in range(3)] == expected
    assert all(torch.equal(*pair) for pair in zip(weights, parameters(other), strict=True))
    assert (other.iteration, other.env_steps) == (4, 64)


def test_networks_of_another_size_are_refused():
    state = cartpole_runner().state_dict()
    runner = PPORunner(analytic_cartpole_env_cfg(num_envs=4).build("cpu"), replace(AGENT, actor_hidden_dims=(16,)))
    with pytest.raises(LabError, match=r"stored networks do not fit the settings: .*\n.*size mismatch"):
        runner.load_state_dict(state)


def test_more_mini_batches_than_samples_are_refused():
    with pytest.raises(ConfigError, match="16 steps per iteration cannot be split into 17 mini-batches"):
        make_runner(counting_env_cfg(), num_mini_batches=17)


def test_learning_finds_the_rewarded_action(monkeypatch):
    runner = PPORunner(counting_env_cfg(num_envs=32, max_length=4).build("cpu"), replace(AGENT, learning_rate=1e-2))
    env = runner.env
    monkeypatch.setattr(env, "_get_rewards", lambda: -((env.actions[:, 0] - 1.5) ** 2))
    for _ in range(40):
        runner.iterate()
    with torch.inference_mode():
        mean = runner.alg.get_policy()(runner.adapter.get_observations())
    assert (mean - 1.5).abs().max() < 0.3
