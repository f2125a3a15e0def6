"""States, features, the rule of motion, normalisers and networks."""

from __future__ import annotations

import math

import pytest
import torch

from lab_core.imagination import ArticulationState
from lab_core.math import quat_exp, quat_mul, random_orientation
from lab_rl.supermimic.motion import RobotMotion
from lab_rl.supermimic.networks import Actor, ResidualMLP
from lab_rl.supermimic.normalizer import RunningNormalizer
from lab_rl.supermimic.state import RobotState
from lab_rl.supermimic.world_model import WorldModel

DOWN = torch.tensor([0.0, 0.0, -1.0])


def random_state(rows: int, joints: int = 3, dtype: torch.dtype = torch.float64) -> RobotState:
    draw = torch.Generator().manual_seed(3)

    def normal(width: int) -> torch.Tensor:
        return torch.randn(rows, width, generator=draw, dtype=dtype)

    quat = random_orientation((rows,), draw).to(dtype)
    quat = quat / quat.norm(dim=-1, keepdim=True)
    return RobotState(normal(3), quat, normal(3), normal(3), normal(joints), normal(joints))


def motion(floating: bool = True, substeps: int = 4) -> RobotMotion:
    return RobotMotion(3, floating, step_dt=0.02, substeps=substeps, gravity=DOWN)


def test_features_and_increments_know_neither_place_nor_heading():
    state, rule = random_state(16), motion()
    after = rule.advance(state, torch.randn(16, 9, dtype=torch.float64))
    yaw = quat_exp(torch.tensor([0.0, 0.0, 1.1], dtype=torch.float64)).expand(16, 4)

    def elsewhere(s: RobotState) -> RobotState:
        turn = torch.tensor(
            [[math.cos(1.1), -math.sin(1.1), 0], [math.sin(1.1), math.cos(1.1), 0], [0, 0, 1]], dtype=torch.float64
        )
        shift = torch.tensor([3.0, -2.0, 0.0], dtype=torch.float64)
        return RobotState(
            s.pos @ turn.T + shift, quat_mul(yaw, s.quat), s.lin_vel @ turn.T, s.ang_vel @ turn.T,
            s.joint_pos, s.joint_vel,
        )  # fmt: skip

    torch.testing.assert_close(rule.features(elsewhere(state)), rule.features(state))
    moved = rule.increments(elsewhere(state), elsewhere(after))
    torch.testing.assert_close(moved, rule.increments(state, after))
    assert rule.features(state).shape == (16, rule.num_features) and rule.num_increments == 9


def test_increments_are_the_inverse_of_advance():
    state, rule, change = random_state(8), motion(), torch.randn(8, 9, dtype=torch.float64)
    torch.testing.assert_close(rule.increments(state, rule.advance(state, change)), change)


@pytest.mark.parametrize("substeps", [1, 4])
def test_the_rule_is_exact_for_forces_that_are_constant_over_the_step(substeps):
    state, rule = random_state(4), motion(substeps=substeps)
    acceleration, dt = torch.randn(4, 3, dtype=torch.float64), 0.02 / substeps
    joint_pos, joint_vel = state.joint_pos, state.joint_vel
    for _ in range(substeps):
        joint_vel = joint_vel + dt * acceleration
        joint_pos = joint_pos + dt * joint_vel
    change = torch.cat([torch.zeros(4, 6, dtype=torch.float64), 0.02 * acceleration], dim=-1)
    after = rule.advance(state, change)
    torch.testing.assert_close(after.joint_pos, joint_pos)
    torch.testing.assert_close(after.joint_vel, joint_vel)


def test_a_robot_that_the_world_holds_keeps_its_root():
    state, rule = random_state(4), motion(floating=False)
    after = rule.advance(state, torch.ones(4, 3, dtype=torch.float64))
    assert torch.equal(after.pos, state.pos) and rule.num_features == 6
    torch.testing.assert_close(after.joint_vel, state.joint_vel + 1.0)


def test_states_survive_the_way_through_the_centre_of_mass():
    state, com = random_state(8), torch.randn(8, 3, dtype=torch.float64)
    there = state.to_articulation(com)
    assert isinstance(there, ArticulationState) and not torch.allclose(there.root_com_vel_w[:, :3], state.lin_vel)
    for part, again in zip(state.tensors(), RobotState.from_articulation(there, com).tensors(), strict=True):
        torch.testing.assert_close(again, part)


def test_normalizer_has_the_statistics_of_all_finite_valid_rows():
    normalizer, values = RunningNormalizer(2), 3.0 + 2.0 * torch.randn(300, 2)
    values[7, 0] = math.inf
    valid = torch.arange(300) != 11
    for part in torch.arange(300).split(90):
        normalizer.update(values[part], valid[part])
    kept = torch.cat([values[:7], values[8:11], values[12:]]).double()
    torch.testing.assert_close(normalizer.mean, kept.mean(0))
    torch.testing.assert_close(normalizer.var, kept.var(0, correction=0))
    assert normalizer(torch.full((1, 2), 1e6)).tolist() == [[10.0, 10.0]]
    normalizer.update(torch.full((4, 2), math.nan))
    torch.testing.assert_close(normalizer.mean, kept.mean(0))


def test_world_model_begins_with_velocities_that_stay():
    rule = motion()
    model = WorldModel(rule, num_targets=2, num_context=1, num_events=0, hidden_dims=(16, 16)).double()
    state = random_state(5)
    after, _ = model(state, torch.ones(5, 2), torch.ones(5, 1))
    torch.testing.assert_close(after.joint_vel, state.joint_vel)
    torch.testing.assert_close(after.pos, state.pos + 0.02 * state.lin_vel)


def test_hidden_layers_of_equal_width_add_to_what_they_read():
    network = ResidualMLP(4, (8, 8, 6), 2)
    with torch.no_grad():
        for layer in (network.layers[1],):
            layer.weight.zero_()
            layer.bias.zero_()
        network.last.weight.fill_(1.0)
    values = torch.randn(3, 4)
    first = torch.nn.functional.gelu(network.norms[0](network.layers[0](values)))
    third = torch.nn.functional.gelu(network.norms[2](network.layers[2](first)))
    torch.testing.assert_close(network(values), third.sum(-1, keepdim=True).expand(3, 2))


def test_policy_begins_at_zero_and_stays_within_its_limit():
    actor, observations = Actor(4, 2, (8,), limit=0.5), torch.randn(3, 4)
    assert torch.equal(actor(observations), torch.zeros(3, 2))
    torch.nn.init.constant_(actor.network.last.bias, 100.0)
    torch.testing.assert_close(actor(observations), torch.full((3, 2), 0.5))
