"""Who does what the commands ask for keeps the level, whatever they were; who does not, does not go up."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import CommandManager, TermError
from lab_core.scene import Articulation, ArticulationCfg, ArticulationData
from lab_core.terrain import TerrainLevels

STEPS, DT = 1000, 0.02
TILE = 8.0
LEVEL = 2


class Walkers:
    """Robots on tiles, as points that move as told, under the command of the rough tasks."""

    def __init__(self, num_envs: int, **settings) -> None:
        origins = torch.zeros(5, 1, 3)
        origins[:, 0, 0] = 100.0 * torch.arange(5)
        self.data = ArticulationData(num_envs, ("hip",), ("base",), fixed_base=False, device="cpu")
        physics = SimpleNamespace(num_envs=num_envs, terrain=SimpleNamespace(tile_size=TILE))
        scene = Scene(robot=Articulation("robot", ArticulationCfg(asset="none", actuators={}), self.data, physics))
        scene.terrain = TerrainLevels(origins, num_envs, torch.Generator().manual_seed(0))
        scene.terrain.levels.fill_(LEVEL)
        scene.env_origins = scene.terrain.env_origins.copy_(origins[LEVEL])
        self.env = SimpleNamespace(
            num_envs=num_envs,
            device=torch.device("cpu"),
            generator=torch.Generator().manual_seed(0),
            scene=scene,
            physics=physics,
            step_dt=DT,
            max_episode_length=STEPS,
            max_episode_length_s=STEPS * DT,
            episode_length_buf=torch.zeros(num_envs, dtype=torch.int64),
        )
        ranges = mdp.UniformVelocityRanges(
            lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0), heading=(-math.pi, math.pi)
        )
        cfg = mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0), ranges=ranges, heading_control_stiffness=0.5, **settings
        )
        self.env.command_manager = CommandManager({"v": cfg}, self.env)
        self.command = self.env.command_manager.get_term("v")
        self.all = torch.ones(num_envs, dtype=torch.bool)
        self.start()

    def start(self) -> None:
        """Puts the walkers within half a metre of the origin of their tile, in any direction."""
        draw = torch.rand(self.env.num_envs, 3, generator=self.env.generator) - 0.5
        self.data.root_link_pose_w[:, :2] = self.env.scene.env_origins[:, :2] + draw[:, :2]
        self.data.heading_w.copy_(2.0 * math.pi * draw[:, 2])
        self.env.episode_length_buf.zero_()
        self.env.command_manager.reset(self.all)

    def walk(self, steps: int = STEPS, speed: float = 1.0, turn: float = 1.0) -> None:
        """Moves by these shares of what is asked for."""
        for _ in range(steps):
            velocity, heading = speed * self.command.command[:, :2], self.data.heading_w
            cos, sin = heading.cos(), heading.sin()
            self.data.root_link_pose_w[:, 0] += DT * (cos * velocity[:, 0] - sin * velocity[:, 1])
            self.data.root_link_pose_w[:, 1] += DT * (sin * velocity[:, 0] + cos * velocity[:, 1])
            heading += DT * turn * self.command.command[:, 2]
            self.env.episode_length_buf += 1
            self.env.command_manager.update_metrics()
            self.env.command_manager.compute(DT)

    def moves(self) -> torch.Tensor:
        """Ends all episodes, and returns how far each level changed (N,)."""
        mdp.terrain_levels_vel(self.env, self.all, "v")
        return self.env.scene.terrain.levels - LEVEL


class Scene(dict):
    """Entities by name, on tiles."""


@pytest.mark.parametrize("heading_command", [True, False])
def test_whoever_does_what_is_asked_for_keeps_the_level_or_goes_up(heading_command):
    walkers = Walkers(64, heading_command=heading_command, rel_standing_envs=0.02)
    walkers.walk()
    moves = walkers.moves()
    assert moves.min() == 0 and moves.max() == 1


def test_whoever_walks_in_a_circle_as_asked_keeps_the_level():
    walkers = Walkers(4)
    walkers.command.set_command((1.0, 0.0, 1.0))
    walkers.start()
    walkers.walk()
    assert walkers.moves().tolist() == [0] * 4


@pytest.mark.parametrize("share", [0.1, 0.21, 0.4])
def test_whoever_leaves_the_tile_slowly_though_asked_to_hurry_goes_down(share):
    walkers = Walkers(4)
    walkers.command.set_command((0.9, 0.0, 0.0))
    walkers.start()
    walkers.data.root_link_pose_w[:, :2] = walkers.env.scene.env_origins[:, :2]
    walkers.walk(speed=share)
    assert walkers.moves().tolist() == [-1] * 4


def test_what_counts_is_the_way_from_the_start_and_not_from_the_middle_of_the_tile():
    walkers = Walkers(2)
    walkers.command.set_command((0.19, 0.0, 0.0))
    walkers.start()
    walkers.data.heading_w.zero_()
    walkers.data.root_link_pose_w[:, :2] = walkers.env.scene.env_origins[:, :2]
    walkers.data.root_link_pose_w[:, 0] += torch.tensor([0.5, -0.5])
    walkers.env.command_manager.reset(walkers.all)
    walkers.walk()  # 3.8 m, less than half a tile: in front of the middle by 4.3 and by 3.3 m
    assert walkers.moves().tolist() == [0, 0]


def test_whoever_stood_first_and_walked_then_is_not_asked_for_a_whole_episode_of_walking():
    walkers = Walkers(2)
    walkers.command.set_command((0.0, 0.0, 0.0))
    walkers.start()
    walkers.walk(700)
    walkers.command.set_command((0.4, 0.0, 0.0))
    walkers.walk(300)
    assert walkers.moves().tolist() == [0, 0]


def test_whoever_falls_early_goes_down_and_whoever_falls_beyond_the_tile_goes_up():
    walkers = Walkers(2)
    walkers.command.set_command((1.0, 0.0, 0.0))
    walkers.start()
    walkers.walk(100)
    assert walkers.moves().tolist() == [-1, -1]
    walkers.env.scene.terrain.levels.fill_(LEVEL)
    walkers.start()
    walkers.walk(250)
    assert walkers.moves().tolist() == [1, 1]


def test_a_first_episode_that_claims_to_be_older_is_judged_by_the_steps_it_made():
    """Learners spread the first resets by random episode lengths."""
    walkers = Walkers(2)
    walkers.command.set_command((1.0, 0.0, 0.0))
    walkers.start()
    walkers.env.episode_length_buf.fill_(900)
    walkers.walk(100)
    assert walkers.moves().tolist() == [0, 0]


def test_levels_need_a_command_that_asks_to_walk():
    walkers = Walkers(2)
    walkers.env.command_manager = CommandManager({"v": mdp.NullCommandCfg()}, walkers.env)
    with pytest.raises(TermError, match="terrain_levels_vel: command 'v' is a NullCommand, which says nothing of"):
        walkers.moves()
