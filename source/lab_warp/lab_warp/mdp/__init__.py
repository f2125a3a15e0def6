"""Warp twins of the terms of :mod:`lab_core.mdp`. Importing this package registers them."""

from lab_warp.mdp import (
    actions,
    commands,
    contacts,
    curriculums,
    events,
    events_properties,
    metrics,
    observations,
    rewards,
    terminations,
)

__all__ = [
    "actions",
    "commands",
    "contacts",
    "curriculums",
    "events",
    "events_properties",
    "metrics",
    "observations",
    "rewards",
    "terminations",
]
