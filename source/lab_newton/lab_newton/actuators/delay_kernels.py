"""Kernels of delayed joint targets."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def step_line(
    position: wp.array2d[wp.float32],
    velocity: wp.array2d[wp.float32],
    effort: wp.array2d[wp.float32],
    group: wp.array[wp.int32],
    lag: wp.array2d[wp.int32],
    coords: wp.array[wp.int32],
    dofs: wp.array[wp.int32],
    coords_per_world: wp.int32,
    dofs_per_world: wp.int32,
    line: wp.array3d[wp.vec3],
    cursor: wp.array2d[wp.int32],
    is_fresh: wp.array[wp.bool],
    target_q: wp.array[wp.float32],
    target_qd: wp.array[wp.float32],
    feed_forward: wp.array[wp.float32],
):
    """Launch over (N, J)."""
    world, joint = wp.tid()
    size = line.shape[1]
    if joint == 0:
        is_fresh[world] = False
    place = cursor[world, joint]
    line[world, place, joint] = wp.vec3(position[world, joint], velocity[world, joint], effort[world, joint])
    cursor[world, joint] = (place + 1) % size
    if group[joint] >= 0:
        place = (place - lag[world, group[joint]] + size) % size
    late = line[world, place, joint]
    dof = world * dofs_per_world + dofs[joint]
    target_q[world * coords_per_world + coords[joint]] = late[0]
    target_qd[dof] = late[1]
    feed_forward[dof] = late[2]


@wp.kernel
def fill_line(
    mask: wp.array[wp.bool],
    position: wp.array2d[wp.float32],
    velocity: wp.array2d[wp.float32],
    effort: wp.array2d[wp.float32],
    line: wp.array3d[wp.vec3],
):
    """Launch over (N, J)."""
    world, joint = wp.tid()
    if not mask[world]:
        return
    for place in range(line.shape[1]):
        line[world, place, joint] = wp.vec3(position[world, joint], velocity[world, joint], effort[world, joint])


@wp.kernel
def draw_lags(
    mask: wp.array[wp.bool],
    shortest: wp.array[wp.int32],
    longest: wp.array[wp.int32],
    random_state: wp.array[wp.uint32],
    lag: wp.array2d[wp.int32],
    is_fresh: wp.array[wp.bool],
):
    """Launch over N."""
    world = wp.tid()
    if not mask[world]:
        return
    rng = random_state[world]
    for i in range(shortest.shape[0]):
        lag[world, i] = wp.randi(rng, shortest[i], longest[i] + 1)
    random_state[world] = rng
    is_fresh[world] = True
