"""What can be recorded: functions for :class:`RecorderTermCfg`, with the phase in which each makes sense.

All of them only read buffers that keep their addresses, so that a graph may hold them.
"""

from __future__ import annotations

from typing import Any

import torch

from lab_core.datasets.errors import RecorderError
from lab_core.env import Env
from lab_core.managers.declarations import declare
from lab_core.managers.function_terms import ManagerTermBase
from lab_core.recorder.config import RecorderTermCfg

Values = dict[str, Any]

# Before the step ------------------------------------------------------------------------------------------------------


@declare(capturable=True)
def observations(env: Env, group: str = "policy") -> torch.Tensor | Values:
    """``pre_step``: the observations of a group that the policy was given, with their noise."""
    return _group(env.obs_buf, group)


@declare(capturable=True)
def actions(env: Env) -> torch.Tensor:
    """``pre_step``: (N, A) what the policy asked for."""
    manager = getattr(env, "action_manager", None)
    return env.actions if manager is None else manager.action  # pyright: ignore[reportAttributeAccessIssue]


@declare(capturable=True)
def commands(env: Env) -> Values:
    """``pre_step``: term -> (N, D), the commands that the policy followed; nothing where there are none."""
    manager = getattr(env, "command_manager", None)
    return {} if manager is None else {name: manager.get_command(name) for name in manager.term_names}


@declare(capturable=True)
def processed_actions(env: Env) -> torch.Tensor | Values:
    """``pre_physics``: (N, A') the targets of all action terms; nothing in a direct environment."""
    manager = getattr(env, "action_manager", None)
    if manager is None:
        return {}
    targets = [manager.get_term(name).processed_actions for name in manager.term_names]
    return targets[0] if len(targets) == 1 else torch.cat(targets, dim=-1)


@declare(capturable=True)
def external_wrenches(env: Env) -> Values:
    """``pre_physics``: entity -> (N, B, 6) force [N] and torque [N m] on each body that hold during the step."""
    return {name: env.scene[name].data.body_wrench_w for name in env.scene}


# Before and after the step --------------------------------------------------------------------------------------------


@declare(capturable=True)
def scene_state(env: Env) -> Values:
    """Any phase: the state of every entity as in :meth:`Scene.read_state`, positions relative to the environment's
    origin."""
    return {**env.scene.read_state(is_relative=True)}


@declare(capturable=True)
def sensor_values(env: Env, sensor: str, fields: tuple[str, ...]) -> Values:
    """Any phase: chosen measurements of a sensor, such as ``net_forces_w`` of a contact sensor.

    Raises:
        RecorderError: the sensor has no such measurement.
    """
    data = env.scene.sensor(sensor)
    available = sorted(name for name, value in vars(data).items() if isinstance(value, torch.Tensor))
    if unknown := sorted(set(fields) - set(available)):
        raise RecorderError(f"sensor {sensor!r} has no {unknown}; it measures {available}.")
    return {name: getattr(data, name) for name in fields}


# In the substeps ------------------------------------------------------------------------------------------------------


class SubstepEfforts(ManagerTermBase):
    """``post_physics``: entity with joints -> (N, K, J) effort [N m or N] that entered the solver in each of the K
    substeps."""

    capturable = True

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._traces = {
            name: env.physics.trace(name, "applied_effort", env.cfg.decimation)
            for name, entity in env.scene.items()
            if entity.has_joints
        }

    def __call__(self, env: Env) -> Values:
        return self._traces


class SubstepStates(ManagerTermBase):
    """``post_physics``: the states (N, K, ...) that the K substeps led to, as :func:`scene_state` gives one; the last
    one is that of the step, except in an environment that went non-finite."""

    capturable = True

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._traces = {
            name: {
                key: env.physics.trace(name, buffer.name, env.cfg.decimation)
                for key, buffer in entity.data.state_keys().items()
            }
            for name, entity in env.scene.items()
        }

    def __call__(self, env: Env) -> Values:
        state: Values = {}
        for name, entity in env.scene.items():
            state.setdefault(entity.kind, {})[name] = entity.to_relative(self._traces[name])
        return state


