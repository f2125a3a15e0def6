"""Twins of the contact terms in :mod:`lab_core.mdp.rewards` and ``terminations``; there is said what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import ContactSensorData, ContactTimesData, GapSensorData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import per_env
from lab_warp.mdp import contacts_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import body_index


@twin_of(mdp.feet_air_time)
def feet_air_time(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, sensor_cfg: SceneSensorCfg, threshold: float
) -> None:
    contacts = sensor_data(env, sensor_cfg, ContactTimesData)
    per_env(
        env,
        kernels.air_time,
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
    per_env(env, kernels.slide, out, *_history(env, sensor_cfg), velocities, body_index(asset_cfg))


@twin_of(mdp.undesired_contacts)
def undesired_contacts(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    per_env(env, kernels.count_touched, out, *_history(env, sensor_cfg), threshold)


@twin_of(mdp.contact_forces)
def contact_forces(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    per_env(env, kernels.sum_excesses, out, *_history(env, sensor_cfg), threshold)


@twin_of(mdp.illegal_contact)
def illegal_contact(env: WarpEnv, out: wp.array, threshold: float, sensor_cfg: SceneSensorCfg) -> None:
    per_env(env, kernels.is_touched, out, *_history(env, sensor_cfg), threshold)


@twin_of(mdp.undesired_touches)
def undesired_touches(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    per_env(env, kernels.count_touches, out, *_touches(env, sensor_cfg))


@twin_of(mdp.illegal_touch)
def illegal_touch(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    per_env(env, kernels.any_touch, out, *_touches(env, sensor_cfg))


def _history(env: WarpEnv, sensor_cfg: SceneSensorCfg) -> tuple[wp.array, wp.array]:
    """Returns the forces (N, H, B) and the columns to look at."""
    return sensor_data(env, sensor_cfg, ContactSensorData).warp.net_forces_w_history, body_index(sensor_cfg)


def _touches(env: WarpEnv, sensor_cfg: SceneSensorCfg) -> tuple[wp.array, wp.array]:
    """Returns the touches (N, H, B) and the columns to look at."""
    return sensor_data(env, sensor_cfg, GapSensorData).warp.touch_history, body_index(sensor_cfg)
