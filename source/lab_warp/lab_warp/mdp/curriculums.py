"""Twins of :mod:`lab_core.mdp.curriculums`, which says what they do.

Curricula that change configurations have none: they work on the host.
"""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_warp.env import ManagerBasedWarpEnv
from lab_warp.mdp.functions import norm2
from lab_warp.reductions import mean_of_integers
from lab_warp.twins import twin_of

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")


@twin_of(mdp.terrain_levels_vel)
def terrain_levels_vel(
    env: ManagerBasedWarpEnv, mask: wp.array, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    """Environments that it may move draw a level each, used or not."""
    levels, ground = env.scene.terrain, env.physics.terrain
    if levels is None or ground is None:
        raise TermError("terrain_levels_vel needs generated ground: set scene.terrain.")
    level_of_env = wp.from_torch(levels.levels)
    wp.launch(
        _move,
        dim=env.num_envs,
        inputs=[
            mask,
            env.warp.episode_length,
            env.scene[asset_cfg.name].data.warp.root_link_pose_w,
            env.command_manager.get_term(command_name).warp.command,
            env.max_episode_length_s,
            0.5 * ground.tile_size,
            wp.from_torch(levels.origins, dtype=wp.vec3),
            wp.from_torch(levels.types),
        ],
        outputs=[env.warp.rng, level_of_env, env.warp.env_origins],
        device=env.wp_device,
    )
    mean_of_integers(level_of_env, out, env.wp_device)


@wp.kernel
def _move(
    mask: wp.array[wp.bool],
    episode_length: wp.array[wp.int64],
    root_pose: wp.array[wp.transform],
    command: wp.array2d[wp.float32],
    max_episode_length_s: wp.float32,
    half_tile: wp.float32,
    tile_origins: wp.array2d[wp.vec3],
    tile_types: wp.array[wp.int64],
    rng_state: wp.array[wp.uint32],
    levels: wp.array[wp.int64],
    env_origins: wp.array[wp.vec3],
):
    """The rule of :meth:`lab_core.terrain.TerrainLevels.update`. Launch over N."""
    env = wp.tid()
    if not mask[env] or episode_length[env] <= wp.int64(0):
        return
    offset = wp.transform_get_translation(root_pose[env]) - env_origins[env]
    walked = norm2(offset[0], offset[1])
    asked = norm2(command[env, 0], command[env, 1]) * max_episode_length_s
    rng = rng_state[env]
    anywhere = wp.randi(rng, 0, tile_origins.shape[0])
    rng_state[env] = rng
    level = wp.int32(levels[env])
    if walked > half_tile:
        level += 1
    elif walked < 0.5 * asked:
        level -= 1
    if level >= tile_origins.shape[0]:
        level = anywhere
    level = wp.max(level, 0)
    levels[env] = wp.int64(level)
    env_origins[env] = tile_origins[level, wp.int32(tile_types[env])]
