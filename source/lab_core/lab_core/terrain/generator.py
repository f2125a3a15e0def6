"""Terrain from a configuration and a seed: a pure function of the two."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab_core.errors import ConfigError
from lab_core.terrain import cache
from lab_core.terrain.config import TerrainGeneratorCfg
from lab_core.terrain.flat_patches import find_flat_patches
from lab_core.terrain.sub_terrain import SubTerrainCfg, TileSpec
from lab_core.terrain.surfaces import Surface
from lab_core.terrain.terrain import Terrain


def generate_terrain(cfg: TerrainGeneratorCfg, seed: int = 0, cache_dir: Path | None = None) -> Terrain:
    """Generate the terrain of ``cfg``.

    Each tile draws from a stream of its own, given by seed, row and column, so the same ``(cfg, seed)`` gives the
    same bits in every process, whatever else draws random numbers. No global generator is read or written.

    Args:
        cfg: What to generate.
        seed: Seed of the run; ``cfg.seed`` goes before it.
        cache_dir: Where ``cfg.use_cache`` keeps files. Default: ``lab/terrain`` in the user's cache folder.

    Raises:
        ConfigError: A value is out of range or a sub-terrain does not fit into its tile; names the field.
    """
    _check(cfg)
    seed = seed if cfg.seed is None else cfg.seed
    if seed < 0:
        raise ConfigError(f"The seed of a terrain must not be negative, got {seed}.")
    if not cfg.use_cache:
        return _generate(cfg, seed)
    path = cache.cache_path(cfg, seed, cache_dir)
    terrain = cache.load(path)
    if terrain is None:
        terrain = _generate(cfg, seed)
        cache.save(terrain, path)
    return terrain


def _generate(cfg: TerrainGeneratorCfg, seed: int) -> Terrain:
    shape = (cfg.num_rows, cfg.num_cols)
    tile = TileSpec(size=cfg.size, horizontal_scale=cfg.horizontal_scale, vertical_scale=cfg.vertical_scale)
    names = tuple(cfg.sub_terrains)
    types, difficulties = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    spawn_heights = np.zeros(shape)
    patches = {name: np.zeros((*shape, patch.num_patches, 3)) for name, patch in cfg.flat_patches.items()}
    tiles: list[list[Surface]] = []
    for row in range(cfg.num_rows):
        tiles.append([])
        for col in range(cfg.num_cols):
            rng = _rng(seed, row, col)
            types[row, col], difficulties[row, col] = _type_and_difficulty(cfg, row, col, rng)
            name = names[types[row, col]]
            surface = cfg.sub_terrains[name].surface(difficulties[row, col], tile, rng)
            _check_rim(name, cfg.sub_terrains[name], surface)
            tiles[row].append(surface)
            spawn_heights[row, col] = cfg.sub_terrains[name].spawn_height(surface)
            for index, (patch_name, patch) in enumerate(cfg.flat_patches.items()):
                # a stream of its own, so that patches do not change the ground of anything
                patch_rng = _rng(seed, row, col, index)
                where = f"flat_patches[{patch_name!r}] in tile ({row}, {col}), sub-terrain {name!r}"
                patches[patch_name][row, col] = find_flat_patches(patch, surface, tile, patch_rng, where)

    centre_x, centre_y = ((np.arange(n) + 0.5 - n / 2) * cfg.size for n in shape)
    centres = np.stack([*np.meshgrid(centre_x, centre_y, indexing="ij"), np.zeros(shape)], axis=-1)
    origins = centres + spawn_heights[:, :, None] * np.array([0.0, 0.0, 1.0])
    return Terrain(
        tiles=tiles,
        tile_size=cfg.size,
        border_width=cfg.border_width,
        horizontal_scale=cfg.horizontal_scale,
        origins=origins.astype(np.float32),
        difficulties=difficulties,
        types=types,
        type_names=names,
        flat_patches={name: (centres[:, :, None] + local).astype(np.float32) for name, local in patches.items()},
    )


def _type_and_difficulty(cfg: TerrainGeneratorCfg, row: int, col: int, rng: np.random.Generator) -> tuple[int, float]:
    low, high = cfg.difficulty_range
    proportions = np.array([sub_terrain.proportion for sub_terrain in cfg.sub_terrains.values()])
    share = proportions / proportions.sum()
    if cfg.curriculum:
        # the offset decides which side of a boundary a column that lies on it belongs to
        kind = int(np.argmax(col / cfg.num_cols + 0.001 < np.cumsum(share)))
        return kind, low + (high - low) * (row + rng.uniform()) / cfg.num_rows
    return int(rng.choice(len(share), p=share)), rng.uniform(low, high)


def _rng(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _check(cfg: TerrainGeneratorCfg) -> None:
    if not cfg.sub_terrains:
        raise ConfigError("TerrainGeneratorCfg.sub_terrains is empty.")
    for name, sub_terrain in cfg.sub_terrains.items():
        if not sub_terrain.proportion >= 0:
            raise ConfigError(f"sub_terrains[{name!r}].proportion must not be negative, got {sub_terrain.proportion}.")
    if sum(sub_terrain.proportion for sub_terrain in cfg.sub_terrains.values()) <= 0:
        raise ConfigError(f"The proportions of sub_terrains {', '.join(cfg.sub_terrains)} are all 0.")
    for name in ("size", "num_rows", "num_cols", "horizontal_scale", "vertical_scale"):
        if not getattr(cfg, name) > 0:
            raise ConfigError(f"TerrainGeneratorCfg.{name} must be positive, got {getattr(cfg, name)}.")
    if not cfg.border_width >= 0:
        raise ConfigError(f"TerrainGeneratorCfg.border_width must not be negative, got {cfg.border_width}.")
    low, high = cfg.difficulty_range
    if not 0 <= low <= high <= 1:
        raise ConfigError(
            f"TerrainGeneratorCfg.difficulty_range must increase within 0 .. 1, got {cfg.difficulty_range}."
        )


def _check_rim(name: str, cfg: SubTerrainCfg, surface: Surface) -> None:
    highest = np.abs(surface.rim_heights()).max()
    if highest > 0:
        raise ConfigError(
            f"sub_terrains[{name!r}] ({type(cfg).__name__}) reaches the rim of its tile with height {highest:.3g} m;"
            " tiles meet at height 0, so leave a border."
        )
