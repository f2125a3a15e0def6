from __future__ import annotations

import gymnasium
import pytest
import torch

from lab_core.errors import LabError
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import RslRlEnv


@pytest.fixture
def env():
    env = analytic_cartpole_env_cfg(num_envs=4).build("cpu")
    yield env
    env.close()


def test_observations_are_fresh_memory_in_every_step(env):
    adapter = RslRlEnv(env)
    kept, copies = [], []
    for _ in range(3):
        observations = adapter.step(torch.ones(4, 1))[0]["policy"]
        kept.append(observations)
        copies.append(observations.clone())
    assert all(torch.equal(*pair) for pair in zip(kept, copies, strict=True))
    assert not torch.equal(kept[0], kept[1])


def test_static_buffer_of_an_environment_is_not_passed_on(env, monkeypatch):
    buffer = torch.zeros(4, 4)
    monkeypatch.setattr(env, "_compute_observations", lambda update_history: {"policy": buffer.add_(1.0)})
    adapter = RslRlEnv(env)
    first = adapter.get_observations()["policy"]
    adapter.step(torch.zeros(4, 1))
    assert torch.equal(first, torch.ones(4, 4))


def test_step_returns_what_rsl_rl_expects(env):
    adapter = RslRlEnv(env)
    observations, reward, dones, extras = adapter.step(torch.zeros(4, 1))
    assert observations.batch_size == (4,) and observations["policy"].shape == (4, 4)
    assert reward.shape == (4,) and dones.shape == (4,) and dones.dtype == torch.int64
    assert {"log", "reset_count", "time_outs", "final_obs"} <= extras.keys()
    assert adapter.num_actions == 1 and adapter.max_episode_length == 300 and adapter.cfg is env.cfg


def test_end_of_episode_is_done_however_it_ends(env):
    adapter = RslRlEnv(env)
    env.episode_length_buf.fill_(0)
    env.episode_length_buf[1] = env.max_episode_length - 1
    env.scene["robot"].data.joint_pos[2, 0] = 3.5
    _, _, dones, extras = adapter.step(torch.zeros(4, 1))
    assert dones.tolist() == [0, 1, 1, 0]
    assert extras["time_outs"].tolist() == [False, True, False, False]


def test_assigning_episode_lengths_keeps_the_buffer(env):
    adapter = RslRlEnv(env)
    address = env.episode_length_buf.data_ptr()
    adapter.episode_length_buf = torch.arange(4)
    assert env.episode_length_buf.data_ptr() == address
    assert env.episode_length_buf.tolist() == [0, 1, 2, 3]


def test_resets_once_at_construction_and_never_in_a_step(env, monkeypatch):
    calls = []
    reset = env.reset
    monkeypatch.setattr(env, "reset", lambda: calls.append(1) or reset())
    adapter = RslRlEnv(env)
    for _ in range(3):
        adapter.step(torch.zeros(4, 1))
        adapter.get_observations()
    assert len(calls) == 1


def test_actions_are_clipped_before_the_environment_sees_them(env):
    adapter = RslRlEnv(env, clip_actions=0.5)
    adapter.step(torch.tensor([[2.0], [-2.0], [0.25], [0.5]]))
    assert env.action_manager.action.flatten().tolist() == [0.5, -0.5, 0.25, 0.5]


def test_wrapped_environment_is_refused(env):
    with pytest.raises(LabError, match="TimeLimit"):
        RslRlEnv(gymnasium.vector.VectorWrapper(env))  # pyright: ignore[reportArgumentType]


def test_unknown_group_names_those_that_exist(env):
    with pytest.raises(LabError, match=r"unknown observation group 'polcy'.*Did you mean 'policy'"):
        RslRlEnv(env, ["polcy"])


def test_group_of_separate_terms_is_refused():
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    cfg.observations["policy"].concatenate_terms = False
    with pytest.raises(LabError, match="'policy' is kept as separate terms; .* concatenate_terms=True"):
        RslRlEnv(cfg.build("cpu"))


def test_rsl_rl_runner_trains_on_the_adapter(env):
    from rsl_rl.runners import OnPolicyRunner

    from lab_core.agents import PPOCfg
    from lab_rl.algorithms.ppo import rsl_rl_cfg

    settings = rsl_rl_cfg(PPOCfg(num_steps_per_env=4, actor_hidden_dims=(8,), critic_hidden_dims=(8,)))
    runner = OnPolicyRunner(RslRlEnv(env), settings, log_dir=None, device="cpu")
    before = [parameter.clone() for parameter in runner.alg.actor.parameters()]
    runner.learn(1, init_at_random_ep_len=True)
    assert any(not torch.equal(*pair) for pair in zip(before, runner.alg.actor.parameters(), strict=True))
