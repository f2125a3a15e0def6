"""Twins of :mod:`lab_core.mdp.events_properties`, which says what they do.

Only environments of the mask draw, each from its own stream: one joint or body after the other, stiffness or dry
friction of all joints first. A range without width draws too.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError, check_range
from lab_core.mdp import MIN_FRICTION, Distribution, Operation, Params
from lab_warp.env import WarpEnv
from lab_warp.mdp import events_properties_kernels as kernels
from lab_warp.mdp.draws import bounds, draw_of
from lab_warp.twins import twin_of
from lab_warp.views import body_index, joint_index

_ROBOT = SceneEntityCfg("robot")

# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.randomize_actuator_gains)
class randomize_actuator_gains(mdp.randomize_actuator_gains):
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        env: WarpEnv,
        mask: wp.array,
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
                _randomize_joints(env, mask, asset_cfg, name, draw_of(params, operation, distribution))


@twin_of(mdp.randomize_joint_parameters)
class randomize_joint_parameters(mdp.randomize_joint_parameters):
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        env: WarpEnv,
        mask: wp.array,
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
                _randomize_joints(env, mask, asset_cfg, name, draw_of(params, operation, distribution))
                env.physics.notify(asset_cfg.name, name)


def _randomize_joints(env: WarpEnv, mask: wp.array, asset_cfg: SceneEntityCfg, name: str, how: Any) -> None:
    """Draws one property of joints, as :func:`draw_of` said."""
    entity = env.scene[asset_cfg.name]
    wp.launch(
        kernels.draw_joints,
        dim=env.num_envs,
        inputs=[mask, joint_index(asset_cfg), how, wp.from_torch(entity.default_properties[name])],
        outputs=[env.warp.rng, getattr(entity.data.warp, name)],
        device=env.wp_device,
    )


# Bodies -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.randomize_rigid_body_mass)
class randomize_rigid_body_mass(mdp.randomize_rigid_body_mass):
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        env: WarpEnv,
        mask: wp.array,
        mass_distribution_params: Params,
        operation: Operation,
        distribution: Distribution = "uniform",
        recompute_inertia: bool = True,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        entity = env.scene[asset_cfg.name]
        wp.launch(
            kernels.draw_masses,
            dim=env.num_envs,
            inputs=[
                mask,
                body_index(asset_cfg),
                draw_of(mass_distribution_params, operation, distribution),
                recompute_inertia,
                wp.from_torch(entity.default_properties["body_mass"]),
                wp.from_torch(entity.default_properties["body_inertia_b"], dtype=wp.mat33),
            ],
            outputs=[env.warp.rng, entity.data.warp.body_mass, entity.data.warp.body_inertia_b],
            device=env.wp_device,
        )
        env.physics.notify(asset_cfg.name, "body_mass", "body_inertia_b")


@twin_of(mdp.randomize_rigid_body_com)
def randomize_rigid_body_com(
    env: WarpEnv,
    mask: wp.array,
    com_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    low, high = bounds(com_range, ("x", "y", "z"), "com_range")
    entity = env.scene[asset_cfg.name]
    wp.launch(
        kernels.draw_coms,
        dim=env.num_envs,
        inputs=[
            mask,
            body_index(asset_cfg),
            wp.vec3(*low),
            wp.vec3(*high),
            wp.from_torch(entity.default_properties["body_com_pos_b"], dtype=wp.vec3),
        ],
        outputs=[env.warp.rng, entity.data.warp.body_com_pos_b],
        device=env.wp_device,
    )
    env.physics.notify(asset_cfg.name, "body_com_pos_b")


@twin_of(mdp.randomize_rigid_body_material)
def randomize_rigid_body_material(
    env: WarpEnv,
    mask: wp.array,
    friction_range: tuple[float, float],
    per_body: bool = False,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    check_range(friction_range, "friction_range")
    if friction_range[0] < MIN_FRICTION:
        raise TermError(f"friction_range must be at least {MIN_FRICTION}, got {tuple(friction_range)}.")
    wp.launch(
        kernels.draw_frictions,
        dim=env.num_envs,
        inputs=[mask, body_index(asset_cfg), wp.vec2(*friction_range), per_body],
        outputs=[env.warp.rng, env.scene[asset_cfg.name].data.warp.body_friction],
        device=env.wp_device,
    )
    env.physics.notify(asset_cfg.name, "body_friction")


# Disturbances -----------------------------------------------------------------------------------------------------


@twin_of(mdp.apply_external_force_torque)
def apply_external_force_torque(
    env: WarpEnv,
    mask: wp.array,
    force_range: tuple[float, float],
    torque_range: tuple[float, float],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    check_range(force_range, "force_range")
    check_range(torque_range, "torque_range")
    if not any((*force_range, *torque_range)):
        return
    low, high = (wp.spatial_vector(f, f, f, t, t, t) for f, t in zip(force_range, torque_range, strict=True))
    wp.launch(
        kernels.draw_wrenches,
        dim=env.num_envs,
        inputs=[mask, body_index(asset_cfg), low, high],
        outputs=[env.warp.rng, env.scene[asset_cfg.name].data.warp.body_wrench_w],
        device=env.wp_device,
    )
