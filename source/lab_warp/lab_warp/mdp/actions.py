"""Twins of :mod:`lab_core.mdp.actions`, which says what they do.

Scale, offset and clip live on the device: a new configuration acts without a new capture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import warp as wp

from lab_core import mdp
from lab_core.mdp import JointAction, JointActionCfg
from lab_warp.env import WarpEnv
from lab_warp.mdp import actions_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import joint_index, share


@dataclass
class JointActionArrays:
    """Buffers of a joint action, for kernels."""

    processed_actions: wp.array
    """(N, D)."""
    scale: wp.array
    """(D,), as the next three."""
    offset: wp.array
    low: wp.array
    high: wp.array
    adds_default: wp.array
    """(1,) bool, whether the entity's default is added too."""


class JointActionWarp(JointAction):
    """Takes the action, writes the target and resets in kernels; names and settings are those of the torch term."""

    _env: WarpEnv
    _target: ClassVar[str]
    """Buffer of the articulation that the action drives."""
    _default_values: ClassVar[str] = "default_joint_pos"
    """Buffer that is added where the configuration has ``use_default_offset``."""

    def __init__(self, cfg: JointActionCfg, env: WarpEnv) -> None:
        self._adds_default = self.scratch(torch.zeros(1, dtype=torch.bool, device=env.device))
        super().__init__(cfg, env)
        self._arrays = share(JointActionArrays, self)

    def set_cfg(self, cfg: JointActionCfg) -> None:
        super().set_cfg(cfg)
        self._adds_default.fill_(getattr(cfg, "use_default_offset", False))

    def process_actions(self, actions: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Makes targets of the columns of this term (N, action_dim) float32."""
        term = self._arrays
        wp.launch(
            kernels.process,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[
                actions,
                term.scale,
                term.offset,
                term.low,
                term.high,
                term.adds_default,
                getattr(self._asset.data.warp, self._default_values),
                joint_index(self._joints),
            ],
            outputs=[term.processed_actions],
            device=self._env.wp_device,
        )

    def apply_actions(self) -> None:
        wp.launch(
            kernels.write_target,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[self._arrays.processed_actions, joint_index(self._joints)],
            outputs=[getattr(self._asset.data.warp, self._target)],
            device=self._env.wp_device,
        )

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Zeroes the targets of the environments in ``mask`` (N,) wp.bool."""
        wp.launch(
            kernels.clear,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[mask],
            outputs=[self._arrays.processed_actions],
            device=self._env.wp_device,
        )


@twin_of(mdp.JointEffortActionCfg)
class JointEffortActionWarp(JointActionWarp):
    _target = "joint_effort_target"


@twin_of(mdp.JointPositionActionCfg)
class JointPositionActionWarp(JointActionWarp):
    _target = "joint_pos_target"


@twin_of(mdp.JointVelocityActionCfg)
class JointVelocityActionWarp(JointActionWarp):
    _target = "joint_vel_target"
    _default_values = "default_joint_vel"


@twin_of(mdp.RelativeJointPositionActionCfg)
class RelativeJointPositionActionWarp(JointActionWarp):
    _target = "joint_pos_target"

    def apply_actions(self) -> None:
        data = self._asset.data.warp
        wp.launch(
            kernels.write_relative_target,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[self._arrays.processed_actions, joint_index(self._joints), data.joint_pos],
            outputs=[data.joint_pos_target],
            device=self._env.wp_device,
        )


@twin_of(mdp.EMAJointPositionToLimitsActionCfg)
class EMAJointPositionToLimitsActionWarp(JointActionWarp, mdp.EMAJointPositionToLimitsAction):  # pyright: ignore[reportIncompatibleMethodOverride]
    _target = "joint_pos_target"

    def process_actions(self, actions: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        term = self._arrays
        wp.launch(
            kernels.smooth_between_limits,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[
                actions,
                term.scale,
                term.offset,
                term.low,
                term.high,
                wp.from_torch(self._alpha),
                self._asset.data.warp.soft_joint_pos_limits,
                joint_index(self._joints),
            ],
            outputs=[term.processed_actions],
            device=self._env.wp_device,
        )

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        wp.launch(
            kernels.take_positions,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[mask, joint_index(self._joints), self._asset.data.warp.joint_pos],
            outputs=[self._arrays.processed_actions],
            device=self._env.wp_device,
        )
