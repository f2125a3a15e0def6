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
