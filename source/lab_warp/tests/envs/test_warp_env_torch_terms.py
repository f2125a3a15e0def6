"""Commands and actions of torch code: what twins of other terms see of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv, make_env
from lab_core.managers import (
    ActionTerm,
    ActionTermCfg,
    CommandTerm,
    CommandTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
)
from lab_core.masks import masked_copy_
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, step_report

CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)
N = 5


@dataclass(kw_only=True)
class RisingCommandCfg(CommandTermCfg):
    def build(self, env: RLEnv) -> CommandTerm:
        return RisingCommand(self, env)


class RisingCommand(CommandTerm):
    """How many commands there have been, and the cart's position: a new tensor each time it is asked."""

    def __init__(self, cfg: RisingCommandCfg, env: RLEnv) -> None:
        super().__init__(cfg, env)
        self._number = torch.zeros(env.num_envs, device=env.device)
        self._position = torch.zeros(env.num_envs, device=env.device)
        self.offset = 0.0

    @property
    def command(self) -> torch.Tensor:
        return torch.stack([self._number, self._position, self._number + self.offset], dim=1)

    def _resample(self, mask: torch.Tensor) -> None:
        self._number.add_(mask)

    def _update_command(self, mask: torch.Tensor) -> None:
        masked_copy_(self._position, self._env.scene["robot"].data.joint_pos[:, 0], mask)

    def update_metrics(self) -> None:
        pass


@dataclass(kw_only=True)
class FreshActionCfg(ActionTermCfg):
    def build(self, env: RLEnv) -> ActionTerm:
        return FreshAction(self, env)


class FreshAction(ActionTerm):
    """Makes new tensors in every call."""

    action_dim = 1

    def __init__(self, cfg: FreshActionCfg, env: RLEnv) -> None:
        super().__init__(cfg, env)
        self._targets = torch.zeros(env.num_envs, 1, device=env.device)

    @property
    def processed_actions(self) -> torch.Tensor:
        return 50.0 * self._targets

    def process_actions(self, actions: torch.Tensor) -> None:
        self._targets = actions.clone()

    def apply_actions(self) -> None:
        self._asset.data.joint_effort_target[:, :1] = self.processed_actions

    def reset(self, mask: torch.Tensor) -> None:
        self._targets = self._targets * ~mask.unsqueeze(1)


def torch_terms_cfg() -> ManagerBasedRLEnvCfg:
    """Nothing is left to chance, so that both front ends do the same."""
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=0.3)
    for event in cfg.events.values():
        assert event is not None
        event.params |= {"position_range": (0.3, 0.3), "velocity_range": (0.1, 0.1)}
    cfg.commands = {"rising": RisingCommandCfg(resampling_time_range=(0.05, 0.05))}
    cfg.actions = {"fresh": FreshActionCfg()}
    cfg.observations["policy"].terms |= {
        "command": ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "rising"}),
        "action": ObservationTermCfg(func=mdp.last_action, params={"action_name": "fresh"}),
    }
    cfg.rewards["shown"] = RewardTermCfg(func=command_value, weight=1.0)
    return cfg


def command_value(env: Any) -> torch.Tensor:
    return env.command_manager.get_command("rising")[:, 2]


def run(env: RLEnv) -> list[dict[str, torch.Tensor]]:
    results = rollout(env, 25)
    env.reset(mask=[1, 3])
    return results + rollout(env, 15, seed=1)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("enabled", [True, False])
def test_twins_read_commands_and_actions_of_torch_code(enabled, device, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", str(int(enabled)))
    env = ManagerBasedRLEnvWarp(torch_terms_cfg(), device)
    given = run(env)
    for result, expected in zip(given, run(make_env(torch_terms_cfg(), device)), strict=True):
        for name, value in expected.items():
            torch.testing.assert_close(result[name].to(value.dtype), value, rtol=1e-5, atol=1e-6)
    last = given[-1]["obs.policy"]
    assert torch.equal(last[:, 4:7], env.command_manager.get_command("rising"))
    assert last[:, 4].min() > 5 and last[:, 7].any()
    if enabled:
        assert step_report(env).num_captures == 1
        assert {"command term 'rising': no Warp twin", "action term 'fresh': no Warp twin"} <= set(
            step_report(env).islands
        )


def test_captured_equals_eager_with_terms_of_torch_code(monkeypatch):
    captured = run(ManagerBasedRLEnvWarp(torch_terms_cfg()))
    monkeypatch.setenv("LAB_CAPTURE", "0")
    assert_same_results(captured, run(ManagerBasedRLEnvWarp(torch_terms_cfg())))


def test_a_command_that_is_changed_between_steps_is_read_in_the_next_one():
    """As by a person, or by a state that is loaded."""
    cfg = torch_terms_cfg()
    cfg.rewards = {"tracked": RewardTermCfg(func=mdp.track_ang_vel_z_exp, weight=1.0, params=_tracking())}
    env = ManagerBasedRLEnvWarp(cfg)
    env.step(torch.zeros(N, 1))
    term = env.command_manager.get_term("rising")
    assert isinstance(term, RisingCommand)
    term.offset = 100.0  # nobody turns that fast
    env.step(torch.zeros(N, 1))
    assert not env.reward_manager.step_reward.any()


def _tracking() -> dict[str, Any]:
    return {"std": 1.0, "command_name": "rising"}
