"""Events that randomise properties of robots: ``func(env, mask, ...)`` as in :mod:`lab_core.mdp.events`.

Every draw starts from the properties as built (``Articulation.default_properties``), never from an earlier draw. Mass,
centre of mass and armature are expensive to change: use these events in mode ``startup``. Friction, gains and external
forces are cheap and fit mode ``reset``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from lab_core.config import Interval
from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers import EventTermCfg, ManagerTermBase, SceneEntityCfg, TermError, declare
from lab_core.managers.checks import check_range
from lab_core.managers.selections import Indices
from lab_core.masks import masked_copy_
from lab_core.sampling import gaussian, log_uniform, uniform

_ROBOT = SceneEntityCfg("robot")
Operation = Literal["add", "scale", "abs"]
"""abs: value = draw; scale: value = default * draw; add: value = default + draw."""
Distribution = Literal["uniform", "log_uniform", "gaussian"]
"""The parameters are (low, high), or (mean, standard deviation) for gaussian."""
Params = tuple[float, float]

MIN_FRICTION = 0.01
"""Smallest sliding friction coefficient that events accept: the friction cone degenerates towards 0."""
MIN_MASS_SHARE = 0.01
"""Share of its default mass that a Gaussian draw leaves a body at least."""

_OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "scale": torch.mul,
    "abs": lambda default, draw: draw,
}
_DISTRIBUTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "uniform": uniform,
    "log_uniform": log_uniform,
    "gaussian": gaussian,
}


class _PropertyEvent(ManagerTermBase):
    """Checks operation, distribution and ranges when it is built."""

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        params = cfg.params
        for key, choices in (("operation", _OPERATIONS), ("distribution", _DISTRIBUTIONS)):
            if params[key] not in choices:
                raise TermError(unknown_name_message(key, str(params[key]), choices))
        for key, value in params.items():
            if key.endswith("_distribution_params") and value is not None and params["distribution"] != "gaussian":
                check_range(value, key)


class randomize_rigid_body_mass(_PropertyEvent):
    """Draws the mass of every selected body [kg]; inertias follow by the ratio of the masses.

    Parameters:
        mass_distribution_params, operation, distribution: see :data:`Distribution` and :data:`Operation`. A range that
            could leave a body without mass is refused; a Gaussian draw is kept above 1 % of the default mass.
        recompute_inertia: False leaves the inertia at its default.
    """

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        params, asset_cfg = cfg.params, cfg.params["asset_cfg"]
        if params["distribution"] == "gaussian":
            return
        entity = env.scene[asset_cfg.name]
        default = entity.default_properties["body_mass"]
        lowest = _OPERATIONS[params["operation"]](
            default, torch.full_like(default, params["mass_distribution_params"][0])
        )
        # A massless frame stays one when it is scaled.
        wrong = (lowest <= 0.0) & ((default > 0.0) | (params["operation"] != "scale"))
        for body in torch.arange(len(entity.body_names), device=default.device)[asset_cfg.body_ids].tolist():
            if bool(wrong[:, body].any()):
                raise TermError(
                    f"mass_distribution_params {params['mass_distribution_params']} ({params['operation']}) could give "
                    f"body {entity.body_names[body]!r} of {float(default[0, body]):g} kg a mass of "
                    f"{float(lowest[:, body].min()):g} kg. Masses must stay positive."
                )

    def __call__(
        self,
        env: Env,
        mask: torch.Tensor,
        mass_distribution_params: Params,
        operation: Operation,
        distribution: Distribution = "uniform",
        recompute_inertia: bool = True,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        entity, ids = env.scene[asset_cfg.name], asset_cfg.body_ids
        default = entity.default_properties["body_mass"][:, ids]
        mass = _draw(env, default, mass_distribution_params, operation, distribution)
        if distribution == "gaussian":
            mass = torch.maximum(mass, MIN_MASS_SHARE * default)
        _write(entity.data.body_mass, ids, mass, mask)
        if recompute_inertia:
            ratio = torch.where(default > 0.0, mass / default, 1.0)
            inertia = entity.default_properties["body_inertia_b"][:, ids] * ratio[..., None, None]
            _write(entity.data.body_inertia_b, ids, inertia, mask)
        env.physics.notify(asset_cfg.name, "body_mass", "body_inertia_b")


def randomize_rigid_body_com(
    env: Env,
    mask: torch.Tensor,
    com_range: dict[str, Interval],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Moves the centres of mass of the selected bodies by one uniform offset per environment, in each body's frame.

    Keys x, y, z [m]; missing ones are 0.
    """
    for key in com_range:
        if key not in ("x", "y", "z"):
            raise TermError(f"com_range: {unknown_name_message('component', key, ('x', 'y', 'z'))}")
        check_range(com_range[key], f"com_range[{key!r}]")
    entity, ids = env.scene[asset_cfg.name], asset_cfg.body_ids
    offset = torch.cat(
        [uniform(*com_range.get(key, (0.0, 0.0)), (env.num_envs, 1), env.generator) for key in ("x", "y", "z")], dim=1
    )
    com = entity.default_properties["body_com_pos_b"][:, ids] + offset[:, None]
    _write(entity.data.body_com_pos_b, ids, com, mask)
    env.physics.notify(asset_cfg.name, "body_com_pos_b")


