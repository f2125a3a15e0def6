"""Terrain without physics: sub-terrains, the generator, height fields and meshes, and the level curriculum."""

from lab_core.terrain.config import TerrainGeneratorCfg
from lab_core.terrain.flat_patches import FlatPatchCfg
from lab_core.terrain.generator import generate_terrain
from lab_core.terrain.height_field_terrains import PyramidSlopeTerrainCfg, RandomRoughTerrainCfg, WaveTerrainCfg
from lab_core.terrain.levels import TerrainLevels
from lab_core.terrain.presets import rough_terrains_cfg
from lab_core.terrain.step_terrains import (
    DiscreteObstaclesTerrainCfg,
    GapTerrainCfg,
    PitTerrainCfg,
    PlaneTerrainCfg,
    PyramidStairsTerrainCfg,
    RailsTerrainCfg,
    RandomGridTerrainCfg,
    SteppingStonesTerrainCfg,
)
from lab_core.terrain.sub_terrain import SubTerrainCfg, TileSpec
from lab_core.terrain.surfaces import HeightField, StepField, Surface, TriangleMesh
from lab_core.terrain.terrain import Terrain

__all__ = [
    "DiscreteObstaclesTerrainCfg",
    "FlatPatchCfg",
    "GapTerrainCfg",
    "HeightField",
    "PitTerrainCfg",
    "PlaneTerrainCfg",
    "PyramidSlopeTerrainCfg",
    "PyramidStairsTerrainCfg",
    "RailsTerrainCfg",
    "RandomGridTerrainCfg",
    "RandomRoughTerrainCfg",
    "StepField",
    "SteppingStonesTerrainCfg",
    "SubTerrainCfg",
    "Surface",
    "Terrain",
    "TerrainGeneratorCfg",
    "TerrainLevels",
    "TileSpec",
    "TriangleMesh",
    "WaveTerrainCfg",
    "generate_terrain",
    "rough_terrains_cfg",
]
