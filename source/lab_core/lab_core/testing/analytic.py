"""A cart-pole in closed form, in torch: real dynamics in microseconds, for tests of everything above the physics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.errors import LabError
from lab_core.kinematics import KinematicTree
from lab_core.masks import masked_copy_
from lab_core.physics.backend import HealthReport, PhysicsBackend, PhysicsCfg
from lab_core.physics.fingerprint import Fingerprint, plain
from lab_core.physics.traces import ENTITY_FIELDS, TraceBuffers
from lab_core.scene import ArticulationCfg, ArticulationData
from lab_core.scene.actuators import ActuatorCfg, DCMotorActuatorCfg, IdealPDActuatorCfg, clip_to_motor_curve
from lab_core.scene.defaults import fill_defaults
from lab_core.scene.described import actuator_fields
from lab_core.scene.scene import SceneCfg

CART_MASS = 1.0
POLE_MASS = 1.0
POLE_COM = 0.47
"""Distance from the hinge to the pole's centre of mass [m]."""
POLE_INERTIA = 0.304533333
"""About the hinge [kg m^2]."""
HINGE_OFFSET_X = 0.12
RAIL_LIMIT = 4.0


@dataclass(kw_only=True)
class AnalyticCartpoleCfg(PhysicsCfg):
    """Settings of :class:`AnalyticCartpoleBackend`."""

    backend: str = "analytic"


