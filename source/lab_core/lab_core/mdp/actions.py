"""Actions that drive joints."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.config import MISSING, Finite, Share
from lab_core.env import Env
from lab_core.managers import ActionTerm, ActionTermCfg, SceneEntityCfg, TermError
from lab_core.masks import masked_copy_
from lab_core.names import values_by_name


@dataclass(kw_only=True)
class JointActionCfg(ActionTermCfg):
    """processed = clip(scale * raw + offset), one column per joint."""

    joint_names: str | Sequence[str] = MISSING
    """Names or regular expressions of the joints."""
    preserve_order: bool = False
    """Columns follow the given names instead of the order of the entity."""
    scale: Finite | Mapping[str, Finite] = 1.0
    """One number or numbers by joint name; joints not named have 1."""
    offset: Finite | Mapping[str, Finite] = 0.0
    """One number or numbers by joint name; joints not named have 0."""
    clip: float | tuple[float, float] | Mapping[str, tuple[float, float]] | None = None
    """Bounds of the processed action: plus and minus one number, (low, high), or (low, high) by joint name."""

    def added(self, env: Any, joint_ids: Sequence[int] | slice) -> torch.Tensor | None:
        """Returns what is added before the clip in ``env``, which may be imagined: (K, columns) for these joints; None:
        nothing."""
        return None


class JointAction(ActionTerm):
    """Base of the joint actions: scale, offset and clip. Subclasses write the result to their target."""

    def __init__(self, cfg: JointActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._joints = SceneEntityCfg(cfg.asset_name, joint_names=cfg.joint_names, preserve_order=cfg.preserve_order)
        self._joints.resolve(env.scene)
        ids = self._asset.find_joints(cfg.joint_names, preserve_order=cfg.preserve_order)
        self.joint_names = [self._asset.joint_names[i] for i in ids]
        """Joint of every column."""
        self._warn_of_joints_without_actuator()
        self._processed_actions = torch.zeros(env.num_envs, len(ids), device=env.device)
        self._allocate()
        self.set_cfg(cfg)

    def _allocate(self) -> None:
        """Makes the buffers that :meth:`set_cfg` fills, of one number per column."""
        settings = torch.zeros(4, self.action_dim, device=self._env.device).unbind()
        self._scale, self._offset, self._low, self._high = map(self.scratch, settings)

    @property
    def action_dim(self) -> int:
        return len(self.joint_names)

    @property
    def processed_actions(self) -> torch.Tensor:
        return self._processed_actions

    def set_cfg(self, cfg: JointActionCfg) -> None:
        """Takes over new scale, offset and clip; the joints are fixed."""
        for field in ("asset_name", "joint_names", "preserve_order"):
            if getattr(cfg, field) != getattr(self.cfg, field):
                raise TermError(f"{field} cannot change while the environment runs.")
        what = f"joint of {cfg.asset_name!r}"
        scale = values_by_name(cfg.scale, self.joint_names, what=what, default=1.0)
        offset = values_by_name(cfg.offset, self.joint_names, what=what)
        low, high = self._bounds(cfg, what)
        for buffer, values in (
            (self._scale, scale),
            (self._offset, offset),
            (self._low, low),
            (self._high, high),
        ):
            buffer.copy_(torch.tensor(values))
        self.cfg = cfg

    def process_actions(self, actions: torch.Tensor) -> None:
        torch.addcmul(self._offset, actions, self._scale, out=self._processed_actions)
        default = self._default()
        if default is not None:
            self._processed_actions.add_(default)
        if self.cfg.clip is not None:
            torch.clamp(self._processed_actions, self._low, self._high, out=self._processed_actions)

    def processed_for(self, env: Any, actions: torch.Tensor) -> torch.Tensor:
        processed = self._offset.to(actions.dtype) + self._scale.to(actions.dtype) * actions
        added = self.cfg.added(env, self._joints.joint_ids)
        processed = processed if added is None else processed + added
        return processed if self.cfg.clip is None else processed.clamp(self._low, self._high)

    def reset(self, mask: torch.Tensor) -> None:
        masked_copy_(self._processed_actions, 0.0, mask)

    @abstractmethod
    def apply_actions(self) -> None: ...

    def _warn_of_joints_without_actuator(self) -> None:
        entity = self._asset
        groups = entity.cfg.actuators.values()
        driven = {entity.joint_names[joint] for group in groups for joint in entity.find_joints(group.joint_names)}
        idle = [name for name in self.joint_names if name not in driven]
        if idle:
            warnings.warn(
                f"{type(self).__name__}: no actuator of {entity.name!r} drives {', '.join(idle)}: actions there have "
                f"no effect. Its actuators drive: {', '.join(sorted(driven)) or 'nothing'}.",
                stacklevel=3,
            )

    def _default(self) -> torch.Tensor | None:
        """(N, action_dim) that is added to the processed action before the clip, or None."""
        return self.cfg.added(self._env, self._joints.joint_ids)

    def _bounds(self, cfg: JointActionCfg, what: str) -> tuple[list[float], list[float]]:
        clip = cfg.clip
        if isinstance(clip, Mapping):
            bounds = dict(clip)
        else:
            if clip is None:
                clip = math.inf
            bounds = {".*": clip if isinstance(clip, (tuple, list)) else (-clip, clip)}
        for name, pair in bounds.items():
            if len(pair) != 2 or not pair[0] <= pair[1]:
                raise TermError(f"clip of {name!r} must be (low, high) with low <= high, got {pair!r}.")
        low = values_by_name(
            {name: pair[0] for name, pair in bounds.items()}, self.joint_names, what=what, default=-math.inf
        )
        high = values_by_name(
            {name: pair[1] for name, pair in bounds.items()}, self.joint_names, what=what, default=math.inf
        )
        return low, high


@dataclass(kw_only=True)
class JointEffortActionCfg(JointActionCfg):
    """See :class:`JointEffortAction`."""

    def build(self, env: Env) -> JointEffortAction:
        return JointEffortAction(self, env)


class JointEffortAction(JointAction):
    """Feed-forward effort [N m or N], added to what the actuator computes."""

    def apply_actions(self) -> None:
        self._asset.data.joint_effort_target[:, self._joints.joint_ids] = self._processed_actions


@dataclass(kw_only=True)
class JointPositionActionCfg(JointActionCfg):
    """See :class:`JointPositionAction`."""

    use_default_offset: bool = True
    """Add each environment's default joint positions to the offset."""

    def added(self, env: Any, joint_ids: Sequence[int] | slice) -> torch.Tensor | None:
        return env.scene[self.asset_name].data.default_joint_pos[:, joint_ids] if self.use_default_offset else None

    def build(self, env: Env) -> JointPositionAction:
        return JointPositionAction(self, env)


