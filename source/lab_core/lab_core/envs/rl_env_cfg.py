"""What every environment needs to know."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from lab_core.config import MISSING, Settings
from lab_core.errors import ConfigError
from lab_core.managers import EventTermCfg
from lab_core.physics import PhysicsCfg
from lab_core.recorder import RecorderCfg
from lab_core.scene import SceneCfg
from lab_core.sensors import ContactSensorCfg, GapSensorCfg

if TYPE_CHECKING:
    from lab_core.envs.rl_env import RLEnv


@dataclass(kw_only=True)
class RLEnvCfg(Settings):
    """Settings of an environment."""

    physics: PhysicsCfg = MISSING
    scene: SceneCfg = MISSING
    decimation: int = MISSING
    """Physics steps per environment step."""
    episode_length_s: float = MISSING
    """Longest duration of an episode [s]."""
    seed: int = 42
    """Seed of everything random; -1 draws one."""
    deterministic: bool = False
    """Ask torch and the physics for run-to-run equal results on a GPU, at a price in speed. CPU runs always repeat."""
    is_finite_horizon: bool = False
    """True: running out of time is part of the task, and learners must not bootstrap from it."""
    compute_final_obs: bool = True
    """Whether ``extras["final_obs"]`` holds what the next observation would have been without the reset."""
    events: dict[str, EventTermCfg | None] = field(default_factory=dict)
    recorder: RecorderCfg | None = None
    """What to record from the first step on; None: nothing."""

    def build(self, device: str | torch.device = "cpu") -> RLEnv:
        """Returns the environment of this configuration."""
        raise NotImplementedError(f"{type(self).__name__} does not say which environment it configures.")


def check_timing(cfg: RLEnvCfg) -> None:
    """Raises :class:`ConfigError` for impossible times, and warns of contacts that would be missed."""
    if cfg.decimation < 1:
        raise ConfigError(f"decimation must be at least 1, got {cfg.decimation}.")
    for name, value in (("physics.dt", cfg.physics.dt), ("episode_length_s", cfg.episode_length_s)):
        if not 0.0 < value < math.inf:
            raise ConfigError(f"{name} must be positive and finite, got {value}.")
    for name, sensor in cfg.scene.sensors.items():
        if isinstance(sensor, ContactSensorCfg | GapSensorCfg) and sensor.history_length < cfg.decimation:
            warnings.warn(
                f"scene.sensors[{name!r}] remembers {sensor.history_length} of the {cfg.decimation} physics steps of "
                "an action: terms that look for touches miss those in the others. "
                f"Set its history_length to {cfg.decimation}.",
                stacklevel=5,  # who builds the configuration
            )