class AnalyticCartpoleBackend(PhysicsBackend):
    """One cart on a rail along world y, with a free pole that turns about x.

    M(q) [x'', theta''] = effort - bias with M = [[m_c + m_p, -m_p l cos], [-m_p l cos, I]] and
    bias = [m_p l sin theta'^2, -m_p g l sin], integrated by the semi-implicit Euler rule. There are no contacts and
    the rail has no end stops. The entity may have any name; its model file is not read.
    """

    def __init__(self, cfg: PhysicsCfg, scene: SceneCfg, num_envs: int, device: torch.device) -> None:
        super().__init__(cfg, scene, num_envs, device)
        if len(scene.entities) != 1:
            raise LabError(f"The analytic backend holds one cart-pole, the scene has {sorted(scene.entities)}.")
        if scene.sensors:
            raise LabError(f"The analytic backend has no sensors, the scene asks for {sorted(scene.sensors)}.")
        ((name, entity),) = scene.entities.items()
        if not isinstance(entity, ArticulationCfg):
            raise LabError(f"The analytic backend holds articulations, {name!r} is a {type(entity).__name__}.")
        data = ArticulationData(
            num_envs, ("slider_to_cart", "cart_to_pole"), ("slider", "cart", "pole"), fixed_base=True, device=device
        )
        self.entities[name] = self._data = data
        self._non_finite_count = torch.zeros((), dtype=torch.int64, device=device)
        self._traces, self._row = TraceBuffers(), 0
        data.joint_pos_limits[:, 0] = torch.tensor([-RAIL_LIMIT, RAIL_LIMIT])
        data.joint_pos_limits[:, 1] = torch.tensor([-math.inf, math.inf])
        data.body_mass.copy_(torch.tensor([7.2, CART_MASS, POLE_MASS]))
        data.body_com_pos_b[:, 2, 2] = POLE_COM
        fill_defaults(name, entity, data)
        for group, actuator in entity.actuators.items():
            _require_plain_motor(f"Actuator group {group!r} of {name!r}", actuator)
        self._fingerprint = self._describe(name, entity, scene)
        self._rebuild()

    def fingerprint(self) -> Fingerprint:
        return super().fingerprint() | self._fingerprint

    def kinematic_tree(self, entity: str) -> KinematicTree:
        data, (x, y, z) = self.entities[entity], self._data.default_root_pose[0, :3].tolist()
        level = (0.0, 0.0, 0.0, 1.0)
        return KinematicTree(
            body_names=data.body_names,
            parents=(-1, 0, 1),
            body_joints=(-1, 0, 1),
            parent_frames=((x, y, z, *level), (0.0, 0.0, 0.0, *level), (HINGE_OFFSET_X, 0.0, 0.0, *level)),
            child_frames=((0.0, 0.0, 0.0, *level),) * 3,
            centers_of_mass=((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, POLE_COM)),
            joint_names=data.joint_names,
            joint_kinds=("slide", "hinge"),
            joint_axes=((0.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
            free_root=False,
        )

    def _describe(self, name: str, entity: ArticulationCfg, scene: SceneCfg) -> Fingerprint:
        data = self._data
        bodies = zip(data.body_names, data.body_mass[0], data.body_com_pos_b[0], strict=True)
        joints = zip(data.joint_names, data.joint_pos_limits[0], strict=True)
        robot = {
            "bodies": {body: {"mass": mass, "center_of_mass": com} for body, mass, com in bodies},
            "joints": {joint: {"lower": lower, "upper": upper} for joint, (lower, upper) in joints},
        }
        return plain(
            {
                "robot": {name: robot},
                "actuators": {name: actuator_fields(name, entity.actuators, data.joint_names)},
                "materials": {"ground": None if scene.ground is None else scene.ground.friction},
            }
        )

    def step(self, substeps: int) -> None:
        data = self._data
        before = data.joint_vel.clone()
        if substeps >= self._traces.substeps:
            self._row = 0
        for _ in range(substeps):
            self._substep()
            self._row += 1
        torch.logical_not((data.joint_pos.isfinite() & data.joint_vel.isfinite()).all(-1), out=self.non_finite)
        self._non_finite_count += self.non_finite.sum()
        data.write_default_state(self.env_origins, self.non_finite)
        masked_copy_(before, data.default_joint_vel, self.non_finite)
        data.joint_acc.copy_((data.joint_vel - before) / (substeps * self.dt))
        self._refresh(torch.ones_like(self.non_finite))

    def trace(self, owner: str, field: str, substeps: int) -> torch.Tensor:
        sources = {
            name: {quantity: getattr(data, quantity) for quantity in ENTITY_FIELDS}
            for name, data in self.entities.items()
        }
        self._traces.request(owner, field, substeps, sources)
        return self._traces.rows[owner, field]

    def _substep(self) -> None:
        self._act()
        self._traces.record(self._row, entering=True)
        self._integrate()
        self._traces.record(self._row, entering=False)

    def _act(self) -> None:
        data = self._data
        effort = data.joint_stiffness * (data.joint_pos_target - data.joint_pos)
        effort += data.joint_damping * (data.joint_vel_target - data.joint_vel) + data.joint_effort_target
        limits = (data.joint_effort_limits, data.joint_saturation_efforts, data.joint_velocity_limits)
        data.applied_effort.copy_(clip_to_motor_curve(effort, data.joint_vel, *limits))

    def _integrate(self) -> None:
        data = self._data
        angle, angular_velocity = data.joint_pos[:, 1], data.joint_vel[:, 1]
        gravity = -self.cfg.gravity[2]
        lever = POLE_MASS * POLE_COM
        coupling = -lever * torch.cos(angle)
        force = data.applied_effort[:, 0] - lever * torch.sin(angle) * angular_velocity**2
        torque = data.applied_effort[:, 1] + lever * gravity * torch.sin(angle)
        mass = CART_MASS + POLE_MASS
        determinant = mass * POLE_INERTIA - coupling**2
        data.joint_vel[:, 0] += self.dt * (POLE_INERTIA * force - coupling * torque) / determinant
        data.joint_vel[:, 1] += self.dt * (mass * torque - coupling * force) / determinant
        data.joint_pos.add_(self.dt * data.joint_vel)

    def _refresh(self, mask: torch.Tensor) -> None:
        data = self._data
        x, angle = data.joint_pos.unbind(-1)
        root = data.default_root_pose
        poses = torch.zeros_like(data.body_link_pose_w)
        poses[..., :3] = root[:, None, :3]
        poses[..., 6] = 1.0
        poses[:, 1:, 1] += x[:, None]
        poses[:, 2, 0] += HINGE_OFFSET_X
        poses[:, 2, 3], poses[:, 2, 6] = torch.sin(angle / 2), torch.cos(angle / 2)
        velocities = torch.zeros_like(data.body_com_vel_w)
        velocities[:, 1:, 1] = data.joint_vel[:, :1]
        velocities[:, 2, 1] -= POLE_COM * torch.cos(angle) * data.joint_vel[:, 1]
        velocities[:, 2, 2] = -POLE_COM * torch.sin(angle) * data.joint_vel[:, 1]
        velocities[:, 2, 3] = data.joint_vel[:, 1]
        masked_copy_(data.body_link_pose_w, poses, mask)
        masked_copy_(data.body_com_vel_w, velocities, mask)

    def reset(self, mask: torch.Tensor) -> None:
        """Does nothing: the closed form remembers nothing besides the state."""

    def forward(self) -> None:
        self._refresh(self.written)
        self.written.zero_()

    def _rebuild(self) -> None:
        data = self._data
        everywhere = torch.ones_like(self.written)
        data.write_default_state(self.env_origins, everywhere)
        data.root_link_pose_w.copy_(data.default_root_pose)
        data.projected_gravity_b[:, 2] = -1.0
        self.non_finite.zero_()
        self.written.zero_()
        self._refresh(everywhere)

    def state_dict(self) -> dict[str, Any]:
        state = {name: tensor.cpu().clone() for name, tensor in self._data.tensors().items()}
        return state | {"non_finite": self.non_finite.cpu().clone(), "count": self._non_finite_count.cpu().clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, tensor in self._data.tensors().items():
            tensor.copy_(state[name])
        self.non_finite.copy_(state["non_finite"])
        self._non_finite_count.copy_(state["count"])

    def health(self) -> HealthReport:
        count = int(self._non_finite_count)
        self._non_finite_count.zero_()
        return HealthReport(non_finite_envs=count)


def _require_plain_motor(what: str, actuator: ActuatorCfg) -> None:
    if type(actuator) not in (IdealPDActuatorCfg, DCMotorActuatorCfg):
        raise LabError(
            f"{what} is a {type(actuator).__name__}; the analytic backend has IdealPDActuatorCfg and "
            "DCMotorActuatorCfg. Use 'newton' for other models."
        )
    if actuator.max_delay:
        raise LabError(f"{what} has max_delay {actuator.max_delay}; the analytic backend has no delays. Use 'newton'.")
