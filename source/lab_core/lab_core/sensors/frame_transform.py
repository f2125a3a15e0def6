"""Poses of bodies relative to another body."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.config import MISSING
from lab_core.sensors.sensor import SensorCfg, SensorData


@dataclass(kw_only=True)
class FrameTransformCfg(SensorCfg):
    """Poses of target bodies in the frame of a source body; fresh at the end of every step and after every reset."""

    source_body: str = MISSING
    target_bodies: tuple[str, ...] = MISSING
    """Names or regular expressions, in the order of the measurement."""


class FrameTransformData(SensorData):
    """Measurements of N environments and T targets."""

    def __init__(self, target_names: tuple[str, ...], num_envs: int, device: torch.device) -> None:
        self.target_names = target_names
        self.target_pose_source = torch.zeros(num_envs, len(target_names), 7, device=device)
        """(N, T, 7) position [m] and quaternion xyzw in the source body's frame."""
        self.target_pose_source[..., 6] = 1.0
