"""What terms use of an environment, without physics: buffers full of random numbers, shared by torch and Warp."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from lab_core.names import match_names
from lab_core.physics import PhysicsBackend, PhysicsCfg
from lab_core.scene import ArticulationCfg, ArticulationData, Kind, Scene, SceneCfg
from lab_core.sensors import (
    ContactSensorCfg,
    ContactSensorData,
    GapSensorCfg,
    GapSensorData,
    GridPatternCfg,
    ImuCfg,
    ImuData,
    JointWrenchData,
    RayCasterCfg,
    RayCasterData,
)
from lab_core.state import named_tensors
from lab_core.terrain import Terrain
from lab_warp.capture import CaptureContext
from lab_warp.env import (
    ActionArrays,
    ActionTermArrays,
    ClipCommandArrays,
    CommandArrays,
    EnvArrays,
    ManagerBasedWarpEnv,
    OrientationGoalArrays,
    TerminationArrays,
)
from lab_warp.envs.log import WarpEpisodeLog
from lab_warp.rng import WarpRng
from lab_warp.views import Arrays, share, share_entity

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
    """Buffers of one robot and its sensors on generated ground, and nothing that moves it."""

    def __init__(self, scene: SceneCfg, num_envs: int, device: torch.device) -> None:
        super().__init__(PhysicsCfg(backend="fake", dt=PHYSICS_DT), scene, num_envs, device)
        self.terrain = _flat_terrain(rows=3, cols=2, tile_size=2.0)
        data = ArticulationData(num_envs, JOINTS, BODIES, fixed_base=False, device=device)
        share_entity(data)
        self.entities["robot"] = data
        contact_cfg = ContactSensorCfg(body_names=BODIES, history_length=DECIMATION)
        gap_cfg = GapSensorCfg(body_names=BODIES, history_length=DECIMATION)
        ray_cfg = RayCasterCfg(body_name="base", pattern=GridPatternCfg(size=(0.4, 0.2)))
        self.sensors |= {
            "contacts": ContactSensorData(contact_cfg, num_envs, BODIES, PHYSICS_DT, device),
            "gaps": GapSensorData(gap_cfg, num_envs, BODIES, PHYSICS_DT, device),
            "rays": RayCasterData(ray_cfg, num_envs, device),
            "imu": ImuData(ImuCfg(body_name="base"), num_envs, device),
            "wrenches": JointWrenchData(BODIES, num_envs, device),
        }
        for sensor in self.sensors.values():
            tensors = named_tensors(sensor)
            sensor.warp = Arrays({name: wp.from_torch(x, dtype=_VECTORS.get(name)) for name, x in tensors.items()})

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


class FakeTerms:
    """Terms of a manager that only holds values."""

    def __init__(self, **terms: Any) -> None:
        self.terms = terms
        self.cfgs: dict[str, Any] = {}

    @property
    def term_names(self) -> list[str]:
        return list(self.terms)

    def find_terms(self, patterns: str | Sequence[str]) -> list[str]:
        return [self.term_names[i] for i in match_names(patterns, self.term_names, what="term")]

    def get_term(self, name: str) -> Any:
        return self.terms[name]

    def get_term_cfg(self, name: str) -> Any:
        return self.cfgs[name]

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        self.cfgs[name] = cfg


class FakeAction:
    """One part of the action: columns of their own, so that nobody takes those of the manager for them."""

    def __init__(self, shape: tuple[int, int], device: torch.device) -> None:
        self.raw_actions, self.processed_actions = torch.zeros(2, *shape, device=device).unbind()
        self.warp = share(ActionTermArrays, self)


class FakeActions(FakeTerms):
    """The action, whose one part is ``joints``."""

    def __init__(self, shape: tuple[int, int], device: torch.device) -> None:
        super().__init__(joints=FakeAction(shape, device))
        self.action, self.prev_action = torch.zeros(2, *shape, device=device).unbind()
        self.warp = share(ActionArrays, self)


class FakeCommand:
    """A command of three components with the metrics and the ways of a velocity command."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.command = torch.zeros(num_envs, 3, device=device)
        self.start_pos_w, self.asked_displacement_w = torch.zeros(2, num_envs, 2, device=device).unbind()
        self.metrics = {name: torch.zeros(num_envs, device=device) for name in ("error_vel_xy", "error_vel_yaw")}
        self.warp = share(CommandArrays, self)


class FakeClipCommand:
    """A command that shows frames of three clips."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.command = torch.zeros(num_envs, 2, device=device)
        self.clip, self.frame = torch.zeros(2, num_envs, dtype=torch.int64, device=device).unbind()
        self.clip_lengths = torch.tensor([5, 2, 9], device=device)
        self.metrics: dict[str, torch.Tensor] = {}
        self.warp = share(ClipCommandArrays, self)

    @property
    def at_end(self) -> torch.Tensor:
        return self.frame >= self.clip_lengths[self.clip] - 1


class FakeGoal:
    """A goal of an orientation; some are reached already."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.command = torch.zeros(num_envs, 7, device=device)
        self.tolerance = torch.full((1,), 2.0, device=device)
        self.is_given = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self.metrics: dict[str, torch.Tensor] = {}
        self.warp = share(OrientationGoalArrays, self)

    def randomize(self, generator: torch.Generator) -> None:
        """Writes new poses and flags."""
        command = torch.randn(self.command.shape, generator=generator)
        command[:, 3:] /= command[:, 3:].norm(dim=1, keepdim=True)
        self.command.copy_(command)
        self.is_given.copy_(torch.rand(len(command), generator=generator) < 0.3)


class FakeCommands(FakeTerms):
    """The commands."""

    def get_command(self, name: str) -> torch.Tensor:
        return self.get_term(name).command


