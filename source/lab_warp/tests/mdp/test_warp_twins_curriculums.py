"""The twin of the terrain curriculum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.terrain import TerrainLevels
from lab_warp import CaptureContext, CapturedStage
from lab_warp.testing import FakeEnv, check_signature, rng_model
from lab_warp.twins import find_twin

LEVELS, TYPES = 6, 3
TILE_SIZE = 2.0


class Recorded:
    """The twin in an environment on tiles, which moves the environments of ``env.reset_mask``."""

    def __init__(self, device: str, num_envs: int = 64) -> None:
        self.env = make_env(device, num_envs)
        self.logged = torch.zeros(1, device=self.env.device)
        robot, out = SceneEntityCfg("robot"), wp.from_torch(self.logged)
        robot.resolve(self.env.scene)
        twin, mask = find_twin(mdp.terrain_levels_vel), self.env.warp.reset_mask
        assert twin is not None
        self.stage = CapturedStage(
            lambda: twin(self.env, mask, out, command_name="velocity", asset_cfg=robot),
            CaptureContext(self.env.wp_device, enabled=True),
        )

    def __call__(self) -> None:
        self.stage()

    @property
    def levels(self) -> torch.Tensor:
        return self.env.scene.terrain.levels


def make_env(device: str, num_envs: int = 64) -> FakeEnv:
    env = FakeEnv(device, num_envs)
    origins = torch.randn(LEVELS, TYPES, 3, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator(device).manual_seed(1)
    env.scene.terrain = TerrainLevels(origins, num_envs, generator, env_origins=env.scene.env_origins)
    assert env.physics.terrain.tile_size == TILE_SIZE
    return env


def fill(env: FakeEnv, seed: int, highest: int) -> None:
    """New positions and commands; levels 0 .. ``highest`` in turn; a third of the episodes has not begun."""
    env.randomize(seed)
    env.scene.terrain.levels.copy_(torch.arange(env.num_envs) % (highest + 1))
    env.episode_length_buf[::3] = 0


def walk_away(env: FakeEnv) -> None:
    """Everybody has walked beyond the tile."""
    env.episode_length_buf.fill_(10)
    ask_for(env, 0.0)
    env.scene["robot"].data.root_link_pose_w[:, :2] = env.scene.env_origins[:, :2] + TILE_SIZE


def ask_for(env: FakeEnv, distance: float) -> None:
    """Episodes began at the origins, and asked for a way of that length [m]."""
    command = env.command_manager.get_term("velocity")
    command.start_pos_w.copy_(env.scene.env_origins[:, :2])
    command.asked_displacement_w.copy_(torch.tensor([0.6 * distance, 0.8 * distance]))


def test_twin_takes_the_parameters_of_its_term() -> None:
    check_signature(mdp.terrain_levels_vel)


def test_twin_replays_what_its_term_does(device: str) -> None:
    recorded, wanted = Recorded(device), make_env(device)
    moves = set()
    for seed in range(4):
        # Nobody can pass the last level, where chance decides.
        for env in (recorded.env, wanted):
            fill(env, seed, highest=LEVELS - 2)
        before = recorded.levels.clone()
        robot = SceneEntityCfg("robot")
        mean = mdp.terrain_levels_vel(wanted, wanted.reset_mask, "velocity", robot)
        recorded()
        assert recorded.logged[0] == mean
        assert torch.equal(recorded.levels, wanted.scene.terrain.levels)
        assert torch.equal(recorded.env.scene.env_origins, wanted.scene.env_origins)
        moves |= set((recorded.levels - before).tolist())
    assert moves == {-1, 0, 1}
    assert recorded.stage.report().num_captures == 1


def test_other_environments_keep_level_origin_and_stream(device: str) -> None:
    recorded = Recorded(device)
    env = recorded.env
    for seed in range(3):
        fill(env, seed, highest=LEVELS - 1)
        before = recorded.levels.clone(), env.scene.env_origins.clone(), env.rng.state.numpy().copy()
        recorded()
        moving = env.reset_mask & (env.episode_length_buf > 0)
        for after, old in zip((recorded.levels, env.scene.env_origins), before, strict=False):
            assert torch.equal(after[~moving], old[~moving])
        np.testing.assert_array_equal(env.rng.state.numpy() != before[2], moving.cpu().numpy())


def test_who_passes_the_last_level_goes_on_anywhere(device: str) -> None:
    recorded = Recorded(device, num_envs=3000)
    env = recorded.env
    env.rng.seed(4)
    env.reset_mask.fill_(True)
    recorded.levels.fill_(LEVELS - 1)
    walk_away(env)
    recorded()
    expected, _ = rng_model.randi(rng_model.rand_init(4, np.arange(3000)), 0, LEVELS)
    np.testing.assert_array_equal(recorded.levels.cpu().numpy(), expected)
    shares = torch.bincount(recorded.levels, minlength=LEVELS) / 3000
    assert ((shares - 1.0 / LEVELS).abs() < 0.04).all()
    terrain = env.scene.terrain
    assert torch.equal(env.scene.env_origins, terrain.origins[terrain.levels, terrain.types])
    assert recorded.logged[0] == recorded.levels.float().mean()


def test_nobody_falls_below_the_first_level(device: str) -> None:
    recorded = Recorded(device)
    env = recorded.env
    env.reset_mask.fill_(True)
    env.episode_length_buf.fill_(10)
    ask_for(env, 1.0)
    recorded.levels.copy_(torch.arange(env.num_envs) % 2)
    env.scene["robot"].data.root_link_pose_w[:, :2] = env.scene.env_origins[:, :2]
    recorded()
    assert (recorded.levels == 0).all()


def test_early_falls_and_slow_walks_move_as_in_torch(device: str) -> None:
    """Of episodes of any length, some longer than they may be, that walked around half of what was asked for."""
    recorded, wanted = Recorded(device), make_env(device)
    for env in (recorded.env, wanted):
        fill(env, seed=0, highest=LEVELS - 2)
        ask_for(env, 1.5)
        env.reset_mask.fill_(True)
        env.episode_length_buf.copy_(torch.arange(env.num_envs))
        pose, shares = env.scene["robot"].data.root_link_pose_w, torch.linspace(0.05, 1.0, 7, device=env.device)
        pose[:, 0] = env.scene.env_origins[:, 0] + 1.5 * shares[torch.arange(env.num_envs) % 7]
        pose[:, 1] = env.scene.env_origins[:, 1]
    before = recorded.levels.clone()
    mdp.terrain_levels_vel(wanted, wanted.reset_mask, "velocity", SceneEntityCfg("robot"))
    recorded()
    assert torch.equal(recorded.levels, wanted.scene.terrain.levels)
    assert set((recorded.levels - before)[before > 0].tolist()) == {-1, 0, 1}


def test_a_command_that_asks_for_no_way_is_refused_as_in_torch() -> None:
    env = make_env("cpu")
    del env.command_manager.get_term("velocity").start_pos_w
    twin, out = find_twin(mdp.terrain_levels_vel), wp.zeros(1, dtype=wp.float32, device="cpu")
    assert twin is not None
    for arguments in ((mdp.terrain_levels_vel, env.reset_mask), (twin, env.warp.reset_mask, out)):
        with pytest.raises(TermError, match="command 'velocity' is a FakeCommand, which says nothing of how far"):
            arguments[0](env, *arguments[1:], command_name="velocity")


def test_a_plane_is_refused_as_in_torch() -> None:
    messages = []
    env = FakeEnv()
    twin, out = find_twin(mdp.terrain_levels_vel), wp.zeros(1, dtype=wp.float32, device="cpu")
    assert twin is not None
    for arguments in ((mdp.terrain_levels_vel, env.reset_mask), (twin, env.warp.reset_mask, out)):
        with pytest.raises(TermError, match="needs generated ground") as caught:
            arguments[0](env, *arguments[1:], command_name="velocity")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
