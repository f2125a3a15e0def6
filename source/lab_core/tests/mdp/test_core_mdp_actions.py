"""Joint actions: in what order scale, offset, default pose and clip act."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
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
