"""Kernels of the sensors that read bodies: joint wrenches, inertial units, transforms.

``places`` are the bodies' places in the slice of one world of Newton's arrays, which have ``bodies_per_world`` each.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def read_motions(
    places: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    rotations: wp.array2d[wp.quat],
    ang_vels: wp.array2d[wp.vec3],
):
    """Orientations and angular velocities of bodies, world frame. Launch over (N, B)."""
    world, i = wp.tid()
    body = world * bodies_per_world + places[i]
    rotations[world, i] = wp.transform_get_rotation(body_q[body])
    ang_vels[world, i] = wp.spatial_bottom(body_qd[body])


@wp.kernel
def read_wrenches(
    places: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    wrenches_w: wp.array[wp.spatial_vector],
    rotations: wp.array2d[wp.quat],
    wrenches_b: wp.array2d[wp.spatial_vector],
):
    """Wrenches from the world frame into the frames of the bodies. Launch over (N, B)."""
    world, i = wp.tid()
    wrench = wrenches_w[world * bodies_per_world + places[i]]
    rotation = rotations[world, i]
    wrenches_b[world, i] = wp.spatial_vector(
        wp.quat_rotate_inv(rotation, wp.spatial_top(wrench)), wp.quat_rotate_inv(rotation, wp.spatial_bottom(wrench))
    )


@wp.kernel
def clear_wrenches(mask: wp.array[wp.bool], wrenches_b: wp.array2d[wp.spatial_vector]):
    """Launch over (N, B)."""
    world, i = wp.tid()
    if mask[world]:
        wrenches_b[world, i] = wp.spatial_vector()


@wp.kernel
def read_specific_force(
    place: wp.int32,
    bodies_per_world: wp.int32,
    mount: wp.transform,
    accelerations: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    gravity: wp.array[wp.vec3],
    rotations: wp.array2d[wp.quat],
    ang_vels: wp.array2d[wp.vec3],
    lin_acc_b: wp.array[wp.vec3],
):
    """Acceleration minus gravity at the sensor, in its frame. Launch over N.

    Rigid body: a = a_com + alpha x r + w x (w x r), with r from the centre of mass to the sensor.
    """
    world = wp.tid()
    body = world * bodies_per_world + place
    rotation = rotations[world, 0]
    ang_vel = ang_vels[world, 0]
    ang_acc = wp.spatial_bottom(accelerations[body])
    lever = wp.quat_rotate(rotation, wp.transform_get_translation(mount) - body_com[body])
    force = (
        wp.spatial_top(accelerations[body])
        + wp.cross(ang_acc, lever)
        + wp.cross(ang_vel, wp.cross(ang_vel, lever))
        - gravity[world]
    )
    lin_acc_b[world] = wp.quat_rotate_inv(rotation * wp.transform_get_rotation(mount), force)


@wp.kernel
def read_ang_vel(
    mask: wp.array[wp.bool],
    place: wp.int32,
    bodies_per_world: wp.int32,
    mount: wp.transform,
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    ang_vel_b: wp.array[wp.vec3],
):
    """Angular velocity in the sensor's frame, in the worlds of ``mask``; without it in all. Launch over N."""
    world = wp.tid()
    if mask and not mask[world]:
        return
    body = world * bodies_per_world + place
    rotation = wp.transform_get_rotation(body_q[body]) * wp.transform_get_rotation(mount)
    ang_vel_b[world] = wp.quat_rotate_inv(rotation, wp.spatial_bottom(body_qd[body]))


@wp.kernel
def clear_imu(mask: wp.array[wp.bool], ang_vel_b: wp.array[wp.vec3], lin_acc_b: wp.array[wp.vec3]):
    """Launch over N."""
    world = wp.tid()
    if mask[world]:
        ang_vel_b[world] = wp.vec3()
        lin_acc_b[world] = wp.vec3()


@wp.kernel
def read_transforms(
    mask: wp.array[wp.bool],
    source: wp.int32,
    targets: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    body_q: wp.array[wp.transform],
    poses: wp.array2d[wp.transform],
):
    """Poses of targets in the source's frame, in the worlds of ``mask``; without it in all. Launch over (N, T)."""
    world, i = wp.tid()
    if mask and not mask[world]:
        return
    first = world * bodies_per_world
    poses[world, i] = wp.transform_multiply(wp.transform_inverse(body_q[first + source]), body_q[first + targets[i]])
