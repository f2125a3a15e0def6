"""The state of an environment: stored, restored, and gone on from bit for bit."""

from __future__ import annotations

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import CurriculumTermCfg, EventTermCfg
from lab_core.sampling import uniform
from lab_core.testing import analytic_cartpole_env_cfg


def make(num_envs: int, episode_length_s: float = 5.0) -> ManagerBasedRLEnv:
    cfg = analytic_cartpole_env_cfg(num_envs)
    cfg.episode_length_s = episode_length_s
    return cfg.build()


def test_stored_state_continues_bit_for_bit():
    def rollout(env: ManagerBasedRLEnv, steps: int) -> list[torch.Tensor]:
        results = []
        for i in range(steps):
            observations, reward, *_, extras = env.step(torch.full((8, 1), (-1.0) ** i))
            results += [observations["policy"], reward, *extras["log"].values()]
        return results

    env = make(8, episode_length_s=0.5)
    rollout(env, 40)
    state = env.state_dict()
    expected = rollout(env, 80)
    fresh = make(8, episode_length_s=0.5)
    rollout(fresh, 7)
    fresh.load_state_dict(state)
    assert fresh.step_count == 40
    assert all(torch.equal(a, b) for a, b in zip(rollout(fresh, 80), expected, strict=True))


def test_what_a_step_makes_anew_is_no_state():
    env = make(8)
    env.step(torch.zeros(8, 1))
    env.reset_ids()
    own = {name for name in env.state_dict()["environment"] if "manager" not in name}
    assert own == {
        *("step_count", "generator", "episode_length_buf", "log.stored_values", "scene.env_origins"),
        *("reset_buf", "reset_terminated", "reset_time_outs", "_observations.policy"),
    }


def test_a_run_goes_on_bit_for_bit_after_a_curriculum_changed_a_term():
    """The change draws new timers, which must not replace those that were stored."""

    def shift(env, mask):
        data = env.scene["robot"].data
        moved = data.joint_vel + uniform(-0.5, 0.5, data.joint_vel.shape, env.generator)
        env.scene["robot"].write_joint_state(data.joint_pos, moved, mask)

    def build():
        cfg = analytic_cartpole_env_cfg(num_envs=4)
        cfg.events["shift"] = EventTermCfg(func=shift, mode="interval", interval_range_s=(0.3, 0.6))
        params = {"manager_name": "event", "term_name": "shift", "num_steps": 3}
        params["changes"] = {"interval_range_s": (0.1, 0.4)}
        cfg.curriculum["shift"] = CurriculumTermCfg(func=mdp.modify_term_cfg, params=params)
        return cfg.build()

    env, fresh = build(), build()
    for _ in range(10):
        env.step(torch.ones(4, 1))
    fresh.load_state_dict(env.state_dict())
    for _ in range(40):
        assert torch.equal(fresh.step(torch.ones(4, 1))[0]["policy"], env.step(torch.ones(4, 1))[0]["policy"])


def test_stored_state_of_another_environment_is_refused():
    with pytest.raises(LabError, match="does not fit this environment"):
        make(4).load_state_dict(make(8).state_dict())
