"""Warp twins of the tasks' terms and direct environments. Importing this module registers them."""

from lab_tasks.ant import ant_direct_env_warp, mdp_warp
from lab_tasks.cartpole import cartpole_direct_env_warp
from lab_tasks.tracking import mdp_warp as tracking_mdp_warp
from lab_tasks.tracking import motion_command_warp, rewards_warp

__all__ = [
    "ant_direct_env_warp",
    "cartpole_direct_env_warp",
    "mdp_warp",
    "motion_command_warp",
    "rewards_warp",
    "tracking_mdp_warp",
]
