"""What a robot's control program must know besides the network.

Everything is in SI units and full precision; null stands for "none" or "unlimited". An observation term is computed as
function, modifiers, clip, scale, delay, history (oldest first), without the noise of training; an action term as
clip(scale * action + offset), which becomes the joints' target, or (relative classes) its change from where they are.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lab_core.config import to_dict
from lab_core.envs import RLEnv
from lab_core.managers import ObservationTermCfg, SceneEntityCfg
from lab_core.mdp import JointAction, SceneSensorCfg
from lab_core.names import values_by_name
from lab_core.scene import ArticulationData, fill_defaults
from lab_core.versions import git_revision, package_versions
from lab_rl.algorithms import Policy
from lab_rl.runs.trained_policy import TrainedPolicy
from lab_rl.term_widths import action_terms, observation_terms

FORMAT = "lab policy 1"


def policy_metadata(policy: Policy, trained: TrainedPolicy) -> dict[str, Any]:
    """Describes ``policy``, which is ``trained`` attached to an environment, as plain JSON values."""
    env = policy.env
    entities = {name: _entity(env, name) for name in env.scene}
    sensors = env.cfg.scene.sensors
    width = sum(width for _, width in action_terms(env))
    return {
        "format": FORMAT,
        "task": trained.cfg.task,
        "run": trained.path.resolve().parent.parent.name,
        "iteration": trained.checkpoint.iteration,
        "config_hash": trained.checkpoint.config_hash,
        "conventions": {
            "units": "SI (m, rad, s, kg, N, N m)",
            "world_frame": "z up",
            "quaternions": "xyzw",
            "history": "oldest first",
        },
        "timing": {
            "physics_dt": env.physics_dt,
            "decimation": env.cfg.decimation,
            "control_dt": env.step_dt,
        },
        "input": {"name": "obs", "width": sum(term["width"] for term in _observations(env, policy.groups))},
        "observations": _observations(env, policy.groups),
        "output": {"name": "actions", "width": width, "clipped_to": policy.clip_actions},
        "actions": _actions(env, entities),
        "commands": _commands(env),
        "entities": entities,
        "sensors": {name: _plain({"class": type(cfg).__name__, **to_dict(cfg)}) for name, cfg in sensors.items()},
        "versions": {**package_versions(), "python": platform.python_version()},
        "git": git_revision(),
    }


def mjlab_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The part that deployment programs for mjlab read, under its keys: comma-separated values."""
    robot = next(iter(metadata["entities"].values()))
    terms, actions = metadata["observations"], metadata["actions"]
    return {
        "run_path": metadata["run"],
        "joint_names": _csv(robot["joint_names"]),
        "joint_stiffness": _csv(robot["joint_stiffness"]),
        "joint_damping": _csv(robot["joint_damping"]),
        "default_joint_pos": _csv(robot["default_joint_pos"]),
        "command_names": _csv(metadata["commands"]),
        "observation_names": _csv(term["name"] for term in terms),
        "observation_terms_scale": _csv(1.0 if (scale := term.get("scale")) is None else scale for term in terms),
        "observation_terms_clip": _csv(term.get("clip") for term in terms),
        "observation_terms_history_length": _csv(term.get("history_length", 0) for term in terms),
        "observation_terms_flatten_history_dim": _csv(term.get("flatten_history", True) for term in terms),
        "action_scale": _csv(scale for term in actions for scale in term.get("scale", [])),
    }


def _observations(env: RLEnv, groups: Sequence[str]) -> list[dict[str, Any]]:
    """The terms in the order of the policy's input. A direct environment says only how wide its groups are."""
    manager = getattr(env, "observation_manager", None)
    terms, start = [], 0
    for group in groups:
        for name, width in observation_terms(env)[group]:
            term = {"group": group, "name": name, "start": start, "width": width}
            if manager is not None:
                term |= _observation_term(env, manager.get_term_cfg(f"{group}/{name}"))
                term["history_order"] = env.cfg.observations[group].history_order  # pyright: ignore[reportAttributeAccessIssue]
            terms.append(term)
            start += width
    return terms


