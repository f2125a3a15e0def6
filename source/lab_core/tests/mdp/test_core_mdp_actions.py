"""Joint actions: in what order scale, offset, default pose and clip act."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 3


@pytest.mark.parametrize(
    ("cfg", "default"),
    [(mdp.JointPositionActionCfg, "default_joint_pos"), (mdp.JointVelocityActionCfg, "default_joint_vel")],
)
@pytest.mark.parametrize(("raw", "expected"), [(1.0, 3.5), (4.0, 4.0), (-8.0, -4.0)])
def test_the_clip_bounds_the_target_with_the_default_in_it(cfg, default, raw, expected):
    """2 + 0.5 raw + 1 within -4 .. 4: clipped before the default is added, the target would leave the bounds."""
    env = analytic_cartpole_env_cfg(num_envs=N).build()
    getattr(env.scene["robot"].data, default).fill_(2.0 if raw > 0 else -2.0)
    term = cfg(joint_names=".*", scale=0.5, offset=1.0, clip=4.0).build(env)
    term.process_actions(torch.full((N, 2), raw))
    assert term.processed_actions.tolist() == [[expected] * 2] * N
    few = torch.full((2, 2), raw, requires_grad=True)
    view = SimpleNamespace(scene={"robot": SimpleNamespace(data=SimpleNamespace(
        **{default: getattr(env.scene["robot"].data, default)[:2]}))})  # fmt: skip
    elsewhere = term.processed_for(view, few)
    assert elsewhere.tolist() == [[expected] * 2] * 2
    assert torch.autograd.grad(elsewhere.sum(), few)[0].unique().item() == (0.5 if abs(expected) < 4.0 else 0.0)


def test_targets_between_limits_are_a_moving_average():
    """With limits 0 .. 2 and from position 1: action 1 means 2, of which each step takes 0.3, action -3 is below 0."""
    env = analytic_cartpole_env_cfg(num_envs=N).build()
    data = env.scene["robot"].data
    data.soft_joint_pos_limits.copy_(torch.tensor([0.0, 2.0]))
    data.joint_pos.fill_(1.0)
    alpha = {"slider_to_cart": 0.3, "cart_to_pole": 1.0}
    term = mdp.EMAJointPositionToLimitsActionCfg(joint_names=".*", alpha=alpha).build(env)
    term.reset(torch.ones(N, dtype=torch.bool))
    expected = {1.0: (1.3, 2.0), 0.5: (1.36, 1.5), -3.0: (0.352, 0.0)}
    for action, targets in expected.items():
        term.process_actions(torch.full((N, 2), action))
        term.apply_actions()
        torch.testing.assert_close(data.joint_pos_target, torch.tensor([targets] * N))
    before = term.processed_actions.clone()
    data.joint_pos.fill_(0.5)
    term.reset(torch.arange(N) == 1)
    assert term.processed_actions[1].tolist() == [0.5, 0.5]
    assert torch.equal(term.processed_actions[[0, 2]], before[[0, 2]])


def test_targets_between_limits_need_limits():
    env = analytic_cartpole_env_cfg(num_envs=N).build()
    env.scene["robot"].data.soft_joint_pos_limits[:, 1, 1] = torch.inf
    with pytest.raises(TermError, match="needs limits, which cart_to_pole of 'robot' has not"):
        mdp.EMAJointPositionToLimitsActionCfg(joint_names=".*").build(env)


def test_joints_begin_part_of_the_way_to_a_point_between_their_limits(monkeypatch):
    """default + 0.2 (low - default + (high - low) u) for u = 0 and 1."""
    env = analytic_cartpole_env_cfg(num_envs=N).build()
    data = env.scene["robot"].data
    data.soft_joint_pos_limits.copy_(torch.tensor([[-1.0, 1.0], [-2.0, 2.0]]))
    data.default_joint_pos.copy_(torch.tensor([0.1, -0.2]))
    monkeypatch.setattr("lab_core.mdp.events.uniform", lambda *_: torch.tensor([[0.0, 1.0]] * N))
    asset_cfg = SceneEntityCfg("robot")
    asset_cfg.resolve(env.scene)
    mdp.reset_joints_within_limits(env, torch.ones(N, dtype=torch.bool), asset_cfg=asset_cfg)
    torch.testing.assert_close(data.joint_pos, torch.tensor([[-0.12, 0.24]] * N))
    assert not data.joint_vel.any()
