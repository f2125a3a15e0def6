"""Settings of a run that differ from its configuration because something changed them while it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab_core.config import dump_yaml, parse_yaml
from lab_core.envs import RLEnv

MANAGERS = {
    "actions": "action_manager",
    "commands": "command_manager",
    "curriculum": "curriculum_manager",
    "events": "event_manager",
    "observations": "observation_manager",
    "rewards": "reward_manager",
    "terminations": "termination_manager",
}
"""Part of an environment's configuration -> attribute that holds its manager."""


def settings_in_use(env: RLEnv) -> dict[str, dict[str, str]]:
    """Returns what a curriculum changed: part of the configuration -> term -> changed settings as YAML."""
    found = {part: getattr(getattr(env, name, None), "changed_settings", {}) for part, name in MANAGERS.items()}
    return {part: dict(terms) for part, terms in found.items() if terms}


def use_settings(env: RLEnv, settings: Mapping[str, Mapping[str, str]]) -> None:
    """Changes actions and observations of ``env`` as :func:`settings_in_use` found them: what the policy is used to.

    Noise stays away from terms that have none here, as in an environment for watching.
    """
    for part in ("actions", "observations"):
        manager = getattr(env, MANAGERS[part], None)
        if manager is not None and part in settings:
            known = {term: text for term, text in settings[part].items() if term in manager.term_names}
            manager.changed_settings = {
                term: _without_noise(text) if _is_noiseless(manager.get_term_cfg(term)) else text
                for term, text in known.items()
            }


def _is_noiseless(cfg: Any) -> bool:
    return getattr(cfg, "noise", None) is None


def _without_noise(text: str) -> str:
    changes = parse_yaml(text, "settings in use")
    return dump_yaml({name: value for name, value in changes.items() if name != "noise"})


def changed_paths(settings: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Returns dotted paths below ``env`` of what :func:`settings_in_use` found, with the values in use."""
    paths: dict[str, Any] = {}
    for part, terms in settings.items():
        for term, text in terms.items():
            start = f"env.{term_path(part, term)}"
            paths |= dict(_leaves(start, parse_yaml(text, f"settings of {start} in use")))
    return paths


def term_path(part: str, term: str) -> str:
    """Returns the dotted path of a term in an environment's configuration."""
    group, _, name = term.rpartition("/")
    return f"{part}.{group}.terms.{name}" if group else f"{part}.{name}"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, child in value.items():
        yield from _leaves(f"{path}.{key}", child)