class SubstepContacts(ManagerTermBase):
    """``post_physics``: (N, K, B, 3) net contact force [N] on each body of a contact sensor in each of the K substeps,
    world frame."""

    capturable = True

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._trace = env.physics.trace(cfg.params["sensor"], "net_forces_w", env.cfg.decimation)

    def __call__(self, env: Env, sensor: str) -> torch.Tensor:
        return self._trace


class SubstepSensorValues(ManagerTermBase):
    """``post_physics``: chosen measurements (N, K, ...) of a sensor in each of the K substeps, of those that its data
    call ``traceable``; a contact set's are the contacts that the substep began with."""

    capturable = True

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        sensor, substeps = cfg.params["sensor"], env.cfg.decimation
        self._traces = {field: env.physics.trace(sensor, field, substeps) for field in cfg.params["fields"]}

    def __call__(self, env: Env, sensor: str, fields: tuple[str, ...]) -> Values:
        return self._traces


# After the step -------------------------------------------------------------------------------------------------------


@declare(capturable=True)
def applied_effort(env: Env) -> Values:
    """``post_physics``: entity with joints -> (N, J) effort [N m or N] that entered the solver in the last substep.

    The backend copies it between the actuators and the solver, so that it belongs to the state before that substep.
    With a decimation of 1 this is the effort of the whole step.
    """
    return {name: entity.data.applied_effort for name, entity in env.scene.items() if entity.has_joints}


@declare(capturable=True)
def next_observations(env: Env, group: str = "policy") -> torch.Tensor | Values:
    """``post_step``: what the next observation would have been without a reset, ``extras["final_obs"]``.

    Raises:
        RecorderError: the environment does not compute it.
    """
    if not env.cfg.compute_final_obs:
        raise RecorderError("next_observations needs the environment's compute_final_obs.")
    return _group(env.final_obs_buf or env.obs_buf, group)


@declare(capturable=True)
def rewards(env: Env) -> torch.Tensor:
    """``post_step``: (N,)."""
    return env.reward_buf


@declare(capturable=True)
def terminated(env: Env) -> torch.Tensor:
    """``post_step``: (N,) bool."""
    return env.reset_terminated


@declare(capturable=True)
def truncated(env: Env) -> torch.Tensor:
    """``post_step``: (N,) bool, the episode ran out of time."""
    return env.reset_time_outs


@declare(capturable=True)
def dones(env: Env) -> torch.Tensor:
    """``post_step``: (N,) uint8, terminated or truncated; numbers, as robomimic computes with them."""
    return env.reset_buf.view(torch.uint8)


# At the beginning of an episode ---------------------------------------------------------------------------------------


class InitialConditions(ManagerTermBase):
    """``post_reset``: what decides an episode besides the state, so that it can be repeated.

    The environment's origin, every root pose in the world frame (in full precision), what the actuators remember
    (delayed targets, lags, networks) and the physical properties that can be randomised.
    """

    capturable = True

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._find_actuators()
        env.physics.rebuild_callbacks.append(self._find_actuators)

    def _find_actuators(self) -> None:
        self._actuators = self.scratch(self._env.physics.actuator_memory())  # views of what the physics saves

    def __call__(self, env: Env) -> Values:
        entities = {name: env.scene[name] for name in env.scene}
        return {
            "env_origin": env.scene.env_origins,
            "root_pose_w": {name: entity.data.root_link_pose_w for name, entity in entities.items()},
            "actuators": self._actuators,
            "properties": {
                name: {field: getattr(entity.data, field) for field in entity.default_properties}
                for name, entity in entities.items()
            },
        }


def _group(buffers: dict[str, Any], group: str) -> torch.Tensor | Values:
    if group not in buffers:
        raise RecorderError(f"there is no observation group {group!r}; there are {sorted(buffers)}.")
    return buffers[group]
