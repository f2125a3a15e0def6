"""Kernels of observations, one thread per element."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import normalized_position

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def copy(values: wp.array2d[wp.float32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = values[env, column]


@wp.kernel
def vector_columns(vectors: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env][column]


@wp.kernel
def spatial_columns(vectors: wp.array[wp.spatial_vector], first: wp.int32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env][first + column]


@wp.kernel
def pose_columns(poses: wp.array[wp.transform], first: wp.int32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = poses[env][first + column]


@wp.kernel
def relative_position(poses: wp.array[wp.transform], origins: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = poses[env][column] - origins[env][column]


@wp.kernel
def quaternion(poses: wp.array[wp.transform], make_unique: wp.bool, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    value = poses[env][3 + column]
    if make_unique and poses[env][6] < 0.0:
        value = -value
    out[env, column] = value


@wp.kernel
def gather(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = values[env, ids[column]]


@wp.kernel
def gather_difference(
    values: wp.array2d[wp.float32],
    defaults: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array2d[wp.float32],
):
    env, column = wp.tid()
    joint = ids[column]
    out[env, column] = values[env, joint] - defaults[env, joint]


@wp.kernel
def gather_normalized(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    out: wp.array2d[wp.float32],
):
    env, column = wp.tid()
    joint = ids[column]
    out[env, column] = normalized_position(positions[env, joint], limits[env, joint])


@wp.kernel
def gather_positions(
    poses: wp.array2d[wp.transform],
    origins: wp.array[wp.vec3],
    ids: wp.array[wp.int32],
    out: wp.array2d[wp.float32],
):
    env, column = wp.tid()
    out[env, column] = poses[env, ids[column // 3]][column % 3] - origins[env][column % 3]


@wp.kernel
def gather_quaternions(poses: wp.array2d[wp.transform], ids: wp.array[wp.int32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = poses[env, ids[column // 4]][3 + column % 4]


@wp.kernel
def gather_spatial(vectors: wp.array2d[wp.spatial_vector], ids: wp.array[wp.int32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env, ids[column // 6]][column % 6]


@wp.kernel
def height_scan(
    positions: wp.array[wp.vec3], hits: wp.array2d[wp.vec3], offset: wp.float32, out: wp.array2d[wp.float32]
):
    env, ray = wp.tid()
    ground = hits[env, ray][2]
    if wp.isinf(ground):
        ground = -wp.inf
    out[env, ray] = positions[env][2] - ground - offset


@wp.kernel
def current_time(steps: wp.array[wp.int64], dt: wp.float32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = wp.float32(steps[env]) * dt


@wp.kernel
def remaining_time(steps: wp.array[wp.int64], dt: wp.float32, longest: wp.float32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = longest - wp.float32(steps[env]) * dt
