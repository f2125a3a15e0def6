"""The cart-pole as something whose dynamics are learned, and the task in the model that was learned."""

from __future__ import annotations

import math

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import EventTermCfg, SceneEntityCfg, TerminationTermCfg
from lab_newton import FitCfg, NeRDSolverCfg
from lab_tasks.cartpole.cartpole_env_cfg import CART, POLE, cartpole_env_cfg, cartpole_physics_cfg

RAIL = 3.8
"""Half of the rail that a model is asked about [m]; the cart is stopped at 4 m, where the task has long ended."""
MODEL = "lab_tasks:cartpole/cartpole.nerd"


def cartpole_explore_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the cart-pole at any angle, pushed at random twice as hard as the task does.

    Args:
        play: Begin near the middle of the rail and slowly, for rollouts without a force.
    """
    cfg = cartpole_env_cfg()
    cart, pole = SceneEntityCfg(joint_names=(CART,)), SceneEntityCfg(joint_names=(POLE,))
    speed = 0.5 if play else 5.0
    place = 1.0 if play else 3.5
    spin = 2.0 if play else 12.0
    cfg.actions = {"cart_effort": mdp.JointEffortActionCfg(joint_names=(CART,), scale=200.0)}
    cfg.events = {
        "reset_cart": EventTermCfg(
            func=mdp.reset_joints_by_offset,
            mode="reset",
            params={"position_range": (-place, place), "velocity_range": (-speed, speed), "asset_cfg": cart},
        ),
        "reset_pole": EventTermCfg(
            func=mdp.reset_joints_by_offset,
            mode="reset",
            params={"position_range": (-math.pi, math.pi), "velocity_range": (-spin, spin), "asset_cfg": pole},
        ),
    }
    cfg.terminations = {
        "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
        "end_of_rail": TerminationTermCfg(
            func=mdp.joint_pos_out_of_manual_limit, params={"bounds": (-RAIL, RAIL), "asset_cfg": cart}
        ),
    }
    cfg.rewards = {}
    cfg.metrics = {}
    cfg.episode_length_s = 1000 / 60 if play else 1.0
    return cfg


def cartpole_learned_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the task with a model that was learned in ``Lab-Cartpole-Explore`` in place of the solver."""
    cfg = cartpole_env_cfg(play)
    physics = cartpole_physics_cfg()
    physics.solver = NeRDSolverCfg(model=MODEL, teacher=physics.solver)
    cfg.physics = physics
    return cfg


def cartpole_fit_cfg() -> FitCfg:
    """Returns the recipe of the model that comes with ``Lab-Cartpole-Learned``."""
    return FitCfg(network="Manipulator", options={"hidden": (256, 256, 256)}, updates=30_000)
