"""Joint targets to joint efforts, by Newton's actuator models on the buffers of an entity."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp
from newton.actuators import Actuator, ClampingDCMotor, DrivePD

from lab_newton.entity import Entity


def make_actuators(entity: Entity, model: newton.Model) -> list[Actuator]:
    """Returns the actuators of ``entity``.

    One PD actuator with a motor's torque-speed line covers all joints: it reads gains and limits from the buffers of
    the entity, so that writing there acts at once. An infinite line leaves the clip to the effort limit. Joints without
    an actuator have gains and limit 0, hence no effort.
    """
    data, layout = entity.data.warp, entity.layout
    if not layout.joint_names:
        return []
    motor_curve = ClampingDCMotor(
        saturation_effort=data.joint_saturation_efforts.flatten(),
        velocity_limit=data.joint_velocity_limits.flatten(),
        max_motor_effort=data.joint_effort_limits.flatten(),
    )
    return [
        Actuator(
            indices=_flat_indices(layout.joint_dof, model.joint_dof_count, entity),
            pos_indices=_flat_indices(layout.joint_coord, model.joint_coord_count, entity),
            drive=DrivePD(kp=data.joint_stiffness.flatten(), kd=data.joint_damping.flatten()),
            clamping=[motor_curve],
        )
    ]


def _flat_indices(places: tuple[int, ...], total: int, entity: Entity) -> wp.array:
    """Places inside one world's slice -> indices into the array of all worlds, world by world."""
    per_world = total // entity.num_envs
    indices = np.arange(entity.num_envs)[:, None] * per_world + np.asarray(places)[None, :]
    return wp.array(indices.reshape(-1).astype(np.uint32), dtype=wp.uint32, device=entity.device)
