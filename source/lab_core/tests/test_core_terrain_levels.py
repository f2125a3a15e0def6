"""Terrain levels: where environments start, how they move, and what a partial update leaves alone."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core.errors import ConfigError
from lab_core.seeding import make_generator
from lab_core.terrain import PlaneTerrainCfg, TerrainGeneratorCfg, TerrainLevels, generate_terrain
from lab_core.testing import check_masked_reset

ROWS, COLS = 10, 20


def grid(rows: int = ROWS, cols: int = COLS) -> torch.Tensor:
    """Origins that name their tile: (row, column, 100 row + column)."""
    row, col = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    return torch.stack([row, col, 100 * row + col], dim=-1).float()


def make(num_envs: int = 40, max_init_level: int | None = 5, **kwargs) -> TerrainLevels:
    return TerrainLevels(grid(**kwargs), num_envs, make_generator(0, stream="terrain"), max_init_level)


def flags(num_envs: int, *envs: int) -> torch.Tensor:
    mask = torch.zeros(num_envs, dtype=torch.bool)
    mask[list(envs)] = True
    return mask


def check_origins(levels: TerrainLevels) -> None:
    expected = torch.stack([levels.levels, levels.types, 100 * levels.levels + levels.types], dim=-1).float()
    assert torch.equal(levels.env_origins, expected)


class TestStart:
    def test_levels_are_uniform_up_to_the_highest_allowed(self):
        levels = make(6000).levels
        assert torch.bincount(levels).tolist() == pytest.approx([1000] * 6, abs=120)

    @pytest.mark.parametrize("max_init_level", [None, 9, 50])
    def test_all_levels(self, max_init_level):
        levels = make(2000, max_init_level).levels
        assert torch.equal(levels.unique(), torch.arange(ROWS))

    def test_level_zero(self):
        assert make(100, 0).levels.max() == 0

    @pytest.mark.parametrize("num_envs", [40, 4096, 7, 1])
    def test_types_are_equal_consecutive_shares(self, num_envs):
        types = make(num_envs).types
        assert types.tolist() == [env * COLS // num_envs for env in range(num_envs)]

    def test_origins_are_those_of_the_tiles(self):
        check_origins(make(333))

    def test_every_origin_lies_in_its_tile(self):
        cfg = TerrainGeneratorCfg(sub_terrains={"plane": PlaneTerrainCfg()}, num_rows=3, num_cols=4, size=2.0)
        terrain = generate_terrain(cfg)
        levels = TerrainLevels(terrain.origins, 50, make_generator(0))
        for level, kind, origin in zip(levels.levels, levels.types, levels.env_origins.numpy(), strict=True):
            x, y = terrain.tile_centre(int(level), int(kind))
            assert abs(origin[0] - x) < 1.0 and abs(origin[1] - y) < 1.0

    def test_same_seed_same_start(self):
        assert torch.equal(make().levels, make().levels)

    def test_mistakes(self):
        with pytest.raises(ConfigError, match="max_init_level must not be negative, got -1"):
            make(max_init_level=-1)
        with pytest.raises(ValueError, match=r"rows, cols, 3\), got \(10, 3\)"):
            TerrainLevels(torch.zeros(10, 3), 4, make_generator(0))


class TestUpdate:
    def test_up_down_and_stay(self):
        levels = make(4)
        levels.levels.copy_(torch.tensor([3, 3, 3, 3]))
        levels.update(flags(4, 0, 1, 2, 3), flags(4, 0, 3), flags(4, 1, 3))
        assert levels.levels.tolist() == [4, 2, 3, 3]
        check_origins(levels)

    def test_nobody_falls_below_zero(self):
        levels = make(3, 0)
        levels.update(flags(3, 0, 1, 2), flags(3), flags(3, 0, 1, 2))
        assert levels.levels.tolist() == [0, 0, 0]

    def test_who_passes_the_last_level_goes_on_at_a_random_one(self):
        n = 5000
        levels = make(n)
        levels.levels.fill_(ROWS - 1)
        levels.update(torch.ones(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool), flags(n))
        assert torch.bincount(levels.levels, minlength=ROWS).tolist() == pytest.approx([500] * ROWS, abs=100)
        check_origins(levels)

    def test_the_last_level_itself_can_be_reached(self):
        levels = make(1)
        levels.levels.fill_(ROWS - 2)
        levels.update(flags(1, 0), flags(1, 0), flags(1))
        assert levels.levels.tolist() == [ROWS - 1]

    def test_scripted_walk(self):
        """Environment 0 walks on and on, 1 fails always, 2 alternates, 3 is never reset."""
        levels = make(4)
        levels.levels.fill_(4)
        levels.update(flags(4, 0, 1, 2, 3), flags(4), flags(4))
        seen = []
        for step in range(5):
            up = flags(4, 0, 3) if step % 2 else flags(4, 0, 2, 3)
            down = flags(4, 1, 2) if step % 2 else flags(4, 1)
            levels.update(flags(4, 0, 1, 2), up, down)
            seen.append(levels.levels.tolist())
            check_origins(levels)
        assert seen == [[5, 3, 5, 4], [6, 2, 4, 4], [7, 1, 5, 4], [8, 0, 4, 4], [9, 0, 5, 4]]

    def test_random_levels_do_not_depend_on_who_is_reset(self):
        one, other = make(), make()
        n = 40
        one.update(flags(n, 1), flags(n), flags(n))
        other.update(flags(n, 5, 6), flags(n), flags(n))
        for levels in (one, other):
            levels.levels.fill_(ROWS - 1)
            levels.update(flags(n, 8), flags(n, 8), flags(n))
        assert one.levels[8] == other.levels[8]

    def test_touches_only_its_rows(self):
        n = 7
        levels = make(n, rows=3, cols=4)
        up = torch.ones(n, dtype=torch.bool)
        changed = check_masked_reset(levels, lambda mask: levels.update(mask, up, flags(n)), num_envs=n)
        assert {"levels", "env_origins"} <= changed
        assert "types" not in changed

    def test_never_waits_for_the_device(self):
        class NoQuestions(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                assert func.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero", "masked_select"), func
                return func(*args, **(kwargs or {}))

        levels = make(4)
        mask = flags(4, 0, 2)
        with NoQuestions():
            levels.update(mask, mask, ~mask)

    def test_goes_on_bit_for_bit_after_a_restart(self):
        n = 40
        levels, resumed = make(n), make(n, 0)
        everyone = torch.ones(n, dtype=torch.bool)
        for _ in range(4):
            levels.update(everyone, everyone, flags(n))
        resumed.load_state_dict(levels.state_dict())
        assert torch.equal(levels.env_origins, resumed.env_origins)
        for _ in range(8):
            for each in (levels, resumed):
                each.update(everyone, everyone, flags(n))
        assert torch.equal(levels.levels, resumed.levels)
        check_origins(resumed)


def test_seed_repeats_the_random_levels_and_keeps_those_reached():
    levels = make(200)
    everyone = torch.ones(200, dtype=torch.bool)
    levels.levels.fill_(ROWS - 1)
    draws = []
    for _ in range(2):
        levels.seed(3)
        assert (levels.levels == ROWS - 1).all()
        levels.update(everyone, everyone, ~everyone)
        draws.append(levels.levels.clone())
        levels.levels.fill_(ROWS - 1)
    assert torch.equal(*draws)
    assert draws[0].unique().numel() > 1
