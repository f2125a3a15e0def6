"""Joint targets to joint efforts, by Newton's actuator models on the buffers of an entity."""

from __future__ import annotations

import newton
import numpy as np
import torch
import warp as wp
from newton.actuators import Actuator, ClampingBase, ClampingDCMotor

from lab_core.scene import actuated_joints
from lab_newton.actuators.delay import TargetDelay
from lab_newton.actuators.drive import DrivePDAndOthers, make_drive
from lab_newton.actuators.limits import ClampingByPosition
from lab_newton.state import NewtonEntity


class EntityActuators:
    """All actuators of an entity, as one Newton actuator over its joints.

    Late targets -> PD law and drives -> effort limits -> ``Control.joint_f``. Gains and motor limits are read from the
    buffers of the entity, so that writing there acts at once. An infinite torque-speed line leaves the clip to the
    effort limit; joints without an actuator have gains and limit 0, hence no effort.

    Newton's own delay is not used: it passes the first targets after a reset without delay, and keeps two copies of its
    line.
    """

    def __init__(self, entity: NewtonEntity, model: newton.Model) -> None:
        data, layout = entity.data.warp, entity.layout
        groups = [
            (entity.actuators[group], joints)
            for group, joints in actuated_joints(entity.name, entity.actuators, layout.joint_names).items()
        ]
        drives = [drive for cfg, joints in groups if (drive := make_drive(cfg, joints, entity)) is not None]
        tables = [(joints, table) for cfg, joints in groups if (table := cfg.limits_by_position())]
        lags = [(joints, cfg.min_delay, cfg.max_delay) for cfg, joints in groups if cfg.max_delay]
        limits: list[ClampingBase] = [ClampingByPosition(tables, len(layout.joint_names), model.device)]
        motor_curve = ClampingDCMotor(
            saturation_effort=data.joint_saturation_efforts.flatten(),
            velocity_limit=data.joint_velocity_limits.flatten(),
            max_motor_effort=data.joint_effort_limits.flatten(),
        )
        self._delay = TargetDelay(lags, entity, model) if lags else None
        self._drives = drives
        self._actuator = Actuator(
            indices=_flat_indices(layout.joint_dof, model.joint_dof_count, entity),
            pos_indices=_flat_indices(layout.joint_coord, model.joint_coord_count, entity),
            drive=DrivePDAndOthers(data.joint_stiffness.flatten(), data.joint_damping.flatten(), drives),
            clamping=[motor_curve, *(limits if tables else [])],
        )

    def step(self, state: newton.State, control: newton.Control, dt: float) -> None:
        """Adds the efforts of one physics step of ``dt`` [s] to ``control.joint_f``."""
        if self._delay is not None:
            self._delay.step(control)
        self._actuator.step(state, control, dt=dt)

    def refresh(self) -> None:
        """Takes over targets that were written after a reset and before the first step."""
        if self._delay is not None:
            self._delay.refresh()

    def reset(self, mask: wp.array, random_state: wp.array) -> None:
        """Forgets targets and drives' memories of the worlds of ``mask`` (N,) and draws their lags anew."""
        if self._delay is not None:
            self._delay.reset(mask, random_state)
        for drive in self._drives:
            drive.reset(mask)

    def memory(self) -> dict[str, torch.Tensor]:
        """What is carried from step to step, in rows of worlds, by name."""
        memory = {} if self._delay is None else self._delay.memory()
        for i, drive in enumerate(self._drives):
            memory |= {f"drive_{i}.{name}": tensor for name, tensor in drive.memory().items()}
        return memory


def _flat_indices(places: tuple[int, ...], total: int, entity: NewtonEntity) -> wp.array:
    """Places inside one world's slice -> indices into the array of all worlds, world by world."""
    per_world = total // entity.num_envs
    indices = np.arange(entity.num_envs)[:, None] * per_world + np.asarray(places)[None, :]
    return wp.array(indices.reshape(-1).astype(np.uint32), dtype=wp.uint32, device=entity.device)
