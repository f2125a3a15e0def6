"""Ready-made terrains."""

from __future__ import annotations

from lab_core.terrain.config import TerrainGeneratorCfg
from lab_core.terrain.height_field_terrains import PyramidSlopeTerrainCfg, RandomRoughTerrainCfg
from lab_core.terrain.step_terrains import PyramidStairsTerrainCfg, RandomGridTerrainCfg


def rough_terrains_cfg(
    *,
    step_height_range: tuple[float, float] = (0.05, 0.23),
    grid_height_range: tuple[float, float] = (0.05, 0.2),
    noise_range: tuple[float, float] = (0.02, 0.10),
    noise_step: float = 0.02,
) -> TerrainGeneratorCfg:
    """Rough ground for legged robots: stairs, boxes, random rough ground and slopes (the usual ROUGH_TERRAINS_CFG).

    The arguments scale it to the size of the robot; the defaults suit one with legs of about half a metre.

    Args:
        step_height_range: Riser of the stairs at difficulty 0 and 1 [m].
        grid_height_range: Greatest height of the boxes at difficulty 0 and 1 [m].
        noise_range: Lowest and highest node of the random rough ground [m].
        noise_step: Distance between possible heights of these nodes [m].
    """
    return TerrainGeneratorCfg(
        sub_terrains={
            "pyramid_stairs": PyramidStairsTerrainCfg(proportion=0.2, step_height_range=step_height_range),
            "pyramid_stairs_inv": PyramidStairsTerrainCfg(
                proportion=0.2, step_height_range=step_height_range, inverted=True
            ),
            "boxes": RandomGridTerrainCfg(proportion=0.2, grid_height_range=grid_height_range),
            "random_rough": RandomRoughTerrainCfg(proportion=0.2, noise_range=noise_range, noise_step=noise_step),
            "hf_pyramid_slope": PyramidSlopeTerrainCfg(proportion=0.1),
            "hf_pyramid_slope_inv": PyramidSlopeTerrainCfg(proportion=0.1, inverted=True),
        }
    )
