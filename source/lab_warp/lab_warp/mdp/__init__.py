"""Warp twins of the terms of :mod:`lab_core.mdp`. Importing this package registers them."""

from lab_warp.mdp import (
    actions,
    contacts,
    events,
    events_properties,
    metrics,
    observations,
    rewards,
    terminations,
)

__all__ = [
    "actions",
    "contacts",
    "events",
    "events_properties",
    "metrics",
    "observations",
    "rewards",
    "terminations",
]
