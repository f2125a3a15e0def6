"""Twins of the contact terms in :mod:`lab_core.mdp.rewards` and ``terminations``; there is said what they return."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import ContactSensorData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.mdp.functions import at_least_zero, greater, norm2
from lab_warp.twins import twin_of
from lab_warp.views import body_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@twin_of(mdp.feet_air_time)
def feet_air_time(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, sensor_cfg: SceneSensorCfg, threshold: float
) -> None:
    contacts = sensor_data(env, sensor_cfg, ContactSensorData)
    _launch(
        env,
        _air_time,
        out,
        contacts.warp.contact_steps,
        contacts.warp.last_air_time,
        body_index(sensor_cfg),
        round(env.step_dt / contacts.dt),
        threshold,
        env.command_manager.get_term(command_name).warp.command,
    )


@twin_of(mdp.feet_slide)
def feet_slide(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg, asset_cfg: SceneEntityCfg) -> None:
    velocities = env.scene[asset_cfg.name].data.warp.body_com_vel_w
    _launch(env, _slide, out, *_history(env, sensor_cfg), velocities, body_index(asset_cfg))


@twin_of(mdp.undesired_contacts)
def undesired_contacts(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    _launch(env, _count_touched, out, *_history(env, sensor_cfg), threshold)


@twin_of(mdp.contact_forces)
def contact_forces(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    _launch(env, _sum_excesses, out, *_history(env, sensor_cfg), threshold)


@twin_of(mdp.illegal_contact)
def illegal_contact(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    _launch(env, _is_touched, out, *_history(env, sensor_cfg), threshold)


def _history(env: WarpEnv, sensor_cfg: SceneSensorCfg) -> tuple[wp.array, wp.array]:
    """Returns the forces (N, H, B) and the columns to look at."""
    return sensor_data(env, sensor_cfg, ContactSensorData).warp.net_forces_w_history, body_index(sensor_cfg)


# Kernels, one thread per environment ------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


@wp.func
def peak_contact_force(history: wp.array3d[wp.vec3], env: wp.int32, body: wp.int32) -> wp.float32:
    """Twin of :func:`lab_core.mdp.peak_contact_force` for one body."""
    peak = wp.length(history[env, 0, body])
    for age in range(1, history.shape[1]):
        peak = greater(peak, wp.length(history[env, age, body]))
    return peak


@wp.kernel
def _air_time(
    contact_steps: wp.array2d[wp.int32],
    last_air_time: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    new_steps: wp.int32,
    threshold: wp.float32,
    command: wp.array2d[wp.float32],
    out: wp.array[wp.float32],
):
    """A body has landed if its contact is at most ``new_steps`` old."""
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        steps = contact_steps[env, ids[i]]
        if steps > 0 and steps <= new_steps:
            total += last_air_time[env, ids[i]] - threshold
    if norm2(command[env, 0], command[env, 1]) > 0.1:
        out[env] = total
    else:
        out[env] = 0.0


@wp.kernel
def _slide(
    history: wp.array3d[wp.vec3],
    ids: wp.array[wp.int32],
    velocities: wp.array2d[wp.spatial_vector],
    velocity_ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > 1.0:
            velocity = velocities[env, velocity_ids[i]]
            total += norm2(velocity[0], velocity[1])
    out[env] = total


@wp.kernel
def _count_touched(
    history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > threshold:
            total += 1.0
    out[env] = total


@wp.kernel
def _sum_excesses(
    history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += at_least_zero(peak_contact_force(history, env, ids[i]) - threshold)
    out[env] = total


@wp.kernel
def _is_touched(history: wp.array3d[wp.vec3], ids: wp.array[wp.int32], threshold: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    touched = wp.bool(False)
    for i in range(ids.shape[0]):
        if peak_contact_force(history, env, ids[i]) > threshold:
            touched = wp.bool(True)
    out[env] = touched
