"""Kernels that start random streams."""

from __future__ import annotations

import warp as wp


@wp.kernel
def seed_environments(seed: int, state: wp.array[wp.uint32]):
    env = wp.tid()
    state[env] = wp.rand_init(seed, env)


@wp.kernel
def seed_global(seed: int, stream: int, state: wp.array[wp.uint32]):
    state[0] = wp.rand_init(seed, stream)
