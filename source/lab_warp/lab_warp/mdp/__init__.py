"""Warp twins of the terms of :mod:`lab_core.mdp`. Importing this package registers them."""

from lab_warp.mdp import (
    actions,
    commands_clip,
    commands_null,
    commands_orientation,
    commands_velocity,
    contacts,
    curriculums,
    events,
    events_properties,
    goals,
    metrics,
    observations,
    rewards,
    terminations,
)
from lab_warp.mdp.actions import JointActionWarp
from lab_warp.mdp.clip_sampler import ClipSamplerWarp
from lab_warp.mdp.commands_clip import ClipCommandWarp
from lab_warp.mdp.draws import bounds
from lab_warp.mdp.draws_kernels import uniform
from lab_warp.mdp.events import reset_joints_by_offset

__all__ = [
    "ClipCommandWarp",
    "ClipSamplerWarp",
    "JointActionWarp",
    "actions",
    "bounds",
    "commands_clip",
    "commands_null",
    "commands_orientation",
    "commands_velocity",
    "contacts",
    "curriculums",
    "events",
    "events_properties",
    "goals",
    "metrics",
    "observations",
    "reset_joints_by_offset",
    "rewards",
    "terminations",
    "uniform",
]
