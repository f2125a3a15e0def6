"""Actions: checks at the door, memory of the last action, joint actions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import ActionError, ActionManager, ActionTermCfg, TermError, UnknownTermError
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
CART, POLE = "slider_to_cart", "cart_to_pole"


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def two_terms(env) -> ActionManager:
    cfg = {
        "pole": mdp.JointPositionActionCfg(joint_names=POLE),
        "off": None,
        "both": mdp.JointEffortActionCfg(joint_names=".*", scale=10.0),
    }
    return ActionManager(cfg, env)


def test_columns_follow_the_order_of_the_terms(env):
    manager = two_terms(env)
    assert manager.total_action_dim == 3 and manager.term_names == ["pole", "both"]
    manager.process_actions(torch.tensor([[1.0, 2.0, 3.0]]).expand(N, 3))
    assert manager.get_term("pole").raw_actions.tolist() == [[1.0]] * N
    assert manager.get_term("both").raw_actions.tolist() == [[2.0, 3.0]] * N
    assert manager.get_term("both").processed_actions.tolist() == [[20.0, 30.0]] * N
    with pytest.raises(UnknownTermError, match="unknown action term 'poel'. Did you mean 'pole'.*: both, pole"):
        manager.get_term("poel")


def test_there_is_one_copy_of_the_action(env):
    manager = two_terms(env)
    assert manager.get_term("both").raw_actions.data_ptr() == manager.action[:, 1:].data_ptr()
    assert not [name for name in manager.state_dict() if "raw" in name]


@pytest.mark.parametrize("shape", [(N, 2), (N, 4), (N - 1, 3), (N,), (3,)])
def test_wrong_shape_tells_the_layout(env, shape):
    with pytest.raises(
        ActionError, match=rf"shape \(5, 3\) \(environments, columns pole 0:1, both 1:3\), got \({shape[0]}"
    ):
        two_terms(env).process_actions(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_number_types_are_converted(env, dtype):
    manager = two_terms(env)
    manager.process_actions(torch.ones(N, 3, dtype=dtype))
    assert manager.action.dtype == torch.float32 and manager.action.tolist() == [[1.0] * 3] * N


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_action_is_refused_at_once_on_a_cpu(env, bad):
    manager = two_terms(env)
    manager.process_actions(torch.ones(N, 3))
    action = torch.zeros(N, 3)
    action[1, 2] = action[4, 1] = bad
    with pytest.raises(ActionError, match="not finite in environments 1, 4, action terms both"):
        manager.process_actions(action)
    assert manager.action.tolist() == [[1.0] * 3] * N and manager.prev_action.tolist() == [[0.0] * 3] * N


def test_non_finite_action_is_latched_where_looking_would_wait(env):
    manager = two_terms(env)
    manager._check._raise_at_once = False  # as on a GPU
    action = torch.ones(N, 3)
    action[2, 0] = float("nan")
    manager.process_actions(action)
    assert manager.action[2].tolist() == [0.0, 1.0, 1.0] and torch.isnan(action[2, 0])
    manager.process_actions(torch.ones(N, 3))
    manager.reset(torch.ones(N, dtype=torch.bool))
    with pytest.raises(ActionError, match="not finite in environments 2, action terms pole"):
        manager.raise_for_invalid()
    manager.raise_for_invalid()


def test_many_bad_environments_are_counted():
    env = analytic_cartpole_env_cfg(num_envs=30).build()
    with pytest.raises(ActionError, match=r"environments 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... \(30 in all\), action"):
        env.action_manager.process_actions(torch.full((30, 1), float("nan")))


def test_the_last_two_actions_are_kept_and_zeroed_at_reset(env):
    manager = two_terms(env)
    manager.process_actions(torch.full((N, 3), 1.0))
    manager.process_actions(torch.full((N, 3), 2.0))
    assert manager.action[0].tolist() == [2.0] * 3 and manager.prev_action[0].tolist() == [1.0] * 3
    assert manager.reset(torch.tensor([True, False, False, False, False])) == {}
    assert manager.action[0].tolist() == manager.prev_action[0].tolist() == [0.0] * 3
    assert manager.get_term("both").raw_actions[0].tolist() == [0.0, 0.0]
    assert manager.action[1].tolist() == [2.0] * 3 and manager.prev_action[1].tolist() == [1.0] * 3


def test_reset_touches_the_masked_rows_only(env):
    manager = two_terms(env)
    changed = check_masked_reset(manager, manager.reset, N, keep=("_check.non_finite_action",))
    assert changed == {"action", "prev_action", "_terms.pole._processed_actions", "_terms.both._processed_actions"}


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (ActionTermCfg, "action term 'a': expected ActionTermCfg, got type"),
        (mdp.JointEffortActionCfg(joint_names="knee"), "action term 'a': No joint of 'robot' matches 'knee'"),
        (mdp.JointEffortActionCfg(asset_name="x", joint_names=CART), "action term 'a': unknown entity 'x'"),
        (mdp.JointEffortActionCfg(joint_names=CART, scale={POLE: 1.0}), "No joint of 'robot' matches 'cart_to_pole'"),
        (mdp.JointEffortActionCfg(joint_names=CART, clip=(1.0, -1.0)), "clip of '.*' must be .* low <= high"),
        (mdp.JointEffortActionCfg(joint_names=CART, clip=-1.0), "clip of '.*' must be .* low <= high"),
    ],
)
def test_bad_configuration_names_the_term(env, cfg, message):
    with pytest.raises(TermError, match=message):
        ActionManager({"a": cfg}, env)


# Joint actions ----------------------------------------------------------------------------------------------------


def apply(env, cfg, action) -> ActionManager:
    manager = ActionManager({"a": cfg}, env)
    manager.process_actions(torch.tensor(action).expand(N, -1))
    manager.apply_actions()
    return manager


def test_effort_writes_the_effort_of_its_joints_only(env):
    data = env.scene["robot"].data
    data.joint_effort_target.fill_(7.0)
    address = data.joint_effort_target.data_ptr()
    apply(env, mdp.JointEffortActionCfg(joint_names=CART, scale=100.0, offset=5.0), [0.5])
    assert data.joint_effort_target.tolist() == [[55.0, 7.0]] * N
    assert data.joint_effort_target.data_ptr() == address


def test_position_starts_from_the_defaults_of_each_environment(env):
    data = env.scene["robot"].data
    data.default_joint_pos.copy_(torch.arange(2.0 * N).reshape(N, 2))
    apply(env, mdp.JointPositionActionCfg(joint_names=[CART, POLE], scale=0.5), [1.0, 2.0])
    torch.testing.assert_close(data.joint_pos_target, data.default_joint_pos + torch.tensor([0.5, 1.0]))
    apply(env, mdp.JointPositionActionCfg(joint_names=[CART, POLE], use_default_offset=False), [1.0, 2.0])
    assert data.joint_pos_target.tolist() == [[1.0, 2.0]] * N


def test_velocity(env):
    data = env.scene["robot"].data
    data.default_joint_vel.fill_(3.0)
    apply(env, mdp.JointVelocityActionCfg(joint_names=POLE, scale=2.0), [1.0])
    assert data.joint_vel_target[:, 1].tolist() == [5.0] * N and data.joint_vel_target[:, 0].tolist() == [0.0] * N


def test_relative_position_starts_from_the_present_position(env):
    data = env.scene["robot"].data
    data.joint_pos.copy_(torch.arange(2.0 * N).reshape(N, 2))
    apply(env, mdp.RelativeJointPositionActionCfg(joint_names=".*", scale=0.1), [1.0, -1.0])
    torch.testing.assert_close(data.joint_pos_target, data.joint_pos + torch.tensor([0.1, -0.1]))


def test_values_by_name_and_given_order(env):
    cfg = mdp.JointEffortActionCfg(
        joint_names=[POLE, CART], preserve_order=True, scale={CART: 10.0}, offset={"cart_.*": 1.0}
    )
    manager = apply(env, cfg, [1.0, 2.0])
    assert manager.get_term("a").processed_actions.tolist() == [[2.0, 20.0]] * N
    assert env.scene["robot"].data.joint_effort_target.tolist() == [[20.0, 2.0]] * N


def test_an_action_on_a_joint_without_actuator_warns():
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.scene.entities["robot"].actuators.pop("pole")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = cfg.build()
    message = (
        "no actuator of 'robot' drives cart_to_pole: actions there have no effect. Its actuators drive: slider_to_cart"
    )
    with pytest.warns(UserWarning, match=message):
        two_terms(env)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (None, [-30.0, 20.0]),
        (5.0, [-5.0, 5.0]),
        ((-1.0, 15.0), [-1.0, 15.0]),
        ({CART: (-2.0, 2.0)}, [-2.0, 20.0]),
    ],
)
def test_clip_acts_on_the_processed_action(env, clip, expected):
    cfg = mdp.JointEffortActionCfg(joint_names=".*", scale=10.0, clip=clip)
    assert apply(env, cfg, [-3.0, 2.0]).get_term("a").processed_actions.tolist() == [expected] * N


def test_scale_may_change_at_run_time_and_joints_may_not(env):
    manager = two_terms(env)
    manager.set_term_cfg("both", mdp.JointEffortActionCfg(joint_names=".*", scale=20.0))
    manager.process_actions(torch.ones(N, 3))
    assert manager.get_term("both").processed_actions.tolist() == [[20.0, 20.0]] * N
    with pytest.raises(TermError, match="action term 'both': joint_names cannot change"):
        manager.set_term_cfg("both", mdp.JointEffortActionCfg(joint_names=CART))
    with pytest.raises(TermError, match="'both' is a JointEffortActionCfg and cannot become a JointVelocityActionCfg"):
        manager.set_term_cfg("both", mdp.JointVelocityActionCfg(joint_names=".*"))


def test_table_shows_the_columns(env):
    text = str(two_terms(env))
    assert text.splitlines()[0] == "Action terms (2)" and "1:3" in text


def test_numpy_values_pass_through_torch(env):
    manager = two_terms(env)
    manager.process_actions(torch.from_numpy(np.ones((N, 3))))
    assert manager.action.dtype == torch.float32
