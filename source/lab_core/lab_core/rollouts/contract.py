"""What a policy and its environment must agree on: what the numbers that it reads and writes mean, and how often.

An observation term is computed as function, modifiers, clip, scale, delay, history (oldest first), without the noise of
training; an action term as clip(scale * action + offset), which becomes the joints' target, or (relative classes) its
change from where they are. SI units; None stands for "none" or "unlimited".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from lab_core.config import to_dict
from lab_core.envs import RLEnv
from lab_core.errors import ConfigError
from lab_core.managers import ObservationTermCfg, SceneEntityCfg
from lab_core.mdp import JointAction, SceneSensorCfg
from lab_core.names import values_by_name
from lab_core.rollouts.term_widths import action_terms, observation_terms
from lab_core.scene import Articulation, ArticulationData, fill_defaults

TOLERANCE = 1e-6
"""Relative difference of numbers that count as equal."""


class ContractError(ConfigError):
    """A policy was made for an environment that computes other observations or actions."""


def describe_contract(env: RLEnv, groups: Sequence[str]) -> dict[str, Any]:
    """Returns as plain JSON values what a policy that reads ``groups`` of ``env`` relies on."""
    entities = {name: _entity(env, name) for name in env.scene}
    sensors = env.cfg.scene.sensors
    return {
        "timing": {"physics_dt": env.physics_dt, "decimation": env.cfg.decimation, "control_dt": env.step_dt},
        "observations": _observations(env, groups),
        "actions": _actions(env, entities),
        "entities": entities,
        "sensors": {name: _plain({"class": type(cfg).__name__, **to_dict(cfg)}) for name, cfg in sensors.items()},
    }


def contract_differences(stored: Mapping[str, Any], env: RLEnv, groups: Sequence[str]) -> list[str]:
    """Returns a line for each thing that ``stored``, of :func:`describe_contract`, and ``env`` do not agree on.

    Delays, gains and the physics may differ: they change how a robot behaves, not what the numbers mean.
    """
    present = {name: part for name, part in describe_contract(env, groups).items() if name in stored}
    return [
        f"{path}: {one!r} for the policy, {other!r} here"
        for path, one, other in _differences("", _agreement(stored), _agreement(present))
    ]


def check_contract(
    policy: str, stored: Mapping[str, Any], env: RLEnv, groups: Sequence[str], force: bool = False
) -> None:
    """Raises :class:`ContractError` where ``policy`` was made for something else; with ``force`` it only warns."""
    found = contract_differences(stored, env, groups)
    if not found:
        return
    text = f"{policy} was made for another environment:\n  " + "\n  ".join(found)
    if not force:
        raise ContractError(f"{text}\nTo let it act nevertheless, give --force.")
    warnings.warn(text, stacklevel=3)


def _agreement(contract: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a contract that must be equal, keyed by names."""
    terms = contract.get("observations", [])
    sensors = {value.get("sensor") for term in terms for value in term.get("params", {}).values() if _is_map(value)}
    actions = [{**term, "class": term.get("class", "").removesuffix("Warp")} for term in contract.get("actions", [])]
    timing = {"control_dt": contract["timing"]["control_dt"]} if "timing" in contract else {}
    return {
        **timing,
        "observations": [f"{term['group']}/{term['name']}" for term in terms],
        "observation": {f"{term['group']}/{term['name']}": _chosen_keys(term, _OBSERVATION) for term in terms},
        "actions": [term["name"] for term in actions],
        "action": {term["name"]: _chosen_keys(term, _ACTION) for term in actions},
        "sensor": {name: value for name, value in contract.get("sensors", {}).items() if name in sensors},
    }


_OBSERVATION = (
    "width", "function", "params", "modifiers", "clip", "scale", "history_length", "flatten_history", "history_order"
)  # fmt: skip
_ACTION = ("width", "class", "joint_names", "scale", "offset", "clip")


def _chosen_keys(term: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: term[key] for key in keys if key in term}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields the paths at which two descriptions differ; what only one of two versions of lab tells is left out."""
    if _is_map(one) and _is_map(other):
        for key in one:
            if key in other:
                yield from _differences(f"{path}.{key}" if path else key, one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(f"{path}[{index}]", left, right)
    elif not _equal(one, other):
        yield path, one, other


def _equal(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (one, other))
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) if numbers else one == other


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
    return _plain({"function": getattr(cfg.func, "__name__", type(cfg.func).__name__), "params": params, **described})


def _joints_and_bodies(env: RLEnv, value: Any) -> Any:
    """A selection of joints or bodies, of an entity or a sensor, as their names in order; other values as they are."""
    if isinstance(value, SceneSensorCfg):
        chosen: dict[str, Any] = {"sensor": value.name}
        names = getattr(env.scene.sensor(value.name), "body_names", ())
    elif isinstance(value, SceneEntityCfg):
        chosen = {"entity": value.name}
        names = env.scene[value.name].body_names
        if value.body_names is None and env.scene[value.name].has_joints:
            chosen["joint_names"] = _chosen(env.scene[value.name].joint_names, value.joint_ids)
    else:
        return to_dict(value)
    if value.body_names is not None:
        chosen["body_names"] = _chosen(names, value.body_ids)
    return chosen


def _chosen(names: tuple[str, ...], ids: Any) -> list[str]:
    return [*names[ids]] if isinstance(ids, slice) else [names[index] for index in torch.as_tensor(ids).tolist()]


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
    if not isinstance(entity, Articulation):
        return {"body_names": [*entity.body_names]}
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
