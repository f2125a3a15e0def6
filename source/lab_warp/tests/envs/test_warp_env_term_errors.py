"""Errors of terms while a step is recorded: told with the manager, the term and the parameter."""

from __future__ import annotations

import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.envs import make_env
from lab_core.errors import LabError
from lab_core.managers import RewardTermCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.launches import per_env
from lab_warp.twins import twin_of


def summed(env) -> torch.Tensor:
    return env.scene["robot"].data.joint_vel.sum(dim=-1)


@wp.kernel
def take_integers(velocity: wp.array2d[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = float(velocity[env, 0])


@twin_of(summed)
def summed_twin(env, out) -> None:
    per_env(env, take_integers, out, env.scene["robot"].data.warp.joint_vel)


TRACKING = {"std": 1.0, "command_name": "speed"}


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (
            RewardTermCfg(func=summed, weight=1.0),
            r"^reward term 'mine': its Warp code does not fit .*'take_integers', argument 'velocity' expects .*int32",
        ),
        (
            RewardTermCfg(func=mdp.track_lin_vel_xy_exp, weight=1.0, params=TRACKING),
            r"^reward term 'mine': params\.command_name: unknown command term 'speed'",
        ),
    ],
)
def test_the_term_is_named(term: RewardTermCfg, message: str) -> None:
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    cfg.rewards["mine"] = term
    with pytest.raises(LabError, match=message):
        env = make_env(cfg, "cpu", "warp")
        env.reset()
        env.step(torch.zeros(2, 1))
