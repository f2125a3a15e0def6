"""What a recorded file says about where it comes from."""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py

from lab_core.config import config_hash, dump_yaml
from lab_core.datasets.errors import DatasetError
from lab_core.env import Env
from lab_core.errors import ConfigError
from lab_core.physics import differences
from lab_core.versions import git_revision, package_versions


@dataclass(frozen=True)
class Provenance:
    """Attributes and configuration of a recorded file."""

    attributes: dict[str, Any]
    """Of the group ``data``: plain values, and JSON texts for what has parts."""
    config: str
    """The environment's whole configuration as YAML; empty if it cannot be written."""


def describe(env: Env, env_name: str) -> Provenance:
    """Returns what the files recorded in ``env`` state about it; ``env_name`` is the task id."""
    try:
        whole: Any = env.cfg  # a dataclass, of which Env shows what all have in common
        cfg = dataclasses.replace(whole, recorder=None)
        config, digest = dump_yaml(cfg), config_hash(cfg)
    except ConfigError as error:
        print(f"Recorder: the files will lack the configuration: {error}", file=sys.stderr)
        config = digest = ""
    sim_args = {
        "dt": env.physics_dt,
        "decimation": env.cfg.decimation,
        "render_interval": env.cfg.decimation,
        "num_envs": env.num_envs,
    }
    env_args = {"env_name": env_name, "type": 2, "env_kwargs": {}, "sim_args": sim_args}
    attributes = {
        "env_args": json.dumps(env_args),
        **physics_attributes(env),
        "physics": env.physics.description,
        "config_hash": digest,
        "versions": json.dumps(_versions()),
        "git": json.dumps(git_revision()),
        "command": json.dumps(sys.argv),
    }
    return Provenance(attributes, config)


def physics_attributes(env: Env) -> dict[str, Any]:
    """Returns those attributes that say what robot moves in which physics; see :func:`physics_differences`."""
    return {
        "quaternion": "xyzw",
        "names": json.dumps(_names(env)),
        "step_dt": env.step_dt,
        "physics_dt": env.physics_dt,
        "decimation": env.cfg.decimation,
        "physics_fingerprint": json.dumps(env.physics.fingerprint()),
    }


def physics_differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Returns how the robots and the physics of two recordings differ, as ``"field: x, was y"``; empty where not.

    Args:
        now: Attributes of the group ``data`` of a file, or :func:`physics_attributes` of an environment.
        before: The same of another one.
    """
    found = [
        f"{name}: {now.get(name)}, was {before.get(name)}"
        for name in ("quaternion", "names", "step_dt", "physics_dt", "decimation")
        if now.get(name) != before.get(name)
    ]
    return found + differences(_fingerprint(now), _fingerprint(before))


def _fingerprint(attributes: Mapping[str, Any]) -> dict[str, Any]:
    # Files of another program have none.
    try:
        return dict(json.loads(attributes.get("physics_fingerprint", "{}")))
    except (TypeError, ValueError) as error:
        raise DatasetError(f"The attribute physics_fingerprint is damaged: {error}.") from error


def _names(env: Env) -> dict[str, dict[str, list[str]]]:
    return {
        name: {"joint_names": list(env.scene[name].joint_names), "body_names": list(env.scene[name].body_names)}
        for name in env.scene
    }


def _versions() -> dict[str, str]:
    hdf5 = {"h5py": h5py.__version__, "hdf5": h5py.version.hdf5_version}
    return {**package_versions(), **hdf5, "python": platform.python_version()}
