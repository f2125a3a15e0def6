"""Twins of joint actions, recorded once, against the torch terms."""

from __future__ import annotations

import math

import pytest
import torch
import warp as wp

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.managers import TermError
from lab_core.mdp import JointActionCfg
from lab_warp import CaptureContext, CapturedStage
from lab_warp.testing import FakeEnv
from lab_warp.twins import find_twin

COLUMN = 1
LEGS = ("toe", "hip", "knee")  # out of order
KINDS = (
    mdp.JointPositionActionCfg,
    mdp.JointVelocityActionCfg,
    mdp.RelativeJointPositionActionCfg,
    mdp.JointEffortActionCfg,
)


class Pair:
    """A torch term and its twin, each in its own environment; the twin processes and applies in one captured stage."""

    def __init__(self, cfg: JointActionCfg, device: str) -> None:
        self.envs = FakeEnv(device), FakeEnv(device)
        self.torch, self.warp = cfg.build(self.envs[0]), find_twin(type(cfg))(cfg, self.envs[1])
        context = CaptureContext(self.envs[1].wp_device, enabled=True)
        self.stage = CapturedStage(self._step_warp, context, name="action")
        self.reset_stage = CapturedStage(lambda: self.warp.reset(self.envs[1].warp.reset_mask), context, name="reset")

    def randomize(self, seed: int) -> None:
        for env in self.envs:
            env.randomize(seed)

    def step(self) -> None:
        action = self.envs[0].action_manager.action
        self.torch.process_actions(action[:, COLUMN : COLUMN + self.torch.action_dim])
        self.torch.apply_actions()
        self.stage()

    def _step_warp(self) -> None:
        action = self.envs[1].action_manager.action
        self.warp.process_actions(wp.from_torch(action[:, COLUMN : COLUMN + self.warp.action_dim]))
        self.warp.apply_actions()

    def assert_equal(self) -> None:
        pairs = [(self.warp.processed_actions, self.torch.processed_actions)]
        pairs += [(self.envs[1].tensors()[name], value) for name, value in self.envs[0].tensors().items()]
        for actual, expected in pairs:
            torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, equal_nan=True)


def test_every_action_has_a_twin() -> None:
    configurations = {
        cfg
        for name in mdp.__all__
        if isinstance(cfg := getattr(mdp, name), type) and issubclass(cfg, JointActionCfg) and cfg is not JointActionCfg
    }
    assert configurations == {*KINDS, mdp.EMAJointPositionToLimitsActionCfg}
    assert all(find_twin(cfg) is not None for cfg in configurations)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"joint_names": LEGS, "preserve_order": True},
        {"joint_names": LEGS, "scale": {"toe": 0.3, "hip": 2.0}, "offset": {"knee": -0.1}},
        {"joint_names": LEGS, "preserve_order": True, "offset": 0.1, "clip": {"hip": (-0.1, 0.2)}},
        {"joint_names": LEGS, "clip": 0.5},
        {"joint_names": LEGS, "clip": (0.3, 0.3)},
    ],
)
def test_twin_replays_what_its_term_does(kind, settings, device: str) -> None:
    pair = Pair(kind(**{"joint_names": ("hip", "knee"), **settings}), device)
    for seed in range(3):
        pair.randomize(seed)
        pair.step()
        pair.assert_equal()
    assert pair.torch.processed_actions.unique().numel() > 1 or settings.get("clip") == (0.3, 0.3)
    assert pair.stage.report().num_captures == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_bad_numbers_pass_as_in_torch(kind, clip, device: str) -> None:
    pair = Pair(kind(joint_names=LEGS, clip=clip), device)
    for env in pair.envs:
        env.action_manager.action[:3, COLUMN] = torch.tensor([math.nan, math.inf, -math.inf])
    pair.step()
    pair.assert_equal()
    assert pair.warp.processed_actions[0, 0].isnan()
    assert pair.warp.processed_actions[1, 0] == (math.inf if clip is None else clip)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_configuration_acts_without_a_new_capture(kind, device: str) -> None:
    pair = Pair(kind(joint_names=LEGS), device)
    changes = [{}, {"scale": 0.5}, {"offset": {"toe": 1.0}}, {"clip": 0.2}, {"clip": None}]
    if hasattr(kind, "use_default_offset"):
        changes += [{"use_default_offset": False}, {"use_default_offset": True}]
    seen = []
    for change in changes:
        for term in (pair.torch, pair.warp):
            term.set_cfg(kind(joint_names=LEGS, **change))
        pair.randomize(0)
        pair.step()
        pair.assert_equal()
        seen.append(pair.warp.processed_actions.clone())
    assert all(not torch.equal(seen[0], later) for later in seen[1:4])
    assert torch.equal(seen[0], seen[4]) and torch.equal(seen[0], seen[-1])
    assert pair.stage.report().num_captures == 1


@pytest.mark.parametrize("kind", KINDS)
def test_reset_zeroes_the_environments_of_the_mask(kind, device: str) -> None:
    pair = Pair(kind(joint_names=LEGS), device)
    for seed in range(3):
        pair.randomize(seed)
        pair.step()
        mask = pair.envs[0].reset_mask
        pair.torch.reset(mask)
        pair.reset_stage()
        pair.assert_equal()
        processed = pair.warp.processed_actions
        assert (processed[mask] == 0.0).all() and (processed[~mask] != 0.0).all()


def test_state_is_that_of_the_torch_term() -> None:
    pair = Pair(mdp.JointPositionActionCfg(joint_names=LEGS), "cpu")
    assert list(pair.warp.state_dict()) == list(pair.torch.state_dict())


def test_fixed_settings_are_refused_as_in_torch() -> None:
    pair = Pair(mdp.JointPositionActionCfg(joint_names=LEGS), "cpu")
    for term in (pair.torch, pair.warp):
        with pytest.raises(TermError, match="joint_names cannot change"):
            term.set_cfg(mdp.JointPositionActionCfg(joint_names=("hip",)))


def test_smoothed_targets_between_limits_replay_as_in_torch(device: str) -> None:
    """To 1e-6 over many steps: a moving average keeps its rounding."""
    alpha = {"toe": 0.3, "hip": 0.7}
    pair = Pair(mdp.EMAJointPositionToLimitsActionCfg(joint_names=LEGS, preserve_order=True, alpha=alpha), device)
    for seed in range(8):
        pair.randomize(seed)
        if seed in (0, 3):
            pair.torch.reset(pair.envs[0].reset_mask)
            pair.reset_stage()
        pair.step()
        torch.testing.assert_close(pair.warp.processed_actions, pair.torch.processed_actions, rtol=1e-6, atol=1e-6)
        targets = [env.scene["robot"].data.joint_pos_target for env in pair.envs]
        torch.testing.assert_close(*targets, rtol=1e-6, atol=1e-6)