class JointPositionAction(JointAction):
    """Position target [rad or m]."""

    def apply_actions(self) -> None:
        self._asset.data.joint_pos_target[:, self._joints.joint_ids] = self._processed_actions


@dataclass(kw_only=True)
class RelativeJointPositionActionCfg(JointActionCfg):
    """See :class:`RelativeJointPositionAction`."""

    def build(self, env: Env) -> RelativeJointPositionAction:
        return RelativeJointPositionAction(self, env)


class RelativeJointPositionAction(JointAction):
    """Position target [rad or m] relative to the joint position at the beginning of the environment step."""

    def apply_actions(self) -> None:
        data, ids = self._asset.data, self._joints.joint_ids
        data.joint_pos_target[:, ids] = data.joint_pos[:, ids] + self._processed_actions


@dataclass(kw_only=True)
class JointVelocityActionCfg(JointActionCfg):
    """See :class:`JointVelocityAction`."""

    use_default_offset: bool = True
    """Add each environment's default joint velocities to the offset."""

    def added(self, env: Any, joint_ids: Sequence[int] | slice) -> torch.Tensor | None:
        return env.scene[self.asset_name].data.default_joint_vel[:, joint_ids] if self.use_default_offset else None

    def build(self, env: Env) -> JointVelocityAction:
        return JointVelocityAction(self, env)


class JointVelocityAction(JointAction):
    """Velocity target [rad/s or m/s]."""

    def apply_actions(self) -> None:
        self._asset.data.joint_vel_target[:, self._joints.joint_ids] = self._processed_actions


@dataclass(kw_only=True)
class EMAJointPositionToLimitsActionCfg(JointActionCfg):
    """See :class:`EMAJointPositionToLimitsAction`."""

    alpha: Share | Mapping[str, Share] = 1.0
    """Share of the new target, the rest is the previous one; one number or numbers by joint name, 1 for joints that
    are not named."""

    def build(self, env: Env) -> EMAJointPositionToLimitsAction:
        return EMAJointPositionToLimitsAction(self, env)


class EMAJointPositionToLimitsAction(JointAction):
    """Position target [rad or m] between the soft limits of the joint, smoothed by a moving average.

    With a = clip(scale * raw + offset), once per environment step::

        target = clamp(alpha * (low + (a + 1) / 2 * (high - low)) + (1 - alpha) * previous target, low, high)

    so that -1 is the lower and 1 the upper limit. After a reset the previous target is the joint's position.

    Raises:
        TermError: a joint has no limits.
    """

    def __init__(self, cfg: EMAJointPositionToLimitsActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        limits = self._asset.data.soft_joint_pos_limits[:, self._joints.joint_ids]
        unlimited = (~limits.isfinite()).any(dim=-1).any(dim=0).tolist()
        if any(unlimited):
            names = ", ".join(name for name, is_so in zip(self.joint_names, unlimited, strict=True) if is_so)
            raise TermError(f"{type(self).__name__} needs limits, which {names} of {cfg.asset_name!r} has not.")

    def _allocate(self) -> None:
        super()._allocate()
        self._alpha = self.scratch(torch.ones(self.action_dim, device=self._env.device))

    def set_cfg(self, cfg: EMAJointPositionToLimitsActionCfg) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().set_cfg(cfg)
        alpha = values_by_name(cfg.alpha, self.joint_names, what=f"joint of {cfg.asset_name!r}", default=1.0)
        self._alpha.copy_(torch.tensor(alpha))

    def process_actions(self, actions: torch.Tensor) -> None:
        low, high = self._asset.data.soft_joint_pos_limits[:, self._joints.joint_ids].unbind(dim=-1)
        share = torch.addcmul(self._offset, actions, self._scale).clamp(self._low, self._high)
        target = low + 0.5 * (share + 1.0) * (high - low)
        smoothed = self._alpha * target + (1.0 - self._alpha) * self._processed_actions
        self._processed_actions.copy_(smoothed.clamp(low, high))

    def apply_actions(self) -> None:
        self._asset.data.joint_pos_target[:, self._joints.joint_ids] = self._processed_actions

    def processed_for(self, env: Any, actions: torch.Tensor) -> torch.Tensor:
        raise TermError(f"{type(self).__name__} remembers its targets, which an imagined environment does not.")

    def reset(self, mask: torch.Tensor) -> None:
        """Takes the position of the joints for the previous targets of the environments in ``mask`` (N,) bool."""
        masked_copy_(self._processed_actions, self._asset.data.joint_pos[:, self._joints.joint_ids], mask)
