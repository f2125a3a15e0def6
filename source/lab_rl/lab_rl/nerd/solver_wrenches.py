"""Wrenches in the joints that the teacher's own solver finds in recorded steps."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from lab_core.envs import make_env
from lab_core.math import quat_apply
from lab_core.scene import IdealPDActuatorCfg
from lab_core.sensors import JointWrenchCfg, JointWrenchData
from lab_newton.nerd import RobotLayout
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.replays import begin_at, without_ends

_SENSOR = "joint_wrenches"


@dataclass(frozen=True)
class SolverWrenches:
    """What a solver says of B steps and P parts, world frame."""

    force: Tensor
    """(B, P, 3) that each part receives from its parent [N]."""
    torque: Tensor
    """(B, P, 3) the same about the part's centre of mass [N m]."""
    off: Tensor
    """(B,) most by which a velocity at the end differs from the recorded one [m/s or rad/s]: how far this is the step
    that was recorded. A solver begins its search anew here, and in the recording where the step before had ended."""

    def select(self, rows: slice) -> SolverWrenches:
        """Returns those of some of the steps."""
        return SolverWrenches(self.force[rows], self.torque[rows], self.off[rows])


@torch.no_grad()
def solver_wrenches(
    cfg: Any,
    steps: PhysicsSteps,
    rows: Tensor,
    layout: RobotLayout,
    entity: str,
    part_names: Sequence[str],
    device: str,
) -> SolverWrenches:
    """Makes recorded steps once more, each in a world of its own, with the recorded efforts.

    Args:
        cfg: Configuration of the environment of the recording.
        steps: Recorded steps.
        rows: (B,) which of them.
        layout: The robot, with a free root.
        entity: Its name in the scene.
        part_names: Bodies whose wrenches are wanted.
        device: Where to compute.

    Raises:
        ConfigError: the solver does not say what forces act in joints.
    """
    cfg = without_ends(copy.deepcopy(cfg), len(rows))
    cfg.scene.sensors[_SENSOR] = JointWrenchCfg(entity=entity, body_names=tuple(part_names))
    cfg.scene.entities[entity].actuators = {"recorded": IdealPDActuatorCfg(joint_names=(".*",))}
    env = make_env(cfg, device, "torch")
    try:
        begin_at(env, steps.to(device), layout, entity, rows.to(device))
        robot, sensor = env.scene[entity].data, cast(JointWrenchData, env.scene.sensor(_SENSOR))
        assert sensor.body_names == tuple(part_names)
        bodies = [robot.body_names.index(name) for name in part_names]
        turn = robot.body_link_pose_w[:, bodies, 3:7].clone()
        robot.joint_effort_target.copy_(steps.effort[rows])
        env.physics.step(1)
        force, torque = (quat_apply(turn, part) for part in sensor.wrench_b.split(3, dim=-1))
        velocity = torch.cat((robot.root_com_vel_w, robot.joint_vel), dim=-1)
        off = (velocity - steps.qd_next[rows].to(device)).abs().amax(dim=-1)
        return SolverWrenches(force, torque, off)
    finally:
        env.close()
