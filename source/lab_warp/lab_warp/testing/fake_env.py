"""What terms use of an environment, without physics: buffers full of random numbers, shared by torch and Warp."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
import warp as wp

from lab_core.physics import PhysicsBackend, PhysicsCfg
from lab_core.scene import ArticulationCfg, ArticulationData, Kind, SceneCfg
from lab_core.sensors import (
    ContactSensorCfg,
    ContactSensorData,
    GridPatternCfg,
    ImuCfg,
    ImuData,
    JointWrenchData,
    RayCasterCfg,
    RayCasterData,
    SensorData,
)
from lab_core.state import named_tensors
from lab_warp.rng import WarpRng
from lab_warp.views import share_entity

JOINTS = ("hip", "knee", "ankle", "toe", "wheel")
BODIES = ("base", "thigh", "shank", "foot")
PHYSICS_DT = 0.005
DECIMATION = 4

_VECTORS: dict[str, Any] = {
    "ang_vel_b": wp.vec3,
    "lin_acc_b": wp.vec3,
    "net_forces_w": wp.vec3,
    "net_forces_w_history": wp.vec3,
    "pos_w": wp.vec3,
    "quat_w": wp.quat,
    "ray_hits_w": wp.vec3,
    "wrench_b": wp.spatial_vector,
}


class FakePhysics(PhysicsBackend):
    """Buffers of one robot, and nothing that moves it."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        super().__init__(PhysicsCfg(backend="fake", dt=PHYSICS_DT), SceneCfg(), num_envs, device)
        self.terrain: Any = SimpleNamespace(size=(6.0, 4.0))
        data = ArticulationData(num_envs, JOINTS, BODIES, fixed_base=False, device=device)
        share_entity(data)
        self.entities["robot"] = data

    def step(self, substeps: int) -> None:
        """Does nothing."""

    def reset(self, mask: torch.Tensor) -> None:
        """Does nothing."""

    def forward(self) -> None:
        """Does nothing."""

    def _rebuild(self) -> None:
        """Does nothing."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing."""


class FakeScene(dict):
    """One robot and its sensors, by the names ``robot``, ``contacts``, ``rays``, ``imu`` and ``wrenches``."""

    def __init__(self, physics: FakePhysics) -> None:
        cfg = ArticulationCfg(asset="none", actuators={})
        super().__init__(robot=cfg.make_entity("robot", physics))
        num_envs, device = physics.num_envs, physics.device
        self.env_origins = physics.env_origins
        self.terrain: Any = None
        contact_cfg = ContactSensorCfg(body_names=BODIES, history_length=DECIMATION)
        ray_cfg = RayCasterCfg(body_name="base", pattern=GridPatternCfg(size=(0.4, 0.2)))
        self.sensors: dict[str, SensorData] = {
            "contacts": ContactSensorData(contact_cfg, num_envs, BODIES, PHYSICS_DT, device),
            "rays": RayCasterData(ray_cfg, num_envs, device),
            "imu": ImuData(ImuCfg(body_name="base"), num_envs, device),
            "wrenches": JointWrenchData(BODIES, num_envs, device),
        }
        for sensor in self.sensors.values():
            sensor.warp = _share(named_tensors(sensor))

    def sensor(self, name: str) -> SensorData:
        return self.sensors[name]


