"""Joint targets to joint efforts, by Newton's actuator models on the buffers of an entity."""

from __future__ import annotations

import newton
import numpy as np
import torch
import warp as wp
from newton.actuators import Actuator, ClampingBase, ClampingDCMotor

from lab_core.scene import LSTMActuatorCfg, RemotizedPDActuatorCfg, actuated_joints
from lab_newton.actuators.delay import TargetDelay
from lab_newton.actuators.limits import ClampingByPosition
from lab_newton.actuators.network import DriveNetwork, DrivePDOrNetwork
from lab_newton.state.entity import Entity


class EntityActuators:
    """All actuators of an entity, as one Newton actuator over its joints.

    Late targets -> PD law or network -> effort limits -> ``Control.joint_f``. Gains and motor limits are read from the
    buffers of the entity, so that writing there acts at once. An infinite torque-speed line leaves the clip to the
    effort limit; joints without an actuator have gains and limit 0, hence no effort.

    Newton's own delay is not used: it passes the first targets after a reset without delay, and keeps two copies of its
    line.
    """

    def __init__(self, entity: Entity, model: newton.Model) -> None:
        data, layout = entity.data.warp, entity.layout
        groups = [
            (actuator, joints)
            for group, joints in actuated_joints(entity.name, entity.cfg, layout.joint_names).items()
            for actuator in [entity.cfg.actuators[group]]
        ]
        networks = [
            DriveNetwork(f"Actuator of {layout.joint_names[joints[0]]!r}", actuator.network_file, joints, entity)
            for actuator, joints in groups
            if isinstance(actuator, LSTMActuatorCfg)
        ]
        tables = [
            (joints, actuator.effort_limit_by_position)
            for actuator, joints in groups
            if isinstance(actuator, RemotizedPDActuatorCfg)
        ]
        lags = [(joints, actuator.min_delay, actuator.max_delay) for actuator, joints in groups if actuator.max_delay]
        limits: list[ClampingBase] = [ClampingByPosition(tables, len(layout.joint_names), model.device)]
        motor_curve = ClampingDCMotor(
            saturation_effort=data.joint_saturation_efforts.flatten(),
            velocity_limit=data.joint_velocity_limits.flatten(),
            max_motor_effort=data.joint_effort_limits.flatten(),
        )
        self._delay = TargetDelay(lags, entity, model) if lags else None
        self._networks = networks
        self._actuator = Actuator(
            indices=_flat_indices(layout.joint_dof, model.joint_dof_count, entity),
            pos_indices=_flat_indices(layout.joint_coord, model.joint_coord_count, entity),
            drive=DrivePDOrNetwork(data.joint_stiffness.flatten(), data.joint_damping.flatten(), networks),
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
        """Forgets targets and networks' memories of the worlds of ``mask`` (N,) and draws their lags anew."""
        if self._delay is not None:
            self._delay.reset(mask, random_state)
        for network in self._networks:
            network.reset(mask)

    def memory(self) -> dict[str, torch.Tensor]:
        """What is carried from step to step, in rows of worlds, by name."""
        memory = {} if self._delay is None else self._delay.memory()
        for i, network in enumerate(self._networks):
            memory |= {f"network_{i}.{name}": tensor for name, tensor in network.memory().items()}
        return memory


def _flat_indices(places: tuple[int, ...], total: int, entity: Entity) -> wp.array:
    """Places inside one world's slice -> indices into the array of all worlds, world by world."""
    per_world = total // entity.num_envs
    indices = np.arange(entity.num_envs)[:, None] * per_world + np.asarray(places)[None, :]
    return wp.array(indices.reshape(-1).astype(np.uint32), dtype=wp.uint32, device=entity.device)
