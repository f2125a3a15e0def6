"""Terms that change other terms while the step runs: the rest of the step goes on with what was captured."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ObservationTermCfg,
    SceneEntityCfg,
    TermError,
)
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, step_report

N = 6
CART = SceneEntityCfg(joint_names=("slider_to_cart",))
SWAPPED = SceneEntityCfg(joint_names=("cart_to_pole", "slider_to_cart"), preserve_order=True)
STEP = 6


def pause(env: Any, mask: torch.Tensor, speed: float = 0.0) -> None:
    """A torch event."""
    env.scene["robot"].data.joint_vel[mask] = speed


def cfg_with(manager: str, term: str, changes: dict[str, Any]) -> ManagerBasedRLEnvCfg:
    """A change in the step after all environments were reset in the middle of it."""
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=0.1)
    cfg.events["pause"] = EventTermCfg(func=pause, mode="reset", params={"speed": 0.1})
    jump = {"position_range": (0.0, 0.1), "velocity_range": (0.0, 0.0), "asset_cfg": CART}
    cfg.events["jump"] = EventTermCfg(
        func=mdp.reset_joints_by_offset, mode="interval", interval_range_s=(0.02, 0.05), params=jump
    )
    params = {"manager_name": manager, "term_name": term, "changes": changes, "num_steps": STEP}
    cfg.curriculum["change"] = CurriculumTermCfg(func=mdp.modify_term_cfg, params=params)
    return cfg


CHANGES = [
    pytest.param("event", "reset_cart", {"params": {"position_range": (2.0, 2.0)}}, id="reset"),
    pytest.param("event", "pause", {"params": {"speed": 3.0}}, id="torch-reset"),
    pytest.param("event", "jump", {"params": {"position_range": (1.0, 1.0)}}, id="interval"),
    pytest.param("event", "jump", {"interval_range_s": (0.01, 0.01)}, id="timer"),
    pytest.param("observation", "policy/joint_pos_rel", {"params": {"asset_cfg": SWAPPED}}, id="observation"),
    pytest.param("observation", "policy/joint_pos_rel", {"func": mdp.joint_vel}, id="function"),
    pytest.param("observation", "policy/joint_pos_rel", {"scale": 3.0}, id="scale"),
    pytest.param("termination", "cart_out_of_bounds", {"params": {"bounds": (-0.1, 0.1)}}, id="termination"),
    pytest.param("reward", "alive", {"weight": 3.0}, id="reward"),
    pytest.param("action", "cart_effort", {"scale": 3.0}, id="action"),
]


def run(cfg: ManagerBasedRLEnvCfg) -> tuple[ManagerBasedRLEnvWarp, list[dict[str, torch.Tensor]]]:
    env = ManagerBasedRLEnvWarp(cfg)
    return env, rollout(env, 4) + rollout(env, 16, seed=1)


@pytest.mark.parametrize(("manager", "term", "changes"), CHANGES)
def test_captured_equals_eager_where_a_curriculum_changes_a_term(manager, term, changes, monkeypatch):
    env, captured = run(cfg_with(manager, term, changes))
    assert env.extras["log"]["Curriculum/change"] == 1.0
    _, unchanged = run(cfg_with(manager, term, {}))
    with pytest.raises(AssertionError):
        assert_same_results(captured, unchanged)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    _, eager = run(cfg_with(manager, term, changes))
    assert_same_results(captured, eager)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_change_within_a_step_acts_on_the_next_one(enabled, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", str(int(enabled)))
    env = ManagerBasedRLEnvWarp(cfg_with("observation", "policy/joint_pos_rel", {"func": mdp.joint_vel}))
    data = env.scene["robot"].data
    for step in range(1, STEP + 3):
        obs, *_ = env.step(torch.zeros(N, 1))
        expected = data.joint_pos if step <= STEP else data.joint_vel
        assert torch.equal(obs["policy"][:, :2], expected), step


@pytest.mark.parametrize("enabled", [True, False])
def test_changes_of_one_step_add_up_and_are_seen_at_once(enabled, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", str(int(enabled)))
    cfg = cfg_with("event", "reset_cart", {"params": {"position_range": (0.25, 0.25)}})
    params = {"manager_name": "event", "term_name": "reset_cart", "num_steps": STEP}
    more = {"changes": {"params": {"velocity_range": (0.5, 0.5)}}}
    cfg.events["pause"] = cfg.events["jump"] = None
    cfg.curriculum["more"] = CurriculumTermCfg(func=mdp.modify_term_cfg, params=params | more)
    env = ManagerBasedRLEnvWarp(cfg)
    rollout(env, STEP)
    given = env.event_manager.get_term_cfg("reset_cart").params
    assert (given["position_range"], given["velocity_range"]) == ((0.25, 0.25), (0.5, 0.5))
    env.reset()
    data = env.scene["robot"].data
    assert (data.joint_pos[:, 0] == 0.25).all() and (data.joint_vel[:, 0] == 0.5).all()
    if enabled:
        rollout(env, 3)
        assert step_report(env).num_captures == 2


def ask_in_vain(env: Any, mask: torch.Tensor) -> float:
    """A curriculum term that asks for what is not allowed, once."""
    term = env.observation_manager.get_term_cfg("policy/joint_pos_rel")
    if env.step_count == 2:
        with pytest.raises(TermError, match="history_length cannot change"):
            env.observation_manager.set_term_cfg("policy/joint_pos_rel", dataclasses.replace(term, history_length=3))
        with pytest.raises(TermError, match="unknown parameter 'limit'"):
            env.observation_manager.set_term_cfg(
                "policy/joint_pos_rel", ObservationTermCfg(func=mdp.joint_pos_rel, params={"limit": 1.0})
            )
    return float(env.step_count)


def test_a_wrong_change_within_a_step_raises_there():
    cfg = analytic_cartpole_env_cfg(N)
    cfg.curriculum["vain"] = CurriculumTermCfg(func=ask_in_vain)
    env = ManagerBasedRLEnvWarp(cfg)
    rollout(env, 4)
    assert step_report(env).num_captures == 1
