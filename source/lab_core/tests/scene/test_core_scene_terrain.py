"""Generated terrain in a scene: who gets which tile, from which seed, and what a saved environment keeps."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.errors import ConfigError
from lab_core.scene import GroundCfg
from lab_core.terrain import PlaneTerrainCfg, RandomGridTerrainCfg, TerrainGeneratorCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 8


def rough_cartpole(seed: int = 3, **terrain) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.seed = seed
    cfg.scene.ground = None
    cfg.scene.terrain = TerrainGeneratorCfg(
        sub_terrains={"plane": PlaneTerrainCfg(), "boxes": RandomGridTerrainCfg()},
        **({"num_rows": 4, "num_cols": 2, "border_width": 1.0} | terrain),
    )
    return cfg


def test_a_plane_has_no_levels():
    env = analytic_cartpole_env_cfg(num_envs=N).build()
    assert env.scene.terrain is None and env.physics.terrain is None
    assert not env.scene.env_origins.any()


def test_origins_are_those_of_the_environments_tiles():
    env = rough_cartpole().build()
    levels, types = env.scene.terrain.levels, env.scene.terrain.types
    origins = torch.tensor(env.physics.terrain.origins)
    assert torch.equal(env.scene.env_origins, origins[levels, types])
    assert env.scene.env_origins.data_ptr() == env.physics.env_origins.data_ptr()


def test_a_curriculum_starts_at_low_levels_and_a_mix_at_any():
    low = rough_cartpole(max_init_level=1).build().scene.terrain.levels
    assert low.max() <= 1
    mixed = rough_cartpole(max_init_level=0, curriculum=False).build().scene.terrain.levels
    assert mixed.max() > 0


def test_the_terrain_follows_the_seed_of_the_run_unless_it_has_its_own():
    def heights(seed: int, own: int | None = None) -> torch.Tensor:
        cfg = rough_cartpole(seed)
        cfg.scene.terrain.seed = own
        env = cfg.build()
        assert env.cfg.scene.terrain.seed == (seed if own is None else own), "the stored configuration repeats the run"
        return torch.tensor(env.physics.terrain.to_mesh().vertices)

    assert torch.equal(heights(1), heights(1))
    assert not torch.equal(heights(1), heights(2))
    assert torch.equal(heights(1, own=7), heights(2, own=7))


def test_levels_are_part_of_the_saved_state():
    first, second = rough_cartpole().build(), rough_cartpole().build()
    everyone = torch.ones(N, dtype=torch.bool)
    first.scene.terrain.levels.zero_()
    first.scene.terrain.update(everyone, everyone, ~everyone)
    assert first.scene.terrain.levels.tolist() == [1] * N
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.scene.terrain.levels, first.scene.terrain.levels)
    assert torch.equal(second.physics.env_origins, first.physics.env_origins)


def test_plane_and_terrain_at_once_are_refused():
    cfg = rough_cartpole()
    cfg.scene.ground = GroundCfg()
    with pytest.raises(ConfigError, match="scene.ground and scene.terrain are both set"):
        cfg.build()
