"""Kernels that find what went wrong in the physics."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_non_finite(
    joint_q: wp.array2d[wp.float32],
    joint_qd: wp.array2d[wp.float32],
    body_q: wp.array2d[wp.transform],
    body_qd: wp.array2d[wp.spatial_vector],
    max_velocity: wp.float32,
    non_finite: wp.array[wp.bool],
):
    """Marks worlds with a NaN or an infinity in their state, or an entry of ``joint_qd`` beyond ``max_velocity``.

    Launch over (N, largest row).
    """
    world, i = wp.tid()
    if i < joint_q.shape[1] and not wp.isfinite(joint_q[world, i]):
        non_finite[world] = True
    if i < joint_qd.shape[1] and not (wp.abs(joint_qd[world, i]) <= max_velocity):  # so that NaN counts
        non_finite[world] = True
    if i < body_q.shape[1]:
        pose = body_q[world, i]
        if not wp.isfinite(wp.transform_get_translation(pose)) or not wp.isfinite(wp.transform_get_rotation(pose)):
            non_finite[world] = True
        if not wp.isfinite(body_qd[world, i]):
            non_finite[world] = True
