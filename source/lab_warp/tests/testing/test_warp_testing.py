"""The gate of the twins itself: twins with the usual mistakes do not pass."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Protocol

import pytest
import torch
import warp as wp

from lab_core.env import EnvCfg, Rewards
from lab_core.managers import ManagerTermBase, SceneEntityCfg
from lab_core.masks import masked_copy_
from lab_warp import CaptureError
from lab_warp.env import (
    EnvArrays,
    Log,
    ManagerBasedWarpEnv,
    WarpAction,
    WarpActions,
    WarpCommand,
    WarpCommands,
    WarpTerminations,
)
from lab_warp.testing import FakeEnv, TwinCase, check_event_twin, check_signature, check_value_twin
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

CASE = TwinCase(params={"asset_cfg": SceneEntityCfg("robot", joint_names="knee")})


@wp.kernel
def copy_joint(values: wp.array2d[float], ids: wp.array[int], sign: float, rows: int, out: wp.array[float]):
    env = wp.tid()
    if env < rows:
        out[env] = sign * values[env, ids[0]]


def launch(env: Any, out: wp.array, asset_cfg: SceneEntityCfg, sign: float = 1.0, rows: int = 1000) -> None:
    velocity = env.scene[asset_cfg.name].data.warp.joint_vel
    inputs = [velocity, joint_index(asset_cfg), sign, rows]
    wp.launch(copy_joint, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


def make_term():
    """Returns a new torch term, to give it a twin."""

    def term(env: Any, asset_cfg: SceneEntityCfg) -> torch.Tensor:
        return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids].squeeze(1)

    return term


def test_a_right_twin_passes():
    term = make_term()
    twin_of(term)(lambda env, out, asset_cfg: launch(env, out, asset_cfg))
    check_value_twin(term, CASE)


def all_joints(env: FakeEnv) -> SceneEntityCfg:
    cfg = SceneEntityCfg("robot")
    cfg.resolve(env.scene)
    return cfg


def with_number_of_the_host(env, out, asset_cfg):
    launch(env, out, asset_cfg, sign=2.0 * (env.scene["robot"].data.joint_vel[0, 1].item() > 0.0) - 1.0)


@pytest.mark.parametrize(
    ("twin", "error"),
    [
        (lambda env, out, asset_cfg: launch(env, out, asset_cfg, sign=-1.0), AssertionError),
        (lambda env, out, asset_cfg: launch(env, out, asset_cfg, rows=env.num_envs - 1), AssertionError),
        (lambda env, out, asset_cfg: launch(env, out, all_joints(env)), AssertionError),
        (with_number_of_the_host, CaptureError),
    ],
    ids=["wrong sign", "forgotten row", "ignored selection", "host read"],
)
def test_a_wrong_twin_does_not_pass(twin, error):
    term = make_term()
    twin_of(term)(twin)
    with pytest.raises(error):
        check_value_twin(term, CASE)


def test_a_term_that_shows_nothing_does_not_pass():
    def term(env: Any) -> torch.Tensor:
        return torch.zeros(env.num_envs)

    twin_of(term)(lambda env, out: out.zero_())
    with pytest.raises(AssertionError, match="one value everywhere"):
        check_value_twin(term, TwinCase())


def test_a_term_without_a_twin_does_not_pass():
    with pytest.raises(AssertionError, match="has no Warp twin"):
        check_value_twin(make_term(), CASE)


def test_another_default_does_not_pass():
    def term(env: Any, scale: float = 1.0) -> torch.Tensor:
        return env.episode_length_buf * scale

    @twin_of(term)
    def twin(env: Any, out: wp.array, scale: float = 2.0) -> None: ...

    with pytest.raises(AssertionError):
        check_signature(term)


class last_velocity(ManagerTermBase):
    def __init__(self, cfg, env):
        super().__init__(cfg, env)
        self.last = torch.zeros(env.num_envs, device=env.device)

    def reset(self, mask):
        masked_copy_(self.last, 0.0, mask)

    def __call__(self, env):
        result = self.last.clone()
        self.last.copy_(env.scene["robot"].data.joint_vel[:, 1])
        return result


@twin_of(last_velocity)
class last_velocity_without_reset(ManagerTermBase):
    def __init__(self, cfg, env):
        super().__init__(cfg, env)
        self.last = wp.zeros(env.num_envs, device=env.wp_device)
        self.knee = wp.array([1], dtype=int, device=env.wp_device)

    def __call__(self, env, out):
        wp.copy(out, self.last)
        inputs = [env.scene["robot"].data.warp.joint_vel, self.knee, 1.0, 1000]
        wp.launch(copy_joint, dim=env.num_envs, inputs=inputs, outputs=[self.last], device=env.wp_device)


def test_a_class_whose_reset_is_missing_does_not_pass():
    with pytest.raises(AssertionError):
        check_value_twin(last_velocity, TwinCase())


@wp.kernel
def set_joint(mask: wp.array[wp.bool], masked: bool, draw: bool, state: wp.array[wp.uint32], out: wp.array2d[float]):
    env = wp.tid()
    rng = state[env]
    if mask[env] or not masked:
        out[env, 1] = wp.randf(rng, 1.0, 1.0)
    if draw:
        state[env] = rng + wp.uint32(1)


def make_event(masked: bool, draw: bool):
    def event(env: Any, mask: torch.Tensor) -> None:
        masked_copy_(env.scene["robot"].data.joint_pos[:, 1], 1.0, mask)

    @twin_of(event)
    def twin(env: Any, mask: wp.array) -> None:
        inputs = [mask, masked, draw, env.warp.rng]
        outputs = [env.scene["robot"].data.warp.joint_pos]
        wp.launch(set_joint, dim=env.num_envs, inputs=inputs, outputs=outputs, device=env.wp_device)

    return event


def test_a_right_event_passes():
    check_event_twin(make_event(masked=True, draw=False), TwinCase())


@pytest.mark.parametrize(("masked", "draw"), [(False, False), (True, True)], ids=["writes", "draws"])
def test_an_event_outside_its_mask_does_not_pass(masked, draw):
    with pytest.raises(AssertionError):
        check_event_twin(make_event(masked, draw), TwinCase())


def members(protocol: type) -> set[str]:
    """What a protocol and those that it extends declare."""
    names = {
        name for base in protocol.__mro__ if is_protocol(base) for name in (*vars(base), *inspect.get_annotations(base))
    }
    return {name for name in names if not name.startswith("_")}


def is_protocol(kind: type) -> bool:
    return getattr(kind, "_is_protocol", False) and kind is not Protocol


def test_the_fake_has_all_that_twins_may_use_of_an_environment():
    env = FakeEnv()
    commands, actions = env.command_manager, env.action_manager
    owners = {
        ManagerBasedWarpEnv: env,
        EnvCfg: env.cfg,
        Log: env.log,
        WarpActions: actions,
        WarpAction: actions.get_term("joints"),
        WarpCommands: commands,
        WarpCommand: commands.get_term("velocity"),
        WarpTerminations: env.termination_manager,
        Rewards: env.reward_manager,
    }
    assert {"reset_ids", "scene", "wp_device", "curriculum_manager"} <= members(ManagerBasedWarpEnv)
    for protocol, owner in owners.items():
        assert {name for name in members(protocol) if not hasattr(owner, name)} == set(), protocol
    assert vars(env.warp).keys() == {field.name for field in dataclasses.fields(EnvArrays)}


def test_new_values_come_into_the_same_buffers():
    env = FakeEnv()
    before = {name: (tensor.data_ptr(), tensor.clone()) for name, tensor in env.tensors().items()}
    env.randomize(3)
    for name, tensor in env.tensors().items():
        address, old = before[name]
        assert tensor.data_ptr() == address, name
        assert not torch.equal(tensor, old), name
    env.randomize(0)
    for name, tensor in env.tensors().items():
        assert torch.equal(tensor, before[name][1]), name
