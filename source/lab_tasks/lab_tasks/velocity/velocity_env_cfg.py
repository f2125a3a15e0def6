"""Following velocity commands: what all robots share, on flat ground; and what rough ground adds to it.

Contact forces are read in every physics step of 5 ms, whatever the actuators of the robot, and the sensor remembers
the four steps of one action: a touch between two actions ends an episode, and costs, as surely as one at its end.
Acceleration costs see the change of velocity over the whole action of 20 ms. The ground is scanned once per action.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    MetricTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from lab_core.scene import ArticulationCfg, CameraCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg, RayCasterCfg
from lab_core.signals import UniformNoiseCfg
from lab_core.terrain import TerrainGeneratorCfg
from lab_newton.config import MuJoCoSolverCfg, NewtonCfg

COMMAND = "base_velocity"
BASE = "base"
"""Body of the robot that must not touch anything."""


def velocity_env_cfg(
    robot: ArticulationCfg,
    joint_names: Sequence[str],
    feet: str,
    action_scale: float,
    solver: MuJoCoSolverCfg,
) -> ManagerBasedRLEnvCfg:
    """Returns the task on flat ground at 50 Hz with 20 s episodes.

    Args:
        robot: Its root body is called ``base``.
        joint_names: Order of the joints in actions and observations.
        feet: Names of the feet, a regular expression.
        action_scale: Change of the joint position targets for an action of 1 [rad].
        solver: Settings with buffers that the robot's contacts fit into.
    """
    joints = SceneEntityCfg(joint_names=tuple(joint_names), preserve_order=True)
    command = {"command_name": COMMAND}
    return ManagerBasedRLEnvCfg(
        physics=NewtonCfg(dt=0.005, solver=solver),
        scene=SceneCfg(
            env_spacing=2.5,
            entities={"robot": robot},
            sensors={"contact_forces": ContactSensorCfg(history_length=4)},
            camera=CameraCfg(eye=(2.2, -2.2, 1.2), target=(0.0, 0.0, 0.3), follow="robot"),
        ),
        decimation=4,
        episode_length_s=20.0,
        commands={
            COMMAND: mdp.UniformVelocityCommandCfg(
                resampling_time_range=(10.0, 10.0),
                ranges=mdp.UniformVelocityRanges(
                    lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0), heading=(-math.pi, math.pi)
                ),
                heading_command=True,
                heading_control_stiffness=0.5,
                rel_standing_envs=0.02,
            )
        },
        actions={
            "joint_pos": mdp.JointPositionActionCfg(
                joint_names=tuple(joint_names), preserve_order=True, scale=action_scale
            )
        },
        observations={
            "policy": ObservationGroupCfg(
                enable_corruption=True,
                terms={
                    "base_lin_vel": ObservationTermCfg(func=mdp.base_lin_vel, noise=_noise(0.1)),
                    "base_ang_vel": ObservationTermCfg(func=mdp.base_ang_vel, noise=_noise(0.2)),
                    "projected_gravity": ObservationTermCfg(func=mdp.projected_gravity, noise=_noise(0.05)),
                    "velocity_commands": ObservationTermCfg(func=mdp.generated_commands, params=command),
                    "joint_pos": ObservationTermCfg(
                        func=mdp.joint_pos_rel, params={"asset_cfg": joints}, noise=_noise(0.01)
                    ),
                    "joint_vel": ObservationTermCfg(
                        func=mdp.joint_vel_rel, params={"asset_cfg": joints}, noise=_noise(1.5)
                    ),
                    "actions": ObservationTermCfg(func=mdp.last_action),
                },
            )
        },
        events={
            "physics_material": EventTermCfg(
                func=mdp.randomize_rigid_body_material, mode="startup", params={"friction_range": (0.8, 0.8)}
            ),
            "add_base_mass": EventTermCfg(
                func=mdp.randomize_rigid_body_mass,
                mode="startup",
                params={
                    "asset_cfg": SceneEntityCfg(body_names=BASE),
                    "mass_distribution_params": (0.8, 1.25),
                    "operation": "scale",
                    "distribution": "log_uniform",
                },
            ),
            "base_com": EventTermCfg(
                func=mdp.randomize_rigid_body_com,
                mode="startup",
                params={
                    "asset_cfg": SceneEntityCfg(body_names=BASE),
                    "com_range": {"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01)},
                },
            ),
            "reset_base": EventTermCfg(
                func=mdp.reset_root_state_uniform,
                mode="reset",
                params={
                    "pose_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-math.pi, math.pi)},
                    "velocity_range": dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), (-0.5, 0.5)),
                },
            ),
            "reset_robot_joints": EventTermCfg(
                func=mdp.reset_joints_by_scale,
                mode="reset",
                params={"position_range": (0.5, 1.5), "velocity_range": (0.0, 0.0)},
            ),
            "push_robot": EventTermCfg(
                func=mdp.push_by_setting_velocity,
                mode="interval",
                interval_range_s=(10.0, 15.0),
                params={"velocity_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5)}},
            ),
        },
        rewards={
            "track_lin_vel_xy_exp": RewardTermCfg(
                func=mdp.track_lin_vel_xy_exp, weight=1.0, params={"std": 0.5, **command}
            ),
            "track_ang_vel_z_exp": RewardTermCfg(
                func=mdp.track_ang_vel_z_exp, weight=0.5, params={"std": 0.5, **command}
            ),
            "lin_vel_z_l2": RewardTermCfg(func=mdp.lin_vel_z_l2, weight=-2.0),
            "ang_vel_xy_l2": RewardTermCfg(func=mdp.ang_vel_xy_l2, weight=-0.05),
            "dof_torques_l2": RewardTermCfg(func=mdp.joint_torques_l2, weight=-1e-5),
            "dof_acc_l2": RewardTermCfg(func=mdp.joint_acc_l2, weight=-2.5e-7),
            "action_rate_l2": RewardTermCfg(func=mdp.action_rate_l2, weight=-0.01),
            "feet_air_time": RewardTermCfg(
                func=mdp.feet_air_time,
                weight=0.125,
                params={
                    "sensor_cfg": mdp.SceneSensorCfg("contact_forces", body_names=feet),
                    "threshold": 0.5,
                    **command,
                },
            ),
        },
        terminations={
            "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
            "base_contact": TerminationTermCfg(
                func=mdp.illegal_contact,
                params={"sensor_cfg": mdp.SceneSensorCfg("contact_forces", body_names=BASE), "threshold": 1.0},
            ),
        },
        metrics={"success_rate": MetricTermCfg(func=mdp.velocity_tracked, mode="last", params=command)},
    )


def set_reward_weights(cfg: ManagerBasedRLEnvCfg, **weights: float) -> None:
    """Changes the weights of rewards that ``cfg`` has."""
    for name, weight in weights.items():
        term = cfg.rewards[name]
        assert term is not None, name
        term.weight = weight


def add_rough_terrain(cfg: ManagerBasedRLEnvCfg, terrain: TerrainGeneratorCfg) -> None:
    """Puts the task onto ``terrain``: the policy sees the ground around the robot, robots that walk far meet harder
    ground, and who comes to the edge of it runs out of time."""
    cfg.scene.ground = None
    cfg.scene.terrain = terrain
    cfg.scene.sensors["height_scanner"] = RayCasterCfg(body_name=BASE)
    cfg.observations["policy"].terms["height_scan"] = ObservationTermCfg(
        func=mdp.height_scan,
        params={"sensor_cfg": mdp.SceneSensorCfg("height_scanner")},
        noise=_noise(0.1),
        clip=(-1.0, 1.0),
    )
    cfg.terminations["terrain_out_of_bounds"] = TerminationTermCfg(
        func=mdp.terrain_out_of_bounds, time_out=True, params={"distance_buffer": 3.0}
    )
    cfg.curriculum["terrain_levels"] = CurriculumTermCfg(func=mdp.terrain_levels_vel, params={"command_name": COMMAND})


def make_playable(cfg: ManagerBasedRLEnvCfg) -> None:
    """Turns the task into one for watching: few robots, on tiles of any level, undisturbed."""
    cfg.scene.num_envs = 16
    cfg.observations["policy"].enable_corruption = False
    cfg.events["push_robot"] = None
    if cfg.scene.terrain is not None:
        cfg.scene.terrain.num_rows = cfg.scene.terrain.num_cols = 5
        cfg.scene.terrain.curriculum = False
        cfg.curriculum["terrain_levels"] = None


def _noise(bound: float) -> UniformNoiseCfg:
    return UniformNoiseCfg(n_min=-bound, n_max=bound)
