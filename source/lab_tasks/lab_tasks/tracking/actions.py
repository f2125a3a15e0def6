"""Joint positions around those of a motion."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.config import MISSING
from lab_core.env import Env
from lab_core.mdp import JointPositionAction, JointPositionActionCfg
from lab_tasks.tracking.motion_command import MotionCommand


@dataclass(kw_only=True)
class MotionJointPositionActionCfg(JointPositionActionCfg):
    """See :class:`MotionJointPositionAction`."""

    command_name: str = MISSING
    """A motion command."""
    use_default_offset: bool = False
    """True: around the default joint positions instead of those of the motion."""

    def build(self, env: Env) -> MotionJointPositionAction:
        return MotionJointPositionAction(self, env)


class MotionJointPositionAction(JointPositionAction):
    """Position target [rad]: that of the joint in the frame that the policy is shown, plus scale times action.

    Where the default joint positions are randomised, as zeros that are not quite known, the target is off by as much.
    """

    cfg: MotionJointPositionActionCfg

    def __init__(self, cfg: MotionJointPositionActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._nominal = self.scratch(self._asset.data.default_joint_pos[:, self._joints.joint_ids].clone())

    def _default(self) -> torch.Tensor | None:
        default = super()._default()
        if default is not None:
            return default
        command = self._env.command_manager.get_term(self.cfg.command_name)  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(command, MotionCommand)
        ids = self._joints.joint_ids
        return command.target.joint_pos[:, ids] + self._asset.data.default_joint_pos[:, ids] - self._nominal
