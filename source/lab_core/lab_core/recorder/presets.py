"""Sets of recorder terms."""

from __future__ import annotations

from typing import Any

from lab_core.recorder import terms
from lab_core.recorder.config import RecorderTermCfg
from lab_core.sensors import ContactSensorCfg, ContactSetCfg

SUBSTEP_CONTACTS = "substep_contacts"
"""Where :func:`physics_step_terms` puts contacts, below it ``<sensor>/tokens`` and ``<sensor>/excess``."""


def action_state_terms() -> dict[str, RecorderTermCfg | None]:
    """Returns the keys of Isaac Lab's action-state recorder: initial state, observations, actions and states."""
    return {
        "initial_state": RecorderTermCfg(func=terms.scene_state, phase="post_reset"),
        "obs": RecorderTermCfg(func=terms.observations, phase="pre_step"),
        "actions": RecorderTermCfg(func=terms.actions, phase="pre_step"),
        "processed_actions": RecorderTermCfg(func=terms.processed_actions, phase="pre_physics"),
        "states": RecorderTermCfg(func=terms.scene_state, phase="post_physics"),
    }


def transition_terms() -> dict[str, RecorderTermCfg | None]:
    """Returns what learning from a step and repeating an episode need: both ends of every step, the command, the
    effort that entered the solver, reward and end, and the conditions that the episode began with."""
    return {
        **action_state_terms(),
        "initial_conditions": RecorderTermCfg(func=terms.InitialConditions, phase="post_reset"),
        "pre_states": RecorderTermCfg(func=terms.scene_state, phase="pre_step"),
        "commands": RecorderTermCfg(func=terms.commands, phase="pre_step"),
        "applied_effort": RecorderTermCfg(func=terms.applied_effort, phase="post_physics"),
        "rewards": RecorderTermCfg(func=terms.rewards, phase="post_step"),
        "terminated": RecorderTermCfg(func=terms.terminated, phase="post_step"),
        "truncated": RecorderTermCfg(func=terms.truncated, phase="post_step"),
        "dones": RecorderTermCfg(func=terms.dones, phase="post_step"),
    }


def physics_step_terms(env_cfg: Any = None) -> dict[str, RecorderTermCfg | None]:
    """Returns what learning from every physics step needs: the state that a step of the environment begins with, then
    effort and state of each of its substeps, the contacts that it began with where the scene of ``env_cfg`` has contact
    sets, and the conditions that the episode began with."""
    recorded: dict[str, RecorderTermCfg | None] = {
        "initial_conditions": RecorderTermCfg(func=terms.InitialConditions, phase="post_reset"),
        "pre_states": RecorderTermCfg(func=terms.scene_state, phase="pre_step"),
        "substep_efforts": RecorderTermCfg(func=terms.SubstepEfforts, phase="post_physics"),
        "substep_states": RecorderTermCfg(func=terms.SubstepStates, phase="post_physics"),
    }
    for name, sensor in env_cfg.scene.sensors.items() if env_cfg is not None else ():
        if isinstance(sensor, ContactSetCfg):
            recorded[f"{SUBSTEP_CONTACTS}/{name}"] = RecorderTermCfg(
                func=terms.SubstepSensorValues,
                phase="post_physics",
                params={"sensor": name, "fields": ("tokens", "excess")},
            )
    return recorded


def task_terms(env_cfg: Any) -> dict[str, RecorderTermCfg | None]:
    """Returns :func:`transition_terms` for a task: with all its observation groups as ``obs/<group>``, where
    robomimic looks for them, the net force on every body of its contact sensors, and external wrenches where an event
    applies them."""
    recorded = transition_terms()
    del recorded["obs"]
    groups = getattr(env_cfg, "observations", {"policy": ...})
    for group in (name for name, cfg in groups.items() if cfg is not None):
        of_group = RecorderTermCfg(func=terms.observations, phase="pre_step", params={"group": group})
        recorded[f"obs/{group}"] = of_group
    for name, sensor in env_cfg.scene.sensors.items():
        if isinstance(sensor, ContactSensorCfg):
            params = {"sensor": name, "fields": ("net_forces_w",)}
            key = f"contacts/{name}"
            recorded[key] = RecorderTermCfg(func=terms.sensor_values, phase="post_physics", params=params)
    written = {field for event in env_cfg.events.values() if event for field in getattr(event.func, "writes", ())}
    if "body_wrench_w" in written:
        recorded["external_wrenches"] = RecorderTermCfg(func=terms.external_wrenches, phase="pre_physics")
    return recorded
