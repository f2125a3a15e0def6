"""Tasks as gymnasium ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from lab_core import registry
from lab_core.errors import PluginError
from lab_core.gym_registration import register_gymnasium_ids
from lab_core.registry import TaskSpec, register_task


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
