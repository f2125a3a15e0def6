"""The ant class as Warp kernels, twin of :class:`lab_tasks.ant.ant_direct_env.AntDirectEnv`."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_core.sensors import JointWrenchData
from lab_tasks.ant.ant_direct_env import AntDirectEnvCfg
from lab_tasks.ant.mdp_warp import approach, move_to_target, unit, vector_to_target
from lab_warp.envs import DirectRLEnvWarp
from lab_warp.mdp.events import reset_joints_by_offset
from lab_warp.mdp.functions import at_least_zero, clamp, normalized_position, square, wrap_to_pi
from lab_warp.mdp.rotations import euler_xyz_from_quat
from lab_warp.reductions import masked_means
from lab_warp.twins import twin_of

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@twin_of(AntDirectEnvCfg)
class AntDirectEnvWarp(DirectRLEnvWarp):
    """Run towards the target without falling."""

    cfg: AntDirectEnvCfg
    log_names = ("Metrics/success_rate",)
    _state_exclude = ("_survived",)

    def _setup(self) -> None:
        self.data = self.scene["robot"].data.warp
        self.joints = SceneEntityCfg("robot")
        self.joints.resolve(self.scene)
        feet = self.scene.sensor("feet_wrench")
        assert isinstance(feet, JointWrenchData)
        self.feet = feet.warp
        self.target = wp.vec2(self.cfg.target_pos[0], self.cfg.target_pos[1])
        self._last_position = torch.zeros(self.num_envs, 2, device=self.device)
        self._last_position_wp = wp.from_torch(self._last_position, dtype=wp.vec2)
        self._survived = torch.zeros(self.num_envs, 1, device=self.device)
        self._survived_wp = wp.from_torch(self._survived)

    def _apply_action(self) -> None:
        self._launch(_drive, [self.warp.actions, self.cfg.effort_scale], [self.data.joint_effort_target])

    def _get_observations(self, out: wp.array) -> None:
        data = self.data
        inputs = [
            data.root_link_pose_w,
            self.warp.env_origins,
            self.target,
            data.root_com_lin_vel_b,
            data.root_ang_vel_b,
            data.projected_gravity_b,
            data.heading_w,
            data.joint_pos,
            data.soft_joint_pos_limits,
            data.joint_vel,
            data.default_joint_vel,
            self.feet.wrench_b,
            self.warp.actions,
        ]
        self._launch(_observe, inputs, [out])

    def _get_rewards(self, out: wp.array) -> None:
        data = self.data
        inputs = [
            data.root_link_pose_w,
            self.warp.env_origins,
            self.target,
            data.projected_gravity_b,
            data.joint_pos,
            data.soft_joint_pos_limits,
            data.joint_vel,
            self.warp.actions,
            self.warp.terminated,
            self.warp.non_finite,
            self.step_dt,
        ]
        self._launch(_reward, inputs, [self._last_position_wp, out])

    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        inputs = [
            self.data.root_link_pose_w,
            self.cfg.minimum_height,
            self.warp.episode_length,
            self.max_episode_length,
        ]
        self._launch(_end, inputs, [terminated, time_outs])

    def _reset_state(self, mask: wp.array) -> None:
        position, velocity = self.cfg.joint_pos_noise, self.cfg.joint_vel_noise
        reset_joints_by_offset(self, mask, (-position, position), (-velocity, velocity), self.joints)

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        inputs = [mask, self.data.root_link_pose_w, self.warp.time_outs]
        self._launch(_begin_episode, inputs, [self._last_position_wp, self._survived_wp])
        masked_means(self._survived_wp, mask, self.warp.reset_count, log, 1.0, self.wp_device)

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self.num_envs, inputs=inputs, outputs=outputs, device=self.wp_device)


# Kernels, one thread per environment ------------------------------------------------------------------------------


@wp.func
def _heading_proj(pose: wp.transform, to_target: wp.vec2) -> wp.float32:
    """Component of the torso's x axis along the direction to the target."""
    q = wp.transform_get_rotation(pose)
    direction = unit(to_target)
    x_axis_x = 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2])
    x_axis_y = 2.0 * (q[0] * q[1] + q[3] * q[2])
    return x_axis_x * direction[0] + x_axis_y * direction[1]