class FakeTerminations(FakeTerms):
    """Why episodes ended."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        super().__init__()
        self.terminated, self.time_outs, self.dones = torch.zeros(3, num_envs, dtype=torch.bool, device=device).unbind()
        self.warp = share(TerminationArrays, self)


class FakeRewards(FakeTerms):
    """The terms of the reward: none."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[str, float] = {}


@dataclass
class FakeEnvCfg:
    """Settings that every environment has."""

    physics: PhysicsCfg
    scene: SceneCfg
    decimation: int = DECIMATION
    compute_final_obs: bool = False


class FakeEnv:
    """An environment for terms: their inputs, in the places where terms look for them, and no physics.

    Scene, sensors and managers hold values only; :meth:`randomize` writes new ones in place, and
    :meth:`tensors` lists them. Sensors have the names ``contacts``, ``gaps``, ``rays``, ``imu`` and ``wrenches``.
    The command ``velocity`` has three components and the metrics of a velocity command, and ``goal`` is a pose; the
    action term ``joints`` owns all columns, one per joint. Masks of terms, in Warp as in torch, are ``reset_mask``.
    """

    def __init__(self, device: str | torch.device = "cpu", num_envs: int = 16) -> None:
        self.device = torch.device(device)
        self.wp_device = wp.get_device(str(self.device))
        self.num_envs = num_envs
        self.seed = 0
        self.physics_dt = PHYSICS_DT
        self.step_dt = PHYSICS_DT * DECIMATION
        self.max_episode_length = 50
        self.max_episode_length_s = self.max_episode_length * self.step_dt
        self.generator = torch.Generator(self.device).manual_seed(self.seed)
        self.rng = WarpRng(num_envs, self.wp_device, seed=self.seed)
        self.capture_context = CaptureContext(self.wp_device)
        self.log = WarpEpisodeLog(self.device)

        scene_cfg = SceneCfg(entities={"robot": ArticulationCfg(asset="none", actuators={})})
        self.physics: PhysicsBackend = FakePhysics(scene_cfg, num_envs, self.device)
        self.cfg = FakeEnvCfg(self.physics.cfg, scene_cfg)
        self.scene = Scene(scene_cfg, self.physics)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.reset_mask = torch.zeros(num_envs, dtype=torch.bool, device=self.device)
        self._step_count = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.reset_count = torch.zeros(1, dtype=torch.int32, device=self.device)
        self.warp = EnvArrays(
            rng=self.rng.state,
            episode_length=wp.from_torch(self.episode_length_buf),
            env_origins=wp.from_torch(self.scene.env_origins, dtype=wp.vec3),
            written=wp.from_torch(self.physics.written),
            non_finite=wp.from_torch(self.physics.non_finite),
            reset_mask=wp.from_torch(self.reset_mask),
            reset_count=wp.from_torch(self.reset_count),
            step_count=wp.from_torch(self._step_count),
        )

        self.action_manager = FakeActions((num_envs, len(JOINTS)), self.device)
        self.command_manager = FakeCommands(
            velocity=FakeCommand(num_envs, self.device),
            motion=FakeClipCommand(num_envs, self.device),
            goal=FakeGoal(num_envs, self.device),
        )
        self.termination_manager = FakeTerminations(num_envs, self.device)
        self.observation_manager, self.curriculum_manager = FakeTerms(), FakeTerms()
        self.metrics_manager, self.event_manager = FakeTerms(), FakeTerms()
        self.reward_manager = FakeRewards()
        self.reset_terminated = self.termination_manager.terminated
        self.reset_time_outs = self.termination_manager.time_outs
        self.reset_buf = self.termination_manager.dones
        self.reward_buf = torch.zeros(num_envs, device=self.device)
        self.obs_buf: dict[str, Any] = {}
        self.final_obs_buf: dict[str, Any] = {}
        self.randomize(0)

    @property
    def step_count(self) -> int:
        return int(self._step_count)

    def reset_ids(self) -> torch.Tensor:
        return self.reset_mask.nonzero().squeeze(1)

    def request_capture(self, reason: str, replaced: object = None) -> None:
        """Does nothing: it has no graphs."""

    def change_after_stages(self, change: Callable[[], None]) -> None:
        change()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Returns every buffer of the environment by name: the live tensors."""
        command = self.command_manager.get_term("velocity")
        owners = {
            "robot": vars(self.scene["robot"].data),
            **{name: vars(sensor) for name, sensor in self.physics.sensors.items()},
            "physics": vars(self.physics),
            "action_manager": vars(self.action_manager),
            "action_term": vars(self.action_manager.get_term("joints")),
            "termination_manager": vars(self.termination_manager),
            "command": vars(command),
            "metrics": command.metrics,
            "env": vars(self),
        }
        # Some stand in two places.
        tensors: dict[int, tuple[str, torch.Tensor]] = {}
        for owner, values in owners.items():
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    tensors.setdefault(id(value), (f"{owner}.{name}", value))
        return dict(tensors.values())

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
        self.reset_count.copy_(self.reset_mask.sum())
        self.command_manager.get_term("goal").randomize(generator)


if TYPE_CHECKING:
    _CHECKED: ManagerBasedWarpEnv = FakeEnv()  # has what twins may use, of the declared types


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


def _flat_terrain(rows: int, cols: int, tile_size: float) -> Terrain:
    """Returns ground that only has a size."""
    return Terrain(
        tiles=[],
        tile_size=tile_size,
        border_width=0.0,
        horizontal_scale=0.1,
        origins=np.zeros((rows, cols, 3), dtype=np.float32),
        difficulties=np.zeros((rows, cols)),
        types=np.zeros((rows, cols), dtype=np.int64),
        type_names=("flat",),
        flat_patches={},
    )
