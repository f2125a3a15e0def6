"""A policy acts only where observations and actions mean what they meant for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab_core.managers import ObservationTermCfg, SceneEntityCfg
from lab_core.mdp import joint_pos_rel
from lab_core.rollouts import ContractError, check_contract, contract_differences, describe_contract
from lab_core.signals import UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg


def contract_of(cfg: Any) -> dict[str, Any]:
    return json.loads(json.dumps(describe_contract(cfg.build("cpu"), ["policy"])))


def action(**changes: Any) -> Callable[[Any], None]:
    def edit(cfg: Any) -> None:
        cfg.actions["cart_effort"] = replace(cfg.actions["cart_effort"], **changes)

    return edit


def reversed_joints(cfg: Any) -> None:
    joints = SceneEntityCfg(joint_names=("cart_to_pole", "slider_to_cart"), preserve_order=True)
    cfg.observations["policy"].terms["joint_pos_rel"] = ObservationTermCfg(
        func=joint_pos_rel, params={"asset_cfg": joints}
    )


def slower(cfg: Any) -> None:
    cfg.decimation = 4


def other_term(cfg: Any) -> None:
    terms = cfg.observations["policy"].terms
    terms["joint_pos_rel"], terms["joint_vel_rel"] = terms["joint_vel_rel"], terms["joint_pos_rel"]


def other_order(cfg: Any) -> None:
    group = cfg.observations["policy"]
    group.terms = dict(reversed(group.terms.items()))


def other_scale(cfg: Any) -> None:
    cfg.observations["policy"].terms["joint_vel_rel"].scale = 0.5


EDITS = [
    (action(scale=50.0), "action.cart_effort.scale[0]: 100.0 for the policy, 50.0 here"),
    (action(offset=1.0), "action.cart_effort.offset[0]: 0.0 for the policy, 1.0 here"),
    (action(joint_names=("cart_to_pole",)), "action.cart_effort.joint_names[0]: 'slider_to_cart' for the policy"),
    (reversed_joints, "observation.policy/joint_pos_rel.params.asset_cfg.joint_names[0]: 'slider_to_cart'"),
    (slower, "control_dt: 0.01666"),
    (other_term, "observation.policy/joint_pos_rel.function: 'joint_pos_rel' for the policy, 'joint_vel_rel' here"),
    (other_order, "observations[0]: 'policy/joint_pos_rel' for the policy, 'policy/joint_vel_rel' here"),
    (other_scale, "observation.policy/joint_vel_rel.scale: None for the policy, 0.5 here"),
]


@pytest.mark.parametrize(("edit", "message"), EDITS)
@pytest.mark.filterwarnings("ignore:JointEffortAction")
def test_what_differs_is_named(edit, message):
    stored, cfg = contract_of(analytic_cartpole_env_cfg(num_envs=2)), analytic_cartpole_env_cfg(num_envs=2)
    edit(cfg)
    env = cfg.build("cpu")
    with pytest.raises(ContractError, match="--force") as caught:
        check_contract("policy.onnx", stored, env, ["policy"])
    assert message in str(caught.value)
    with pytest.warns(UserWarning, match="was made for another environment"):
        check_contract("policy.onnx", stored, env, ["policy"], force=True)


def test_what_does_not_change_the_meaning_may_differ():
    stored, cfg = contract_of(analytic_cartpole_env_cfg(num_envs=2)), analytic_cartpole_env_cfg(num_envs=5)
    cfg.observations["policy"].terms["joint_vel_rel"].noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    cfg.scene.entities["robot"].actuators["cart"].damping = 3.0
    cfg.physics.dt, cfg.decimation = cfg.physics.dt / 2, cfg.decimation * 2
    assert contract_differences(stored, cfg.build("cpu"), ["policy"]) == []


def test_what_another_version_does_not_tell_is_not_compared():
    stored = contract_of(analytic_cartpole_env_cfg(num_envs=2))
    for term in stored["observations"]:
        del term["scale"]
    assert contract_differences(stored, analytic_cartpole_env_cfg(num_envs=2).build("cpu"), ["policy"]) == []