@wp.kernel
def _drive(actions: wp.array2d[wp.float32], scale: wp.float32, efforts: wp.array2d[wp.float32]):
    env = wp.tid()
    for joint in range(actions.shape[1]):
        efforts[env, joint] = clamp(actions[env, joint], -1.0, 1.0) * scale


@wp.kernel
def _observe(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    lin_vels: wp.array[wp.vec3],
    ang_vels: wp.array[wp.vec3],
    gravity: wp.array[wp.vec3],
    headings: wp.array[wp.float32],
    joint_pos: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    joint_vel: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    wrenches: wp.array2d[wp.spatial_vector],
    actions: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    pose = poses[env]
    to_target = vector_to_target(pose, origins[env], target)
    angles = euler_xyz_from_quat(wp.transform_get_rotation(pose))
    out[env, 0] = pose[2]
    for axis in range(3):
        out[env, 1 + axis] = lin_vels[env][axis]
        out[env, 4 + axis] = ang_vels[env][axis]
    out[env, 7] = angles[2]
    out[env, 8] = angles[0]
    out[env, 9] = wrap_to_pi(wp.atan2(to_target[1], to_target[0]) - headings[env])
    out[env, 10] = -gravity[env][2]
    out[env, 11] = _heading_proj(pose, to_target)

    column = wp.int32(12)
    joints = joint_pos.shape[1]
    for joint in range(joints):
        out[env, column + joint] = normalized_position(joint_pos[env, joint], limits[env, joint])
        out[env, column + joints + joint] = 0.2 * (joint_vel[env, joint] - default_vel[env, joint])
    column += 2 * joints
    for foot in range(wrenches.shape[1]):
        for axis in range(6):
            out[env, column + axis] = 0.1 * wrenches[env, foot][axis]
        column += 6
    for joint in range(joints):
        out[env, column + joint] = actions[env, joint]


@wp.kernel
def _reward(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    gravity: wp.array[wp.vec3],
    joint_pos: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    joint_vel: wp.array2d[wp.float32],
    actions: wp.array2d[wp.float32],
    terminated: wp.array[wp.bool],
    non_finite: wp.array[wp.bool],
    dt: wp.float32,
    last_positions: wp.array[wp.vec2],
    out: wp.array[wp.float32],
):
    """The positions of the step before are replaced by the new ones."""
    env = wp.tid()
    pose = poses[env]
    to_target = vector_to_target(pose, origins[env], target)
    position = wp.vec2(pose[0], pose[1])
    progress = approach(position - last_positions[env], to_target) / dt
    if non_finite[env]:
        progress = 0.0  # it was put back to its default state
    last_positions[env] = position

    effort = wp.float32(0.0)
    power = wp.float32(0.0)
    beyond = wp.float32(0.0)
    for joint in range(actions.shape[1]):
        action = actions[env, joint]
        effort += square(action)
        power += wp.abs(action * joint_vel[env, joint])
        normalized = wp.abs(normalized_position(joint_pos[env, joint], limits[env, joint]))
        beyond += at_least_zero((normalized - 0.99) / 0.01)
    ended = wp.float32(terminated[env])
    rate = (
        progress
        + 0.5 * (1.0 - ended)
        + 0.1 * wp.float32(gravity[env][2] < -0.93)
        + 0.5 * move_to_target(_heading_proj(pose, to_target), 0.8)
        - 0.005 * effort
        - 0.05 * power
        - 0.1 * beyond
    )
    out[env] = rate * dt - 2.0 * ended


@wp.kernel
def _end(
    poses: wp.array[wp.transform],
    minimum_height: wp.float32,
    steps: wp.array[wp.int64],
    longest: wp.int64,
    terminated: wp.array[wp.bool],
    time_outs: wp.array[wp.bool],
):
    env = wp.tid()
    terminated[env] = poses[env][2] < minimum_height
    time_outs[env] = steps[env] >= longest


@wp.kernel
def _begin_episode(
    mask: wp.array[wp.bool],
    poses: wp.array[wp.transform],
    time_outs: wp.array[wp.bool],
    last_positions: wp.array[wp.vec2],
    survived: wp.array2d[wp.float32],
):
    env = wp.tid()
    survived[env, 0] = wp.float32(time_outs[env])
    if mask[env]:
        last_positions[env] = wp.vec2(poses[env][0], poses[env][1])
