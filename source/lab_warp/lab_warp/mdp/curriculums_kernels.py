"""Kernels of curricula, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import norm2

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def move(
    mask: wp.array[wp.bool],
    episode_length: wp.array[wp.int64],
    root_pose: wp.array[wp.transform],
    start_pos: wp.array[wp.vec2],
    asked_displacement: wp.array[wp.vec2],
    max_episode_length: wp.int64,
    half_tile: wp.float32,
    tile_origins: wp.array2d[wp.vec3],
    tile_types: wp.array[wp.int64],
    rng_state: wp.array[wp.uint32],
    levels: wp.array[wp.int64],
    env_origins: wp.array[wp.vec3],
):
    """The rules of :func:`lab_core.mdp.terrain_levels_vel` and :meth:`lab_core.terrain.TerrainLevels.update`.

    Launch over N.
    """
    env = wp.tid()
    if not mask[env] or episode_length[env] <= wp.int64(0):
        return
    walked = norm2(root_pose[env][0] - start_pos[env][0], root_pose[env][1] - start_pos[env][1])
    half_asked = 0.5 * norm2(asked_displacement[env][0], asked_displacement[env][1])
    steps = wp.min(episode_length[env], max_episode_length)
    rng = rng_state[env]
    anywhere = wp.randi(rng, 0, tile_origins.shape[0])
    rng_state[env] = rng
    level = wp.int32(levels[env])
    if walked > half_tile and walked >= half_asked:
        level += 1
    elif walked < half_asked * (wp.float32(max_episode_length) / wp.float32(steps)):
        level -= 1
    if level >= tile_origins.shape[0]:
        level = anywhere
    level = wp.max(level, 0)
    levels[env] = wp.int64(level)
    env_origins[env] = tile_origins[level, wp.int32(tile_types[env])]
