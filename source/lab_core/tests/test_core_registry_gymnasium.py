"""Tasks as gymnasium ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import (
    ArrayConversion,
    FlattenObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

from lab_core import registry
from lab_core.errors import ConfigError, PluginError
from lab_core.gym_registration import register_gymnasium_ids
from lab_core.registry import TaskSpec, register_task
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


@dataclass(kw_only=True)
class SceneCfg:
    num_envs: int = 64


@dataclass(kw_only=True)
class EnvCfg:
    scene: SceneCfg = field(default_factory=SceneCfg)
    seed: int = 42
    play: bool = False

    def build(self, device: str) -> StandInEnv:
        return StandInEnv(self, device)


class StandInEnv(VectorEnv):
    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, cfg: EnvCfg, device: str):
        self.cfg, self.device, self.num_envs = cfg, device, cfg.scene.num_envs
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.fixture
def task_id(monkeypatch):
    """A task that gymnasium and the registry know for one test."""
    monkeypatch.setattr(registry, "_registered_tasks", {})
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    register_task(TaskSpec(id="Stand-In", env_cfg=lambda play=False: EnvCfg(play=play)))
    register_gymnasium_ids()
    return "Stand-In"


def test_make_vec_builds_the_task(task_id):
    env = gymnasium.make_vec(task_id, num_envs=8, device="cpu")
    assert isinstance(env, StandInEnv)
    assert (env.num_envs, env.cfg.seed, env.cfg.play, env.device) == (8, 42, False, "cpu")
    assert env.spec is not None and env.spec.id == task_id


def test_make_vec_takes_seed_and_play(task_id):
    env = gymnasium.make_vec(task_id, num_envs=2, seed=7, device="cpu", play=True)
    assert (env.cfg.seed, env.cfg.play) == (7, True)


def test_ready_config_is_used_and_not_changed(task_id):
    cfg = EnvCfg(seed=5)
    env = gymnasium.make_vec(task_id, num_envs=3, cfg=cfg, device="cpu")
    assert (env.cfg.seed, env.num_envs) == (5, 3)
    assert cfg == EnvCfg(seed=5)


def test_registering_again_is_silent(task_id, recwarn):
    register_gymnasium_ids()
    assert not recwarn.list
    assert task_id in gymnasium.registry


def test_broken_task_is_named_when_it_is_made(task_id):
    register_task(TaskSpec(id=task_id, env_cfg="no_such_module:cfg"))
    with pytest.raises(PluginError, match="environment config of task 'Stand-In'.*no_such_module"):
        gymnasium.make_vec(task_id, num_envs=1, device="cpu")


@pytest.fixture
def cartpole(task_id):
    """Makes vector environments of the cart-pole with a closed-form physics."""
    register_task(TaskSpec(id=task_id, env_cfg=lambda play=False: analytic_cartpole_env_cfg(4, episode_length_s=0.1)))
    return lambda **settings: gymnasium.make_vec(
        task_id, **{"num_envs": 4, "device": "cpu", "frontend": "torch", **settings}
    )


def test_numbers_of_numpy_and_lists_are_as_good(cartpole):
    env = cartpole(num_envs=np.int64(3), seed=np.uint32(7))
    assert (env.num_envs, env.unwrapped.seed) == (3, 7)

    def first(seed):
        return env.reset(seed=seed)[0]["policy"].tolist()

    assert first(np.int64(5)) == first(5) != first(6)
    assert first([1, 2, 3]) == first(np.array([1, 2, 3])) != first([3, 2, 1])
    with pytest.raises(ConfigError, match=r"integer.*got 1\.5"):
        env.reset(seed=1.5)


def test_a_render_mode_may_be_asked_for(cartpole):
    assert cartpole(render_mode="rgb_array").render_mode == "rgb_array"
    with pytest.raises(ConfigError, match="'rgb_array' or None, got 'human'.*lab play"):
        cartpole(render_mode="human")


def test_statistics_wrappers_work_on_converted_arrays(cartpole):
    """Episodes of six steps end together, in the step in which they are reset."""
    env = RecordEpisodeStatistics(ArrayConversion(cartpole(), env_xp=torch, target_xp=np))
    env.reset(seed=1)
    rewards, infos = 0.0, {}
    for _ in range(6):
        _, reward, _, truncated, infos = env.step(np.zeros((4, 1), np.float32))
        rewards = rewards + reward
    assert truncated.all()
    assert infos["episode"]["l"].tolist() == [6, 6, 6, 6]
    np.testing.assert_allclose(infos["episode"]["r"], rewards, rtol=1e-5)
    NormalizeReward(ArrayConversion(cartpole(), env_xp=torch, target_xp=np)).reset(seed=1)


@pytest.mark.parametrize("wrapper", (NormalizeObservation, FlattenObservation))
def test_wrappers_of_observations_refuse_the_reset_within_a_step(cartpole, wrapper):
    """As the guide says: gymnasium cannot change the last observation of an episode, which is among the infos."""
    with pytest.raises(ValueError, match="SAME_STEP"):
        wrapper(ArrayConversion(cartpole(), env_xp=torch, target_xp=np))