class FakeEnv:
    """An environment for terms: their inputs, in the places where terms look for them, and no physics.

    Scene, sensors and managers hold values only; :meth:`randomize` writes new ones in place, and
    :meth:`tensors` lists them. The command ``velocity`` has three components and the metrics of a velocity command;
    the action term ``joints`` owns all columns, one per joint.
    """

    def __init__(self, device: str | torch.device = "cpu", num_envs: int = 16) -> None:
        self.device = torch.device(device)
        self.wp_device = wp.get_device(str(self.device))
        self.num_envs = num_envs
        self.step_dt = PHYSICS_DT * DECIMATION
        self.max_episode_length = 50
        self.max_episode_length_s = self.max_episode_length * self.step_dt
        self.generator = torch.Generator(self.device).manual_seed(0)
        self.rng = WarpRng(num_envs, self.wp_device, seed=0)

        self.physics = FakePhysics(num_envs, self.device)
        self.scene = FakeScene(self.physics)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.reset_buf = self._flags()
        self._step_count = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._reset_count = torch.zeros(1, dtype=torch.int32, device=self.device)
        self.warp: Any = SimpleNamespace(
            rng=self.rng.state,
            episode_length=wp.from_torch(self.episode_length_buf),
            env_origins=wp.from_torch(self.scene.env_origins, dtype=wp.vec3),
            written=wp.from_torch(self.physics.written),
            reset_mask=wp.from_torch(self.reset_buf),
            reset_count=wp.from_torch(self._reset_count),
            step_count=wp.from_torch(self._step_count),
        )

        joints = (num_envs, len(JOINTS))
        action, prev_action, raw_actions = (torch.zeros(joints, device=self.device) for _ in range(3))
        self.action_term = _manager(raw_actions=raw_actions)
        self.action_manager: Any = _manager(action=action, prev_action=prev_action)
        self.action_manager.get_term = {"joints": self.action_term}.__getitem__
        self.termination_manager: Any = _manager(terminated=self._flags(), time_outs=self._flags(), dones=self._flags())
        self.command: Any = _manager(command=torch.zeros(num_envs, 3, device=self.device))
        self.command.metrics = {
            name: torch.zeros(num_envs, device=self.device) for name in ("error_vel_xy", "error_vel_yaw")
        }
        self.command_manager: Any = SimpleNamespace(
            get_term={"velocity": self.command}.__getitem__,
            get_command=lambda name: self.command_manager.get_term(name).command,
        )
        self.randomize(0)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Returns every buffer of the environment by name: the live tensors."""
        owners = {
            "robot": vars(self.scene["robot"].data),
            **{name: vars(sensor) for name, sensor in self.scene.sensors.items()},
            "physics": vars(self.physics),
            "action_manager": vars(self.action_manager),
            "action_term": vars(self.action_term),
            "termination_manager": vars(self.termination_manager),
            "command": vars(self.command),
            "metrics": self.command.metrics,
            "env": vars(self),
        }
        return {
            f"{owner}.{name}": value
            for owner, values in owners.items()
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }

    def randomize(self, seed: int) -> None:
        """Writes new values into all buffers, in place; the same ones for the same seed.

        Quaternions and gravity are unit vectors, lower limits are below upper ones, counters and times are not
        negative, some rays miss (in environment 0 all), and masks hold both values.
        """
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in self.tensors().items():
            if tensor.dtype == torch.bool:
                value = torch.rand(tensor.shape, generator=generator) < 0.5
            elif tensor.is_floating_point():
                value = torch.randn(tensor.shape, generator=generator)
            else:
                value = torch.randint(0, 2 * DECIMATION, tensor.shape, generator=generator)
            tensor.copy_(_plausible(name, value, generator))
        for name, buffer in ArticulationData.buffers().items():
            _make_plausible(buffer.kind, getattr(self.scene["robot"].data, name))
        self.episode_length_buf.copy_(torch.randint(40, 60, (self.num_envs,), generator=generator))
        self._reset_count.copy_(self.reset_buf.sum())

    def _flags(self) -> torch.Tensor:
        return torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)


def _make_plausible(kind: Kind, value: torch.Tensor) -> None:
    """Turns random numbers, in place, into what elements of ``kind`` can be."""
    if kind is Kind.POSE:
        value[..., 3:] /= value[..., 3:].norm(dim=-1, keepdim=True)
    elif kind is Kind.DIRECTION:
        value /= value.norm(dim=-1, keepdim=True)
    elif kind is Kind.RANGE:
        value.copy_(value.sort(dim=-1).values + torch.tensor([-0.1, 0.1], device=value.device))
    elif kind is Kind.ANGLE:
        value.remainder_(2.0 * math.pi).sub_(math.pi)


def _plausible(name: str, value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if name.endswith("quat_w"):
        value = value / value.norm(dim=-1, keepdim=True)
    elif name.endswith("ray_hits_w"):
        misses = torch.rand(value.shape[:2], generator=generator) < 0.2
        misses[0] = True
        value[misses] = math.inf
    elif "metrics." in name or name.endswith("_time"):
        value = value.abs()
    return value


def _manager(**tensors: torch.Tensor) -> Any:
    return SimpleNamespace(**tensors, warp=_share(tensors))


def _share(tensors: Mapping[str, torch.Tensor]) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: wp.from_torch(tensor, dtype=_VECTORS.get(name)) for name, tensor in tensors.items()}
    )