def randomize_rigid_body_material(
    env: Env,
    mask: torch.Tensor,
    friction_range: Interval,
    per_body: bool = False,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Draws the sliding friction coefficient of the selected bodies' collision shapes, uniformly.

    Args:
        env: The environment.
        mask: (N,) bool.
        friction_range: (low, high), at least :data:`MIN_FRICTION`.
        per_body: False: one draw per environment, so that all feet stand on the same ground. True: one per body.
        asset_cfg: The bodies.

    Raises:
        TermError: the range reaches below :data:`MIN_FRICTION`.
    """
    check_range(friction_range, "friction_range")
    if friction_range[0] < MIN_FRICTION:
        raise TermError(f"friction_range must be at least {MIN_FRICTION}, got {tuple(friction_range)}.")
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.body_ids
    columns = data.body_friction[:, ids].shape[1] if per_body else 1
    _write(data.body_friction, ids, uniform(*friction_range, (env.num_envs, columns), env.generator), mask)
    env.physics.notify(asset_cfg.name, "body_friction")


class _JointPropertyEvent(_PropertyEvent):
    """Refuses an entity of a kind without joints as well."""

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        _ = cfg.params["asset_cfg"].joint_index  # raises where there are none


class randomize_actuator_gains(_JointPropertyEvent):
    """Draws stiffness and damping of every selected joint; never below 0.

    Parameters:
        stiffness_distribution_params, damping_distribution_params: see :data:`Distribution`; None leaves the gain
            alone.
        operation: see :data:`Operation`.

    Raises:
        TermError: a selected joint is driven by an actuator without the gain, such as a network.
    """

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        asset_cfg = cfg.params["asset_cfg"]
        entity = env.scene[asset_cfg.name]
        selected = {entity.joint_names[joint] for joint in asset_cfg.joint_index.tolist()}
        drawn = [gain for gain in ("stiffness", "damping") if cfg.params[f"{gain}_distribution_params"] is not None]
        for group, actuator in entity.cfg.actuators.items():
            driven = {entity.joint_names[joint] for joint in entity.find_joints(actuator.joint_names)} & selected
            parameters = actuator.joint_parameters()
            missing = [gain for gain in drawn if f"joint_{gain}" not in parameters]
            if driven and missing:
                raise TermError(
                    f"actuators[{group!r}] of {asset_cfg.name!r} is a {type(actuator).__name__}, which has no "
                    f"{' and no '.join(missing)}, and drives {', '.join(sorted(driven))}. "
                    "Leave these joints out with asset_cfg.joint_names."
                )

    def __call__(
        self,
        env: Env,
        mask: torch.Tensor,
        stiffness_distribution_params: Params | None = None,
        damping_distribution_params: Params | None = None,
        operation: Operation = "abs",
        distribution: Distribution = "uniform",
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        for name, params in (
            ("joint_stiffness", stiffness_distribution_params),
            ("joint_damping", damping_distribution_params),
        ):
            if params is not None:
                _randomize_joints(env, mask, asset_cfg, name, params, operation, distribution)


class randomize_joint_parameters(_JointPropertyEvent):
    """Draws dry friction [N m or N] and armature [kg m^2 or kg] of every selected joint; never below 0.

    Parameters:
        friction_distribution_params, armature_distribution_params: see :data:`Distribution`; None leaves the property
            alone.
        operation: see :data:`Operation`.
    """

    def __call__(
        self,
        env: Env,
        mask: torch.Tensor,
        friction_distribution_params: Params | None = None,
        armature_distribution_params: Params | None = None,
        operation: Operation = "abs",
        distribution: Distribution = "uniform",
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        for name, params in (
            ("joint_friction", friction_distribution_params),
            ("joint_armature", armature_distribution_params),
        ):
            if params is not None:
                _randomize_joints(env, mask, asset_cfg, name, params, operation, distribution)
                env.physics.notify(asset_cfg.name, name)


@declare(writes=("body_wrench_w",))
def apply_external_force_torque(
    env: Env,
    mask: torch.Tensor,
    force_range: Interval,
    torque_range: Interval,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Pulls at the selected bodies with a uniform force [N] and torque [N m] per axis and body, until the next reset.

    Both are constant in the world frame and act at the body's centre of mass. Ranges that are all zero do nothing, not
    even clear what acts already.
    """
    check_range(force_range, "force_range")
    check_range(torque_range, "torque_range")
    if not any((*force_range, *torque_range)):
        return
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.body_ids
    shape = data.body_wrench_w[:, ids, :3].shape
    force, torque = (uniform(*limits, shape, env.generator) for limits in (force_range, torque_range))
    _write(data.body_wrench_w, ids, torch.cat([force, torque], dim=-1), mask)


def _randomize_joints(
    env: Env,
    mask: torch.Tensor,
    asset_cfg: SceneEntityCfg,
    name: str,
    params: Params,
    operation: Operation,
    distribution: Distribution,
) -> None:
    entity, ids = env.scene[asset_cfg.name], asset_cfg.joint_ids
    values = _draw(env, entity.default_properties[name][:, ids], params, operation, distribution)
    _write(getattr(entity.data, name), ids, values.clamp(min=0.0), mask)


def _draw(
    env: Env, default: torch.Tensor, params: Params, operation: Operation, distribution: Distribution
) -> torch.Tensor:
    draw = _DISTRIBUTIONS[distribution](*params, default.shape, env.generator)
    return _OPERATIONS[operation](default, draw)


def _write(buffer: torch.Tensor, ids: Indices, values: torch.Tensor, mask: torch.Tensor) -> None:
    """Writes columns ``ids`` of the environments of ``mask``."""
    drawn = buffer.clone()
    drawn[:, ids] = values
    masked_copy_(buffer, drawn, mask)
