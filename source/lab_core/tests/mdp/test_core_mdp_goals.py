"""Goals of an orientation: what they are worth, when the next one is drawn, and what a reset gives away."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.math import quat_mul
from lab_core.scene import RigidObject, RigidObjectCfg, RigidObjectData, SphereCfg

N, DT = 4, 0.1
EVERYWHERE = torch.ones(N, dtype=torch.bool)
OBJECT = {"command_name": "goal", "asset_cfg": SceneEntityCfg("object")}


def about_x(*angles: float) -> torch.Tensor:
    """Quaternions (N, 4)."""
    half = torch.tensor(angles) / 2.0
    return torch.stack([half.sin(), 0.0 * half, 0.0 * half, half.cos()], dim=1)


class World(SimpleNamespace):
    """A ball at (0, 0, 1) in each of four environments, whose goal is 4 cm below; and its command."""

    def __init__(self, tolerance: float = 0.2) -> None:
        super().__init__(num_envs=N, device=torch.device("cpu"), generator=torch.Generator().manual_seed(0))
        data = RigidObjectData(N, (), ("object",))
        data.default_root_pose[:, 2] = 1.0
        self.env_origins = torch.arange(3.0 * N).view(N, 3)
        self.written = torch.zeros(N, dtype=torch.bool)
        cfg = RigidObjectCfg(shape=SphereCfg(radius=0.1), mass=1.0)
        ball = RigidObject("object", cfg, data, self)  # pyright: ignore[reportArgumentType]
        self.scene = type("Scene", (dict,), {"env_origins": self.env_origins})({"object": ball})
        self.data = data
        self.goal = mdp.OrientationGoalCommandCfg(pos_offset=(0.0, 0.0, -0.04), tolerance=tolerance).build(self)
        self.command_manager = SimpleNamespace(
            get_term=lambda name: self.goal, get_command=lambda name: self.goal.command
        )
        self.goal.reset(EVERYWHERE)

    def put(self, angles: torch.Tensor, away: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> None:
        """Turns the ball away from its goal by ``angles`` (N,) [rad], and moves it away from it [m]."""
        goal = self.goal.command
        self.data.root_link_pose_w[:, :3] = goal[:, :3] + self.env_origins + torch.tensor(away)
        self.data.root_link_pose_w[:, 3:] = quat_mul(about_x(*angles.tolist()), goal[:, 3:])


def test_rewards_have_the_values_of_their_formulas():
    """Distance 0.02, error 0.5 and 0.15, all 16 actions 0.5: what the Allegro hand's rewards sum up to."""
    world = World()
    world.put(torch.tensor([0.5, 0.15, 0.5, 0.15]), away=(0.0, 0.02, 0.0))
    total = (
        mdp.track_orientation_inv_l2(world, **OBJECT)
        + 250.0 * mdp.success_bonus(world, **OBJECT)
        - 10.0 * mdp.track_pos_l2(world, **OBJECT)
        - 0.0002 * 16 * 0.25
    )
    torch.testing.assert_close(total, torch.tensor([1.4658667, 253.7992] * 2), atol=2e-4, rtol=0.0)


def test_the_relative_rotation_turns_the_goal_into_the_object():
    world = World()
    world.put(torch.tensor([0.5, -0.5, 0.0, 2.0]))
    torch.testing.assert_close(mdp.goal_quat_diff(world, **OBJECT), about_x(0.5, -0.5, 0.0, 2.0), atol=1e-6, rtol=0.0)


def test_the_boundary_belongs_to_success_and_to_the_fall():
    world = World(tolerance=0.0)
    world.goal.command[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    world.put(torch.tensor([0.0, 1e-3, 0.0, 0.0]))
    assert mdp.success_bonus(world, **OBJECT).tolist() == [1.0, 0.0, 1.0, 1.0]
    world.goal.command[:, :3] = 0.0
    world.scene.env_origins.zero_()
    world.data.root_link_pose_w[:, :3] = torch.tensor([[0.25, 0, 0], [0.24, 0, 0], [0, -0.25, 0], [0.15, 0.0, 0.2]])
    assert mdp.object_away_from_goal(world, 0.25, **OBJECT).tolist() == [True, False, True, True]


def test_the_next_goal_is_drawn_where_the_last_was_reached():
    world = World()
    before = world.goal.command.clone()
    world.put(torch.tensor([0.1, 0.3, 0.19, 3.0]))
    world.goal.update_metrics()
    world.goal.compute(DT)
    same = (world.goal.command == before).all(dim=1)
    assert same.tolist() == [False, True, False, True]
    torch.testing.assert_close(world.goal.command[:, :3], torch.tensor([[0.0, 0.0, 0.96]] * N))
    assert world.goal.metrics["consecutive_success"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert world.goal.metrics["success_rate"].tolist() == [0.5, 0.0, 0.5, 0.0]
    assert world.goal.command_counter.tolist() == [2, 1, 2, 1]
    torch.testing.assert_close(world.goal.metrics["orientation_error"], torch.tensor([0.1, 0.3, 0.19, 3.0]))
    only = torch.arange(N) == 2
    kept = world.goal.command.clone()
    log = world.goal.reset(only)
    assert float(log["consecutive_success"]) == 1.0 and float(log["success_rate"]) == 0.5
    assert torch.equal(world.goal.command[~only], kept[~only]) and not torch.equal(world.goal.command[2], kept[2])
    assert world.goal.metrics["consecutive_success"].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_goal_that_a_reset_gives_away_counts_for_nothing():
    world = World()
    world.put(torch.tensor([0.1, 3.0, 0.1, 3.0]))
    world.goal.refresh(torch.tensor([True, True, False, False]))
    assert world.goal.is_given.tolist() == [True, False, False, False]
    assert mdp.success_bonus(world, **OBJECT).tolist() == [0.0, 0.0, 1.0, 0.0]
    given = world.goal.command[0].clone()
    world.goal.compute(DT)
    assert world.goal.metrics["consecutive_success"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert not torch.equal(world.goal.command[0], given) and not world.goal.is_given.any()
    world.put(torch.tensor([0.1, 3.0, 3.0, 3.0]))
    world.goal.compute(DT)
    assert world.goal.metrics["consecutive_success"].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_pictures_show_the_goal_beside_where_the_object_is_to_be():
    world = World()
    (ghost,) = world.goal.ghosts()
    assert ghost.entity == "object" and ghost.joint_pos is None
    expected = world.env_origins + torch.tensor([0.0, 0.0, 0.96 + 0.2])
    torch.testing.assert_close(ghost.root_pose_w[:, :3], expected)
    assert torch.equal(ghost.root_pose_w[:, 3:], world.goal.command[:, 3:])


def test_another_command_is_refused_by_name():
    world = World()
    world.command_manager.get_term = lambda name: object()
    with pytest.raises(TermError, match="success_bonus needs a goal of an orientation, 'goal' is a object"):
        mdp.success_bonus(world, **OBJECT)
    assert math.isclose(float(world.goal.tolerance), 0.2, rel_tol=1e-6)