def _observation_term(env: RLEnv, cfg: ObservationTermCfg) -> dict[str, Any]:
    described = {name: value for name, value in to_dict(cfg).items() if name not in ("func", "params", "noise")}
    params = {name: _joints_and_bodies(env, value) for name, value in cfg.params.items()}
    return _plain({"function": cfg.func.__name__, "params": params, **described})


def _joints_and_bodies(env: RLEnv, value: Any) -> Any:
    """A selection of joints or bodies, of an entity or a sensor, as their names in order; other values as they are."""
    if isinstance(value, SceneSensorCfg):
        chosen: dict[str, Any] = {"sensor": value.name}
        names = getattr(env.scene.sensor(value.name), "body_names", ())
    elif isinstance(value, SceneEntityCfg):
        chosen = {"entity": value.name}
        names = env.scene[value.name].body_names
        if value.body_names is None:
            chosen["joint_names"] = _chosen(env.scene[value.name].joint_names, value.joint_ids)
    else:
        return to_dict(value)
    if value.body_names is not None:
        chosen["body_names"] = _chosen(names, value.body_ids)
    return chosen


def _chosen(names: tuple[str, ...], ids: Any) -> list[str]:
    return [*names[ids]] if isinstance(ids, slice) else [names[index] for index in torch.as_tensor(ids).tolist()]


def _commands(env: RLEnv) -> list[str]:
    manager = getattr(env, "command_manager", None)
    return [] if manager is None else list(manager.term_names)


def _actions(env: RLEnv, entities: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    manager = getattr(env, "action_manager", None)
    terms, start = [], 0
    for name, width in action_terms(env):
        term: dict[str, Any] = {"name": name, "start": start, "width": width}
        if manager is not None:
            action = manager.get_term(name)
            term["class"] = type(action).__name__
            if isinstance(action, JointAction):
                term |= _joint_action(action, entities[action.cfg.asset_name])
        terms.append(term)
        start += width
    return terms


def _joint_action(action: JointAction, entity: Mapping[str, Any]) -> dict[str, Any]:
    """Scale, offset (with the default joint positions or velocities, where these are added) and clip by column."""
    cfg, names = action.cfg, action.joint_names
    what = f"joint of {cfg.asset_name!r}"
    offset = values_by_name(cfg.offset, names, what=what)
    if getattr(cfg, "use_default_offset", False):
        defaults = entity["default_joint_vel" if "Velocity" in type(action).__name__ else "default_joint_pos"]
        by_name = dict(zip(entity["joint_names"], defaults, strict=True))
        offset = [value + by_name[name] for value, name in zip(offset, names, strict=True)]
    clip = cfg.clip
    if clip is not None:
        pairs = clip if isinstance(clip, Mapping) else {".*": clip if isinstance(clip, Sequence) else (-clip, clip)}
        low, high = (
            values_by_name({name: pair[side] for name, pair in pairs.items()}, names, what=what, default=default)
            for side, default in ((0, -math.inf), (1, math.inf))
        )
        clip = list(zip(low, high, strict=True))
    scale = values_by_name(cfg.scale, names, what=what, default=1.0)
    return _plain({"entity": cfg.asset_name, "joint_names": names, "scale": scale, "offset": offset, "clip": clip})


def _entity(env: RLEnv, name: str) -> dict[str, Any]:
    """Nominal joint properties as the configuration states them, without the randomisation of a single environment."""
    entity = env.scene[name]
    nominal = ArticulationData(1, entity.joint_names, entity.body_names, entity.data.fixed_base, "cpu")
    nominal.joint_pos_limits.copy_(entity.data.joint_pos_limits[:1])
    fill_defaults(name, entity.cfg, nominal)
    properties = (
        "default_joint_pos",
        "default_joint_vel",
        "joint_stiffness",
        "joint_damping",
        "joint_effort_limits",
        "joint_pos_limits",
    )
    return _plain(
        {
            "joint_names": entity.joint_names,
            "body_names": entity.body_names,
            "fixed_base": entity.data.fixed_base,
            **{field: getattr(nominal, field)[0].tolist() for field in properties},
        }
    )


def _plain(value: Any) -> Any:
    """JSON values: infinite numbers become null, what JSON lacks becomes text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _csv(values: Any) -> str:
    return ",".join(";".join(map(str, value)) if isinstance(value, list) else str(value) for value in values)
