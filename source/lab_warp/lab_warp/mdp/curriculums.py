"""Twins of :mod:`lab_core.mdp.curriculums`, which says what they do.

Curricula that change configurations have none: they work on the host.
"""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_warp.env import ManagerBasedWarpEnv
from lab_warp.mdp import curriculums_kernels as kernels
from lab_warp.reductions import mean_of_integers
from lab_warp.twins import twin_of

_ROBOT = SceneEntityCfg("robot")


@twin_of(mdp.terrain_levels_vel)
def terrain_levels_vel(
    env: ManagerBasedWarpEnv, mask: wp.array, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    """Environments that it may move draw a level each, used or not."""
    levels, ground, command = mdp.walked_ground(env, command_name)
    level_of_env = wp.from_torch(levels.levels)
    wp.launch(
        kernels.move,
        dim=env.num_envs,
        inputs=[
            mask,
            env.warp.episode_length,
            env.scene[asset_cfg.name].data.warp.root_link_pose_w,
            wp.from_torch(command.start_pos_w, dtype=wp.vec2),
            wp.from_torch(command.asked_displacement_w, dtype=wp.vec2),
            env.max_episode_length,
            0.5 * ground.tile_size,
            wp.from_torch(levels.origins, dtype=wp.vec3),
            wp.from_torch(levels.types),
        ],
        outputs=[env.warp.rng, level_of_env, env.warp.env_origins],
        device=env.wp_device,
    )
    mean_of_integers(level_of_env, out, env.wp_device)
