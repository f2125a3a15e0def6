"""Joint positions around those of a motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.config import MISSING
from lab_core.env import Env
from lab_core.mdp import JointActionCfg, JointPositionAction, JointPositionActionCfg
from lab_tasks.tracking.motion_target import motion_command


@dataclass(kw_only=True)
class MotionJointPositionActionCfg(JointPositionActionCfg):
    """See :class:`MotionJointPositionAction`."""

    command_name: str = MISSING
    """A motion command."""
    use_default_offset: bool = False
    """True: around the default joint positions instead of those of the motion."""

    def added(self, env: Any, joint_ids: Sequence[int] | slice) -> torch.Tensor:
        default = env.scene[self.asset_name].data.default_joint_pos[:, joint_ids]
        if self.use_default_offset:
            return default
        return motion_command(env, self.command_name).target.joint_pos[:, joint_ids] + default

    def build(self, env: Env) -> MotionJointPositionAction:
        return MotionJointPositionAction(self, env)


class MotionJointPositionAction(JointPositionAction):
    """Position target [rad]: that of the joint in the frame that the policy is shown, plus scale times action.

    Where the default joint positions are randomised, as zeros that are not quite known, the target is off by as much:
    the environment's default is added, and the offset of the columns takes off that of the robot as configured.
    """

    def __init__(self, cfg: MotionJointPositionActionCfg, env: Env) -> None:
        self._nominal = self.scratch(env.scene[cfg.asset_name].data.default_joint_pos[0].clone())
        super().__init__(cfg, env)

    def set_cfg(self, cfg: JointActionCfg) -> None:
        super().set_cfg(cfg)
        if not getattr(cfg, "use_default_offset", False):
            self._offset.sub_(self._nominal[self._joints.joint_ids])
