"""Going on with edited settings: each one acts, or is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab_core.config import MISSING, differences_between, parse_yaml
from lab_core.errors import ConfigError
from lab_core.mdp import modify_term_cfg
from lab_core.trust import reading_a_file
from lab_rl.algorithms import get_algorithm
from lab_rl.runs.checkpoint import Checkpoint
from lab_rl.runs.config import RunCfg
from lab_rl.runs.settings import MANAGERS, changed_paths, term_path

Changes = dict[str, tuple[Any, Any]]
"""Dotted path -> value before and after."""

_FIXED = {
    "agent.init_at_random_ep_len": "it acts on a new run only",
    "env.seed": "a resumed run goes on with the random state that it had",
    "env.scene.terrain": "the robots stand on the ground that the run began on",
}


def edited_settings(stored: Checkpoint, path: Path, cfg: RunCfg) -> Changes:
    """Returns what differs between the configuration in a checkpoint and ``cfg``.

    Raises:
        ConfigError: a resumed run cannot use one of the edits; the message names it and says why.
    """
    if not stored.config:
        return {}
    with reading_a_file():
        before = parse_yaml(stored.config, f"configuration in {path}")
        in_use = changed_paths(stored.settings)
    changes = differences_between(before, cfg.problem())
    refusals = [f"{name} ({told(*changes[name])}): {why}" for name, why in _refused(changes, cfg, in_use)]
    if refusals:
        raise ConfigError(f"{path} cannot go on with:\n  " + "\n  ".join(refusals))
    return changes


def describe(changes: Changes) -> list[str]:
    """Returns a line per change."""
    return [f"{name}: {told(*values)}" for name, values in changes.items()]


def told(before: Any, after: Any) -> str:
    """Returns a change in words."""
    one, other = ("nothing" if value is MISSING else repr(value) for value in (before, after))
    return f"{one} -> {other}"


def _refused(changes: Changes, cfg: RunCfg, in_use: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    only_at_start = get_algorithm(cfg.agent.algorithm).only_at_start
    fixed = _FIXED | {f"agent.{name}": "it acts on a new run only" for name in only_at_start}
    fixed |= {path: f"the curriculum has set it to {value!r}, which goes on" for path, value in in_use.items()}
    fixed |= dict(_curricula_done(cfg, in_use))
    for name in changes:
        for path, why in fixed.items():
            if _within(name, path) or _within(path, name):
                yield name, why
                break


def _curricula_done(cfg: RunCfg, in_use: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the curriculum terms that change a setting once, and have done so."""
    for name, term in (getattr(cfg.env, "curriculum", None) or {}).items():
        if term is not None and term.func is modify_term_cfg:
            manager = f"{term.params['manager_name']}_manager"
            part = next(part for part, name in MANAGERS.items() if name == manager)
            target = f"env.{term_path(part, term.params['term_name'])}"
            if any(_within(path, target) for path in in_use):
                yield f"env.curriculum.{name}", f"it has changed {target} already"


def _within(path: str, part: str) -> bool:
    return path == part or path.startswith((f"{part}.", f"{part}["))
