"""The cart-pole class as Warp kernels, twin of :class:`lab_tasks.cartpole.cartpole_direct_env.CartpoleDirectEnv`."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_tasks.cartpole.cartpole_direct_env import CartpoleDirectEnvCfg
from lab_tasks.cartpole.cartpole_env_cfg import CART, POLE
from lab_warp.envs import DirectRLEnvWarp
from lab_warp.mdp.events import reset_joints_by_offset
from lab_warp.mdp.functions import square, wrap_to_pi
from lab_warp.reductions import masked_means
from lab_warp.twins import twin_of

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@twin_of(CartpoleDirectEnvCfg)
class CartpoleDirectEnvWarp(DirectRLEnvWarp):
    """Keep the pole upright and the cart on the rail."""

    cfg: CartpoleDirectEnvCfg
    log_names = ("Metrics/success_rate",)
    _state_exclude = ("_survived",)

    def _setup(self) -> None:
        robot = self.scene["robot"]
        self.data = robot.data.warp
        (self.cart,), (self.pole,) = robot.find_joints(CART), robot.find_joints(POLE)
        self.cart_joint, self.pole_joint = (SceneEntityCfg("robot", joint_names=name) for name in (CART, POLE))
        for joint in (self.cart_joint, self.pole_joint):
            joint.resolve(self.scene)
        self._survived = torch.zeros(self.num_envs, 1, device=self.device)
        self._survived_wp = wp.from_torch(self._survived)

    def _apply_action(self) -> None:
        inputs = [self.warp.actions, self.cfg.force_scale, self.cart]
        self._launch(_push_cart, inputs, [self.data.joint_effort_target])

    def _get_observations(self, out: wp.array) -> None:
        data = self.data
        inputs = [data.joint_pos, data.default_joint_pos, data.joint_vel, data.default_joint_vel]
        self._launch(_observe, inputs, [out])

    def _get_rewards(self, out: wp.array) -> None:
        data = self.data
        inputs = [data.joint_pos, data.joint_vel, self.cart, self.pole, self.warp.terminated, self.step_dt]
        self._launch(_reward, inputs, [out])

    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        inputs = [
            self.data.joint_pos,
            self.cart,
            self.cfg.max_cart_pos,
            self.warp.episode_length,
            self.max_episode_length,
        ]
        self._launch(_end, inputs, [terminated, time_outs])

    def _reset_state(self, mask: wp.array) -> None:
        cfg = self.cfg
        reset_joints_by_offset(self, mask, cfg.initial_cart_pos, cfg.initial_cart_vel, self.cart_joint)
        reset_joints_by_offset(self, mask, cfg.initial_pole_angle, cfg.initial_pole_vel, self.pole_joint)

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        self._launch(_note_survival, [self.warp.time_outs], [self._survived_wp])
        masked_means(self._survived_wp, mask, self.warp.reset_count, log, 1.0, self.wp_device)

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self.num_envs, inputs=inputs, outputs=outputs, device=self.wp_device)


# Kernels, one thread per environment ------------------------------------------------------------------------------


@wp.kernel
def _push_cart(actions: wp.array2d[wp.float32], scale: wp.float32, cart: wp.int32, efforts: wp.array2d[wp.float32]):
    env = wp.tid()
    efforts[env, cart] = actions[env, 0] * scale


@wp.kernel
def _observe(
    positions: wp.array2d[wp.float32],
    default_pos: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    joints = positions.shape[1]
    for joint in range(joints):
        out[env, joint] = positions[env, joint] - default_pos[env, joint]
        out[env, joints + joint] = velocities[env, joint] - default_vel[env, joint]


@wp.kernel
def _reward(
    positions: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    cart: wp.int32,
    pole: wp.int32,
    terminated: wp.array[wp.bool],
    dt: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    ended = wp.float32(terminated[env])
    rate = (
        (1.0 - ended)
        - 2.0 * ended
        - square(wrap_to_pi(positions[env, pole]))
        - 0.01 * wp.abs(velocities[env, cart])
        - 0.005 * wp.abs(velocities[env, pole])
    )
    out[env] = rate * dt


@wp.kernel
def _end(
    positions: wp.array2d[wp.float32],
    cart: wp.int32,
    max_cart_pos: wp.float32,
    steps: wp.array[wp.int64],
    longest: wp.int64,
    terminated: wp.array[wp.bool],
    time_outs: wp.array[wp.bool],
):
    env = wp.tid()
    terminated[env] = wp.abs(positions[env, cart]) > max_cart_pos
    time_outs[env] = steps[env] >= longest


@wp.kernel
def _note_survival(time_outs: wp.array[wp.bool], survived: wp.array2d[wp.float32]):
    env = wp.tid()
    survived[env, 0] = wp.float32(time_outs[env])
