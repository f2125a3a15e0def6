"""Warp arrays over the memory of torch tensors."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_core.scene import ArticulationData
from lab_core.scene.articulation_data import row_shapes

_DTYPE_BY_NAME_END: dict[str, Any] = {
    "root_pose": wp.transform,
    "root_vel": wp.spatial_vector,
    "wrench_w": wp.spatial_vector,
    "pose_w": wp.transform,
    "vel_w": wp.spatial_vector,
    "lin_vel_b": wp.vec3,
    "ang_vel_b": wp.vec3,
    "gravity_b": wp.vec3,
    "pos_b": wp.vec3,
    "pos_limits": wp.vec2,
    "inertia_b": wp.mat33,
}


def share_articulation(data: ArticulationData) -> None:
    """Sets ``data.warp`` to Warp arrays over all its buffers: vectors, poses and limits as Warp's own types."""
    data.warp = SimpleNamespace(**{name: _articulation_view(name, getattr(data, name)) for name in row_shapes(0, 0)})


def share(owner: Any, names: Iterable[str]) -> SimpleNamespace:
    """Returns Warp arrays over the tensors that are the attributes ``names`` of ``owner``."""
    return SimpleNamespace(**{name.lstrip("_"): wp.from_torch(getattr(owner, name)) for name in names})


def joint_index(cfg: SceneEntityCfg) -> wp.array:
    """Returns the joints that ``cfg`` selects, int32 (K,), in the order of the selection."""
    return wp.from_torch(cfg.joint_index)


def body_index(cfg: SceneEntityCfg) -> wp.array:
    """Returns the bodies that ``cfg`` selects, int32 (K,), in the order of the selection."""
    return wp.from_torch(cfg.body_index)


def _articulation_view(name: str, tensor: torch.Tensor) -> wp.array:
    dtype = next((dtype for end, dtype in _DTYPE_BY_NAME_END.items() if name.endswith(end)), wp.float32)
    return wp.from_torch(tensor, dtype=dtype)
