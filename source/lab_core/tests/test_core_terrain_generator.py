"""The generator: layout, difficulty, origins, seeds, cache, height field."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lab_core.config import dump_yaml, load_yaml
from lab_core.errors import ConfigError
from lab_core.terrain import (
    DiscreteObstaclesTerrainCfg,
    FlatPatchCfg,
    HeightField,
    PitTerrainCfg,
    PlaneTerrainCfg,
    PyramidStairsTerrainCfg,
    RandomGridTerrainCfg,
    RandomRoughTerrainCfg,
    StepField,
    SteppingStonesTerrainCfg,
    SubTerrainCfg,
    Terrain,
    TerrainGeneratorCfg,
    generate_terrain,
    rough_terrains_cfg,
)
from lab_core.terrain.cache import cache_key, cache_path


@pytest.fixture(scope="module")
def rough() -> Terrain:
    return generate_terrain(rough_terrains_cfg(), seed=1)


def small_cfg(**changes) -> TerrainGeneratorCfg:
    """Two levels of stairs, boxes and rough ground, on tiles of 4 m."""
    cfg = TerrainGeneratorCfg(
        sub_terrains={
            "stairs": PyramidStairsTerrainCfg(platform_width=1.5, border_width=0.5),
            "boxes": RandomGridTerrainCfg(),
            "rough": RandomRoughTerrainCfg(),
        },
        size=4.0,
        num_rows=2,
        num_cols=3,
        border_width=1.0,
    )
    return dataclasses.replace(cfg, **changes)


def digest(terrain: Terrain) -> str:
    mesh = terrain.to_mesh()
    arrays = (mesh.vertices, mesh.triangles, terrain.origins, *terrain.flat_patches.values())
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


class TestLayout:
    def test_columns_get_their_types_by_cumulative_proportion(self, rough):
        assert rough.type_names == (
            "pyramid_stairs",
            "pyramid_stairs_inv",
            "boxes",
            "random_rough",
            "hf_pyramid_slope",
            "hf_pyramid_slope_inv",
        )
        expected = np.repeat(np.arange(6), [4, 4, 4, 4, 2, 2])
        np.testing.assert_array_equal(rough.types, np.tile(expected, (10, 1)))

    def test_difficulty_grows_with_the_row(self, rough):
        part = rough.difficulties * 10 - np.arange(10)[:, None]
        assert 0 <= part.min() < 0.1 and 0.9 < part.max() <= 1

    def test_difficulty_range_is_divided_among_the_rows(self):
        d = generate_terrain(small_cfg(difficulty_range=(0.4, 0.6))).difficulties
        assert (0.4 <= d[0]).all() and (d[0] <= 0.5).all() and (0.5 <= d[1]).all() and (d[1] <= 0.6).all()

    def test_without_curriculum_types_and_difficulties_are_random(self):
        sub_terrains: dict[str, SubTerrainCfg] = {
            "plane": PlaneTerrainCfg(proportion=3.0),
            "pit": PitTerrainCfg(proportion=1.0),
            "never": PlaneTerrainCfg(proportion=0.0),
        }
        terrain = generate_terrain(
            small_cfg(
                sub_terrains=sub_terrains, num_rows=30, num_cols=30, curriculum=False, difficulty_range=(0.5, 1.0)
            )
        )
        assert np.bincount(terrain.types.ravel(), minlength=3) / 900 == pytest.approx([0.75, 0.25, 0.0], abs=0.05)
        assert len(np.unique(terrain.difficulties)) == 900
        assert terrain.difficulties.min() >= 0.5
        assert terrain.difficulties.mean() == pytest.approx(0.75, abs=0.02)

    def test_size_includes_both_borders(self, rough):
        assert rough.size == (120.0, 200.0)
        assert (rough.num_rows, rough.num_cols) == (10, 20)
        vertices = rough.to_mesh().vertices
        np.testing.assert_array_equal(vertices[:, :2].max(axis=0), [60.0, 100.0])
        np.testing.assert_array_equal(vertices[:, :2].min(axis=0), [-60.0, -100.0])

    def test_each_tile_is_the_surface_of_its_difficulty(self, rough):
        for row in range(10):
            riser = 0.05 + rough.difficulties[row, 2] * 0.18
            x, y = rough.tile_centre(row, 2)
            np.testing.assert_allclose(rough.height_at([(x + 2.85, y), (x, y)]), [riser, 7 * riser], rtol=1e-6)


class TestOrigins:
    def test_are_in_the_middle_of_their_tiles(self, rough):
        row, col = np.mgrid[:10, :20]
        np.testing.assert_allclose(rough.origins[..., 0], (row + 0.5) * 8 - 40)
        np.testing.assert_allclose(rough.origins[..., 1], (col + 0.5) * 8 - 80)
        assert rough.tile_centre(3, 7) == (-12.0, -20.0)

    def test_stand_on_the_ground(self, rough):
        ground = rough.height_at(rough.origins[..., :2])
        uneven = rough.types == rough.type_names.index("random_rough")
        np.testing.assert_array_equal(rough.origins[..., 2][~uneven], ground[~uneven])
        assert (rough.origins[..., 2] >= ground).all()

    def test_have_the_heights_of_their_types(self, rough):
        d, z, kind = rough.difficulties, rough.origins[..., 2], rough.types
        np.testing.assert_allclose(z[kind == 0], 7 * (0.05 + 0.18 * d[kind == 0]), rtol=1e-5)
        np.testing.assert_allclose(z[kind == 1], -7 * (0.05 + 0.18 * d[kind == 1]), rtol=1e-5)
        np.testing.assert_allclose(z[kind == 2], 0.05 + 0.15 * d[kind == 2], rtol=1e-5)
        # of 441 random heights the greatest is the top of the range
        np.testing.assert_allclose(z[kind == 3], 0.10, rtol=1e-6)
        assert (z[kind == 4] >= 0).all() and (z[kind == 5] <= 0).all()

    def test_on_rough_ground_lie_above_all_that_is_near(self, rough):
        near = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), axis=-1)
        for row in range(10):
            centre = rough.origins[row, 13, :2].astype(np.float64)
            assert rough.origins[row, 13, 2] == pytest.approx(rough.height_at(centre + near).max())


class TestSeed:
    def test_same_seed_in_another_process_gives_the_same_bits(self):
        cfg = small_cfg(flat_patches={"goal": FlatPatchCfg(radius=0.2, max_height_difference=0.1)})
        code = (
            "import random, numpy as np; random.seed(8); np.random.seed(9)\n"
            "from lab_core.config import load_yaml\n"
            "from lab_core.terrain import generate_terrain\n"
            "import hashlib, sys\n"
            "terrain = generate_terrain(load_yaml(sys.stdin.read()), seed=4); mesh = terrain.to_mesh()\n"
            "arrays = (mesh.vertices, mesh.triangles, terrain.origins, *terrain.flat_patches.values())\n"
            "print(hashlib.sha256(b''.join(array.tobytes() for array in arrays)).hexdigest())"
        )
        other = subprocess.run(
            [sys.executable, "-c", code],
            input=dump_yaml(cfg),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "7"},
        )
        first = digest(generate_terrain(cfg, seed=4))
        random.random(), np.random.random(), torch.rand(1)
        assert other.stdout.strip() == first == digest(generate_terrain(cfg, seed=4))

    def test_global_generators_are_left_alone(self):
        before = (random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state())
        generate_terrain(small_cfg(curriculum=False))
        assert random.getstate() == before[0]
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])
        assert torch.equal(torch.get_rng_state(), before[2])

    def test_another_seed_gives_another_terrain(self):
        assert digest(generate_terrain(small_cfg(), seed=1)) != digest(generate_terrain(small_cfg(), seed=2))

    def test_seed_of_the_configuration_goes_before_that_of_the_run(self):
        assert digest(generate_terrain(small_cfg(seed=1), seed=2)) == digest(generate_terrain(small_cfg(), seed=1))

    def test_a_tile_depends_on_no_other_tile(self):
        """More columns or flat patches leave the ground of a tile as it was."""
        plain = {"boxes": RandomGridTerrainCfg()}
        few = generate_terrain(small_cfg(sub_terrains=plain))
        patches = {"any": FlatPatchCfg(radius=0.1, max_height_difference=1.0)}
        many = generate_terrain(small_cfg(sub_terrains=plain, num_cols=5, flat_patches=patches))
        np.testing.assert_array_equal(few.tiles[1][2].heights, many.tiles[1][2].heights)
        assert not np.array_equal(few.tiles[1][2].heights, few.tiles[1][1].heights)


class TestHeight:
    def test_border_and_outside(self, rough):
        points = [(59.9, 99.9), (-60.0, 0.0), (45.0, 12.0), (60.1, 0.0), (0.0, -100.1)]
        np.testing.assert_array_equal(rough.height_at(points), [0, 0, 0, np.nan, np.nan])

    def test_keeps_the_shape_of_its_input(self, rough):
        assert rough.height_at(np.zeros((3, 5, 2))).shape == (3, 5)
        assert float(rough.height_at((40.0, 0.0))) == 0.0

    def test_is_that_of_the_whole_mesh(self):
        terrain = generate_terrain(small_cfg())
        mesh = terrain.to_mesh()
        a, b, c = np.moveaxis(mesh.vertices.astype(np.float64)[mesh.triangles], 1, 0)
        flat_area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
        assert flat_area.min() >= 0
        assert flat_area.sum() / 2 == pytest.approx(np.prod(terrain.size), rel=1e-5)
        top = flat_area > 0
        centroids = ((a + b + c) / 3)[top]
        np.testing.assert_allclose(terrain.height_at(centroids[:, :2]), centroids[:, 2], atol=1e-6)

    def test_height_field_samples_every_tile(self):
        terrain = generate_terrain(small_cfg())
        field = terrain.to_heightfield()
        assert field.heights.shape == (101, 141) and field.size == pytest.approx(terrain.size)
        axes = [np.linspace(-side / 2, side / 2, n) for side, n in zip(terrain.size, field.heights.shape, strict=True)]
        nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        inside = np.clip(nodes, -np.array(terrain.size) / 2, np.array(terrain.size) / 2)
        np.testing.assert_allclose(field.heights, terrain.height_at(inside), atol=1e-9)
        np.testing.assert_allclose(field.height_at(inside), field.heights, atol=1e-6)

    def test_height_field_is_exact_where_the_ground_is_one(self):
        rough_alone = small_cfg(sub_terrains={"rough": RandomRoughTerrainCfg()})
        terrain = generate_terrain(rough_alone)
        xy = np.random.default_rng(0).uniform(-4, 4, (500, 2))
        np.testing.assert_allclose(terrain.to_heightfield().height_at(xy), terrain.height_at(xy), atol=1e-6)

    def test_height_field_at_another_resolution(self):
        terrain = generate_terrain(small_cfg())
        assert terrain.to_heightfield(0.05).heights.shape == (201, 281)
        with pytest.raises(ConfigError, match="tile_size 4.0 must be a multiple of horizontal_scale 0.3"):
            terrain.to_heightfield(0.3)

    def test_no_border(self):
        terrain = generate_terrain(small_cfg(border_width=0.0))
        assert terrain.size == (8.0, 12.0)
        assert terrain.to_heightfield().heights.shape == (81, 121)
        assert np.abs(terrain.to_mesh().vertices[:, 0]).max() == 4.0

    @pytest.mark.parametrize("size", [7.3, 1.1])
    def test_neighbours_share_their_edge_exactly_for_odd_sizes(self, size):
        plane: dict[str, SubTerrainCfg] = {"plane": PlaneTerrainCfg()}
        terrain = generate_terrain(small_cfg(sub_terrains=plane, size=size, num_rows=7, num_cols=9))
        vertices = terrain.to_mesh().vertices
        assert (len(np.unique(vertices[:, 0])), len(np.unique(vertices[:, 1]))) == (7 + 3, 9 + 3)


class TestFlatPatches:
    def test_are_flat_and_in_their_tiles(self):
        patch = FlatPatchCfg(num_patches=5, radius=0.3, max_height_difference=0.02)
        cfg = small_cfg(
            sub_terrains={"stairs": small_cfg().sub_terrains["stairs"], "stones": SteppingStonesTerrainCfg()},
            num_cols=2,
            flat_patches={"goal": patch},
        )
        terrain = generate_terrain(cfg, seed=3)
        patches = terrain.flat_patches["goal"].astype(np.float64)
        assert patches.shape == (2, 2, 5, 3)
        angle = np.linspace(0, 2 * np.pi, 40)[:, None]
        ring = np.concatenate([r * np.hstack([np.cos(angle), np.sin(angle)]) for r in (0.0, 0.1, 0.2, 0.29)])
        around = terrain.height_at(patches[..., None, :2] + ring)
        assert np.ptp(around, axis=-1).max() <= 0.02
        np.testing.assert_allclose(terrain.height_at(patches[..., :2]), patches[..., 2], atol=1e-6)
        assert np.abs(patches[..., :2] - terrain.origins[:, :, None, :2]).max() <= 2.0 - 0.3 + 1e-6
        assert len(np.unique(patches[..., 0])) == 20

    def test_stay_near_the_middle_if_asked(self):
        patch = FlatPatchCfg(num_patches=20, radius=0.1, max_distance=0.5, max_height_difference=1.0)
        terrain = generate_terrain(small_cfg(flat_patches={"start": patch}))
        distance = np.abs(terrain.flat_patches["start"][..., :2] - terrain.origins[:, :, None, :2])
        assert 0.3 < distance.max() <= 0.5 + 1e-6

    def test_say_where_they_cannot_be_found(self):
        patch = FlatPatchCfg(radius=0.5, max_height_difference=0.0)
        cfg = small_cfg(
            sub_terrains={"rough": RandomRoughTerrainCfg()}, num_rows=1, num_cols=1, flat_patches={"goal": patch}
        )
        with pytest.raises(ConfigError, match=r"flat_patches\['goal'\] in tile \(0, 0\), sub-terrain 'rough': found 0"):
            generate_terrain(cfg)
        with pytest.raises(ConfigError, match="radius 3.0 do not fit"):
            generate_terrain(small_cfg(flat_patches={"goal": FlatPatchCfg(radius=3.0)}))


def _variants(cfg) -> list:
    """Copies of a configuration, each with one field changed somewhere inside."""
    variants = []
    for field in dataclasses.fields(cfg):
        value = getattr(cfg, field.name)
        if isinstance(value, dict):
            for key, child in value.items():
                variants += [dataclasses.replace(cfg, **{field.name: {**value, key: v}}) for v in _variants(child)]
            changed = [{f"{key}_renamed": child for key, child in value.items()}]
            changed += [dict(reversed(value.items()))] if len(value) > 1 else []
        elif isinstance(value, bool):
            changed = [not value]
        elif isinstance(value, tuple):
            changed = [(value[0], value[1] / 2), (value[0] + 1e-9, value[1])]
        else:
            changed = [1 if value is None else value + 1]
        variants += [dataclasses.replace(cfg, **{field.name: new}) for new in changed]
    return variants


class RunsCode:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


class OwnSurface(HeightField):
    """Ground of a class that nobody else knows."""


class OwnSurfaceCfg(SubTerrainCfg):
    def surface(self, difficulty, tile, rng):
        return OwnSurface(np.zeros((3, 3)), tile.size / 2)


class TestCache:
    def test_every_field_changes_the_key(self):
        cfg = small_cfg(flat_patches={"goal": FlatPatchCfg(max_distance=1.0)})
        cfg.sub_terrains["obstacles"] = DiscreteObstaclesTerrainCfg()
        variants = _variants(cfg)
        assert len(variants) > 30
        keys = {cache_key(variant, 0) for variant in variants}
        assert len(keys | {cache_key(cfg, 0), cache_key(cfg, 1)}) == len(variants) + 2
        assert cache_key(load_yaml(dump_yaml(cfg)), 0) == cache_key(cfg, 0)

    def test_second_call_reads_the_file(self, tmp_path, monkeypatch):
        cfg = small_cfg(use_cache=True, flat_patches={"goal": FlatPatchCfg(radius=0.1, max_height_difference=0.1)})
        first = generate_terrain(cfg, seed=3, cache_dir=tmp_path / "new")
        assert [path.name for path in (tmp_path / "new").iterdir()] == [f"{cache_key(cfg, 3)}.terrain"]
        monkeypatch.setattr("lab_core.terrain.generator._generate", None)
        second = generate_terrain(cfg, seed=3, cache_dir=tmp_path / "new")
        assert digest(first) == digest(second)
        assert second.type_names == first.type_names

    def test_seed_of_the_run_is_part_of_the_key(self, tmp_path):
        cfg = small_cfg(use_cache=True)
        terrains = [generate_terrain(cfg, seed=seed, cache_dir=tmp_path) for seed in (1, 2)]
        assert digest(terrains[0]) != digest(terrains[1])

    @pytest.mark.parametrize("damage", [lambda b: b[:-100], lambda b: b[:5], lambda b: b"", lambda b: b[:-1] + b"x"])
    def test_damaged_file_is_replaced(self, tmp_path, damage):
        cfg = small_cfg(use_cache=True)
        first = generate_terrain(cfg, cache_dir=tmp_path)
        path = cache_path(cfg, 0, tmp_path)
        content = path.read_bytes()
        path.write_bytes(damage(content))
        assert digest(generate_terrain(cfg, cache_dir=tmp_path)) == digest(first)
        assert path.read_bytes() == content

    def test_every_bit_comes_back(self, tmp_path):
        cfg = small_cfg(use_cache=True, flat_patches={"goal": FlatPatchCfg(radius=0.1, max_height_difference=0.1)})
        first, second = (generate_terrain(cfg, cache_dir=tmp_path) for _ in range(2))
        assert first is not second
        for field in dataclasses.fields(first):
            if field.name != "tiles":
                np.testing.assert_equal(getattr(second, field.name), getattr(first, field.name))
        for before, after in zip(sum(first.tiles, []), sum(second.tiles, []), strict=True):
            assert type(before) is type(after)
            np.testing.assert_equal(vars(after), vars(before))
            assert {name: type(value) for name, value in vars(after).items()} == {
                name: type(value) for name, value in vars(before).items()
            }

    def test_a_pickle_in_its_place_runs_nothing(self, tmp_path):
        cfg = small_cfg(use_cache=True)
        path = cache_path(cfg, 0, tmp_path)
        payload = pickle.dumps(RunsCode(tmp_path / "ran"))
        path.write_bytes(hashlib.sha256(payload).digest() + payload)
        generate_terrain(cfg, cache_dir=tmp_path)
        assert not (tmp_path / "ran").exists()

    def test_surfaces_of_an_own_class_are_generated_anew(self, tmp_path):
        cfg = small_cfg(use_cache=True)
        cfg.sub_terrains = {"own": OwnSurfaceCfg(proportion=1.0)}
        first, second = (generate_terrain(cfg, cache_dir=tmp_path) for _ in range(2))
        assert list(tmp_path.iterdir()) == [] and digest(first) == digest(second)

    def test_failed_write_leaves_nothing_behind(self, tmp_path, monkeypatch):
        def full_disk(self, target):
            raise OSError("No space left on device")

        monkeypatch.setattr(Path, "replace", full_disk)
        with pytest.raises(OSError, match="No space left"):
            generate_terrain(small_cfg(use_cache=True), cache_dir=tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_default_folder_is_in_the_cache_of_the_user(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_path(small_cfg(), 0).parent == tmp_path / "lab" / "terrain"

    def test_off_by_default(self, tmp_path):
        generate_terrain(small_cfg(), cache_dir=tmp_path)
        assert list(tmp_path.iterdir()) == []


@dataclasses.dataclass(kw_only=True)
class OwnTerrainCfg(SubTerrainCfg):
    height: float = 0.1

    def surface(self, difficulty, tile, rng):
        half = tile.size / 2
        return StepField([-half, half], [-half, half], [[self.height]])


class TestMistakes:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"sub_terrains": {}}, "sub_terrains is empty"),
            ({"sub_terrains": {"a": PlaneTerrainCfg(proportion=-1.0)}}, r"\['a'\].proportion must not be negative"),
            ({"sub_terrains": {"a": PlaneTerrainCfg(proportion=0.0)}}, "sub_terrains a are all 0"),
            ({"num_rows": 0}, "num_rows must be positive, got 0"),
            ({"size": float("nan")}, "size must be positive"),
            ({"border_width": -1.0}, "border_width must not be negative"),
            ({"difficulty_range": (0.5, 1.5)}, "difficulty_range must increase within 0 .. 1"),
            ({"difficulty_range": (0.5, 0.4)}, "difficulty_range must increase"),
            ({"seed": -1}, "seed of a terrain must not be negative"),
        ],
    )
    def test_names_the_field(self, changes, words):
        with pytest.raises(ConfigError, match=words):
            generate_terrain(small_cfg(**changes))

    def test_tiles_must_meet_at_height_0(self):
        with pytest.raises(ConfigError, match=r"sub_terrains\['mine'\] \(OwnTerrainCfg\) reaches the rim .* 0.1 m"):
            generate_terrain(small_cfg(sub_terrains={"mine": OwnTerrainCfg()}))

    def test_own_sub_terrains_take_part(self):
        terrain = generate_terrain(small_cfg(sub_terrains={"mine": OwnTerrainCfg(height=0.0)}))
        np.testing.assert_array_equal(terrain.to_heightfield().heights, 0.0)


def test_presets_are_fresh_and_can_be_scaled():
    first, second = rough_terrains_cfg(), rough_terrains_cfg(step_height_range=(0.025, 0.12))
    assert first.sub_terrains["pyramid_stairs"] is not second.sub_terrains["pyramid_stairs"]
    stairs = generate_terrain(dataclasses.replace(second, difficulty_range=(1.0, 1.0), num_rows=1)).tiles[0][4]
    assert float(stairs.height_at((2.85, 0.0))) == pytest.approx(-0.12)
    assert isinstance(generate_terrain(first).tiles[0][12], HeightField)
