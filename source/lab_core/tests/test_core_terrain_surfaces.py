"""Each sub-terrain's shape, and its mesh: closed, facing up, and at the height that the surface says."""

from __future__ import annotations

import numpy as np
import pytest

from lab_core.errors import ConfigError
from lab_core.terrain import (
    DiscreteObstaclesTerrainCfg,
    GapTerrainCfg,
    HeightField,
    PitTerrainCfg,
    PlaneTerrainCfg,
    PyramidSlopeTerrainCfg,
    PyramidStairsTerrainCfg,
    RailsTerrainCfg,
    RandomGridTerrainCfg,
    RandomRoughTerrainCfg,
    StepField,
    SteppingStonesTerrainCfg,
    SubTerrainCfg,
    Surface,
    TileSpec,
    TriangleMesh,
    WaveTerrainCfg,
)

TILE = TileSpec(size=8.0, horizontal_scale=0.1, vertical_scale=0.005)
ALL = {
    "plane": PlaneTerrainCfg(),
    "stairs": PyramidStairsTerrainCfg(),
    "stairs_inv": PyramidStairsTerrainCfg(inverted=True),
    "grid": RandomGridTerrainCfg(),
    "obstacles": DiscreteObstaclesTerrainCfg(),
    "stones": SteppingStonesTerrainCfg(),
    "rails": RailsTerrainCfg(),
    "pit": PitTerrainCfg(),
    "gap": GapTerrainCfg(),
    "rough": RandomRoughTerrainCfg(),
    "slope": PyramidSlopeTerrainCfg(),
    "slope_inv": PyramidSlopeTerrainCfg(inverted=True),
    "wave": WaveTerrainCfg(),
}
UNEVEN = ("rough", "wave")


def build(cfg: SubTerrainCfg, difficulty: float = 0.5, seed: int = 0) -> Surface:
    return cfg.surface(difficulty, TILE, np.random.default_rng(seed))


def heights(surface: Surface, *points: tuple[float, float]) -> np.ndarray:
    return surface.height_at(points)


@pytest.fixture(params=ALL)
def kind(request) -> str:
    return request.param


@pytest.fixture
def surface(kind) -> Surface:
    return build(ALL[kind])


def normals(mesh: TriangleMesh) -> np.ndarray:
    """Twice the area times the unit normal, (T, 3)."""
    a, b, c = np.moveaxis(mesh.vertices.astype(np.float64)[mesh.triangles], 1, 0)
    return np.cross(b - a, c - a)


def ray_down(mesh: TriangleMesh, xy: np.ndarray) -> np.ndarray:
    """Height (P,) at which a vertical ray at ``xy`` (P, 2) first meets the mesh."""
    a, b, c = np.moveaxis(mesh.vertices.astype(np.float64)[mesh.triangles[normals(mesh)[:, 2] > 0]], 1, 0)
    hits = []
    for p in xy:
        u, v, w = (
            (q[:, 0] - p[0]) * (r[:, 1] - p[1]) - (q[:, 1] - p[1]) * (r[:, 0] - p[0])
            for q, r in ((b, c), (c, a), (a, b))
        )
        inside = (u >= 0) & (v >= 0) & (w >= 0)
        z = (u * a[:, 2] + v * b[:, 2] + w * c[:, 2])[inside] / (u + v + w)[inside]
        hits.append(z.max())
    return np.array(hits)


class TestMesh:
    def test_types_and_extent(self, surface):
        mesh = surface.to_mesh()
        assert (mesh.vertices.dtype, mesh.triangles.dtype) == (np.float32, np.int32)
        np.testing.assert_array_equal(mesh.vertices[:, :2].min(axis=0), [-4.0, -4.0])
        np.testing.assert_array_equal(mesh.vertices[:, :2].max(axis=0), [4.0, 4.0])

    def test_no_triangle_is_degenerate_or_faces_down(self, surface):
        n = normals(surface.to_mesh())
        assert np.linalg.norm(n, axis=1).min() > 1e-7
        assert n[:, 2].min() >= 0.0

    def test_top_faces_cover_the_tile_once(self, surface):
        assert normals(surface.to_mesh())[:, 2].sum() / 2 == pytest.approx(64.0, rel=1e-5)

    def test_has_no_holes(self, surface):
        """Every edge inside the tile belongs to two triangles that run along it in opposite directions."""
        mesh = surface.to_mesh()
        points, index = np.unique(mesh.vertices, axis=0, return_inverse=True)
        corner = index.reshape(-1)[mesh.triangles]
        start, end = (np.concatenate(side) for side in ((corner.T), (np.roll(corner, -1, axis=1).T)))
        vertical = (points[start][:, :2] == points[end][:, :2]).all(axis=1)

        code = start.astype(np.int64) * len(points) + end
        reverse = end.astype(np.int64) * len(points) + start
        alone = ~np.isin(code, reverse) & ~vertical
        on_rim = np.isclose(np.abs(points[start]), 4.0) & np.isclose(points[start], points[end])
        assert on_rim[alone][:, :2].any(axis=1).all()

        # walls that meet in a vertical line may be cut at different heights: what counts is the sum along the line
        position = np.unique(points[:, :2], axis=0, return_inverse=True)[1].reshape(-1)
        line = position[start[vertical]]
        rise = points[end[vertical], 2].astype(np.float64) - points[start[vertical], 2]
        np.testing.assert_allclose(np.bincount(line, rise, minlength=1), 0.0, atol=1e-9)

    def test_height_at_is_that_of_the_mesh(self, surface):
        xy = np.random.default_rng(1).uniform(-4, 4, (300, 2))
        np.testing.assert_allclose(surface.height_at(xy), ray_down(surface.to_mesh(), xy), atol=1e-6)

    def test_walls_face_the_lower_side(self):
        """With the ground filled in below, the mesh of a block is closed: its volume is that of the block."""
        for height in (0.5, -0.5):
            mesh = StepField.painted(4.0, [(-1.0, 1.0, 0.0, 0.5, height)]).to_mesh()
            a, b, c = np.moveaxis(mesh.vertices.astype(np.float64)[mesh.triangles], 1, 0)
            volume = np.einsum("ti,ti->", a, np.cross(b, c)) / 6
            assert volume == pytest.approx(height * 2.0 * 0.5)


class TestEverySubTerrain:
    @pytest.mark.parametrize("difficulty", [0.0, 0.37, 1.0])
    def test_rim_is_at_zero(self, kind, difficulty):
        np.testing.assert_array_equal(build(ALL[kind], difficulty).rim_heights(), 0.0)

    def test_depends_on_nothing_but_its_generator(self, kind):
        first = build(ALL[kind], seed=5)
        np.random.seed(99)
        again, other = build(ALL[kind], seed=5), build(ALL[kind], seed=6)
        np.testing.assert_array_equal(first.heights, again.heights)
        is_random = kind in ("grid", "obstacles", "stones", "rough")
        assert np.array_equal(first.heights, other.heights) != is_random

    def test_difficulty_changes_the_shape(self, kind):
        easy, hard = build(ALL[kind], 0.2), build(ALL[kind], 0.8)
        xy = np.random.default_rng(1).uniform(-4, 4, (500, 2))
        same = np.array_equal(easy.height_at(xy), hard.height_at(xy))
        assert same == (kind in ("plane", "rough"))

    def test_robots_are_placed_on_the_ground_and_not_in_it(self, kind, surface):
        spawn = ALL[kind].spawn_height(surface)
        xy = np.random.default_rng(1).uniform(-0.99, 0.99, (500, 2))
        assert surface.height_at(xy).max() <= spawn + 1e-9
        if kind not in UNEVEN:
            assert spawn == pytest.approx(ray_down(surface.to_mesh(), np.array([[0.01, 0.02]]))[0], abs=1e-9)

    @pytest.mark.parametrize("kind", [kind for kind in ALL if isinstance(build(ALL[kind]), StepField)])
    def test_on_a_wall_the_upper_edge_counts(self, surface):
        """And not whichever side rounding falls on, so that sampling on grid lines is well defined."""
        assert isinstance(surface, StepField)
        x = surface.x_edges[1:-1, None] + np.array([-1e-9, 0.0, 1e-9])
        y = np.full_like(x, 0.013)
        z = surface.height_at(np.stack([x, y], axis=-1))
        above = np.maximum(
            surface.height_at(np.stack([x - 0.001, y], -1)), surface.height_at(np.stack([x + 0.001, y], -1))
        )
        np.testing.assert_array_equal(z, above)


class TestShapes:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_stairs_at_half_difficulty_have_six_rings_with_risers_of_14_cm(self, sign):
        stairs = build(PyramidStairsTerrainCfg(inverted=sign < 0), 0.5)
        x = np.arange(3.0, 1.1, -0.3)
        treads = stairs.height_at(np.column_stack([x - 0.15, np.zeros_like(x)]))
        np.testing.assert_allclose(treads, sign * 0.14 * np.arange(1, 8), rtol=1e-6)
        np.testing.assert_allclose(heights(stairs, (3.05, 0), (0, 3.05), (0, 0)), [0, 0, sign * 0.98], rtol=1e-6)
        np.testing.assert_allclose(heights(stairs, (-2.85, 2.85), (2.0, -1.0)), [sign * 0.14, sign * 0.56], rtol=1e-6)

    def test_stairs_take_their_risers_from_the_range(self):
        cfg = PyramidStairsTerrainCfg(step_height_range=(0.1, 0.3))
        for difficulty, riser in ((0.0, 0.1), (0.25, 0.15), (1.0, 0.3)):
            assert heights(build(cfg, difficulty), (2.9, 0.0))[0] == pytest.approx(riser)

    def test_grid_of_17_boxes_with_a_flat_rim_and_a_platform(self):
        grid = build(RandomGridTerrainCfg(), 0.5)
        centres = (np.arange(17) - 8) * 0.45
        tops = grid.height_at(np.stack(np.meshgrid(centres, centres), axis=-1))
        outside = np.abs(centres) > 1.3
        free = outside[:, None] | outside[None]
        assert np.abs(tops).max() <= 0.125 + 1e-6
        assert tops[free].min() < -0.1 and tops[free].max() > 0.1
        assert len(np.unique(tops[free])) == free.sum()
        np.testing.assert_allclose(heights(grid, (0, 0), (0.99, -0.99)), 0.125)
        np.testing.assert_array_equal(heights(grid, (3.83, 0.0), (-3.9, 1.0), (0.2, 3.99)), 0.0)

    def test_boxes_that_would_touch_the_rim_are_left_out(self):
        grid = build(RandomGridTerrainCfg(grid_width=0.5), 1.0)
        np.testing.assert_array_equal(heights(grid, (3.75, 0.1), (-3.75, 1.2)), 0.0)
        assert heights(grid, (3.25, 0.1))[0] != 0.0

    def test_rough_ground_has_only_the_heights_of_its_range(self):
        rough = build(RandomRoughTerrainCfg())
        assert rough.heights.shape == (81, 81)
        inner = rough.heights[3:-3, 3:-3]
        np.testing.assert_allclose(np.unique(inner), [0.02, 0.04, 0.06, 0.08, 0.10], rtol=1e-6)
        outer = rough.heights.copy()
        outer[3:-3, 3:-3] = 0.0
        np.testing.assert_array_equal(outer, 0.0)
        small = build(RandomRoughTerrainCfg(noise_range=(0.01, 0.06), noise_step=0.01))
        np.testing.assert_allclose(np.unique(small.heights), np.arange(7) * 0.01, atol=1e-7)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_slope_ends_in_a_platform(self, sign):
        slope = build(PyramidSlopeTerrainCfg(inverted=sign < 0), 1.0)
        np.testing.assert_allclose(heights(slope, (0, 0), (0.99, 0.99), (-0.99, 0.0)), sign * 0.80, rtol=1e-6)
        # along the middle it climbs by the slope in the range (0.4), over 75 / 74 nodes
        z = slope.height_at([(3.5, 0.0), (2.5, 0.0)])
        assert z[1] - z[0] == pytest.approx(sign * 0.4, rel=0.03)
        np.testing.assert_allclose(slope.heights, slope.heights[::-1, ::-1])

    def test_slope_of_difficulty_0_is_flat(self):
        np.testing.assert_array_equal(build(PyramidSlopeTerrainCfg(), 0.0).heights, 0.0)

    def test_waves_swing_by_the_amplitude_in_both_directions(self):
        wave = build(WaveTerrainCfg(amplitude_range=(0.1, 0.3)), 0.5)
        assert wave.heights.max() == pytest.approx(0.2) and wave.heights.min() == pytest.approx(-0.2)

    def test_obstacles_have_the_height_or_half_of_it_and_spare_the_platform(self):
        obstacles = build(DiscreteObstaclesTerrainCfg(num_obstacles=200), 1.0)
        np.testing.assert_allclose(np.unique(obstacles.heights), [-0.2, -0.1, 0.0, 0.1, 0.2])
        assert obstacles.highest_within(1.0) == 0.0

    def test_stones_stand_in_a_hole_with_gaps_no_wider_than_asked(self):
        stones = build(SteppingStonesTerrainCfg(stone_distance_range=(0.1, 0.3)), 0.5)
        xs = np.linspace(-4, 4, 8001)
        z = stones.height_at(np.column_stack([xs, np.full_like(xs, 0.5)]))
        in_hole = z < -0.9
        steps = np.flatnonzero(np.diff(in_hole.astype(int)))
        gaps = np.diff(xs[steps])[::2]
        assert len(gaps) > 4
        assert gaps.max() <= 0.2 + 2e-3
        assert gaps.max() == pytest.approx(0.2, abs=2e-3)
        assert np.abs(z[~in_hole]).max() <= 0.05

    def test_rails_pit_and_gap(self):
        rails = build(RailsTerrainCfg(rail_height_range=(0.1, 0.3), rail_thickness_range=(0.2, 0.2)), 0.5)
        np.testing.assert_allclose(
            heights(rails, (0, 0), (1.1, 0), (1.25, 0), (2.6, 0), (0, -2.6), (2.75, 0)), [0, 0.2, 0, 0.2, 0.2, 0]
        )
        pit = build(PitTerrainCfg(pit_depth_range=(0.0, 0.4), platform_width=3.0), 0.5)
        np.testing.assert_allclose(heights(pit, (0, 0), (1.49, 0), (1.51, 0)), [-0.2, -0.2, 0])
        gap = build(GapTerrainCfg(gap_width_range=(0.2, 0.6), gap_depth=2.0), 0.5)
        np.testing.assert_allclose(heights(gap, (0.99, 0), (1.01, 0), (1.39, 0), (1.41, 0)), [0, -2, -2, 0])


class TestMistakes:
    @pytest.mark.parametrize(
        ("cfg", "words"),
        [
            (PyramidStairsTerrainCfg(platform_width=7.0), "platform_width 7.0 and border_width 1.0"),
            (PyramidStairsTerrainCfg(step_width=0.0), "step_width must be positive, got 0.0"),
            (PyramidStairsTerrainCfg(platform_width=0.0), "leave no room"),
            (RandomGridTerrainCfg(grid_width=-1.0), "grid_width must be positive"),
            (RandomRoughTerrainCfg(noise_step=0.001), "noise_step 0.001"),
            (RandomRoughTerrainCfg(border_width=4.0), "border_width 4.0 leaves no room"),
            (PyramidSlopeTerrainCfg(platform_width=9.0), "platform_width 9.0 exceeds"),
            (WaveTerrainCfg(num_waves=0), "num_waves must be at least 1"),
            (DiscreteObstaclesTerrainCfg(obstacle_width_range=(8.0, 8.0)), "do not fit"),
        ],
    )
    def test_names_the_field(self, cfg, words):
        with pytest.raises(ConfigError, match=words):
            build(cfg)

    def test_height_fields_need_a_whole_number_of_cells(self):
        tile = TileSpec(size=8.05, horizontal_scale=0.1, vertical_scale=0.005)
        with pytest.raises(ConfigError, match="size 8.05 must be a multiple of horizontal_scale 0.1"):
            RandomRoughTerrainCfg().surface(0.0, tile, np.random.default_rng(0))

    def test_surfaces_check_their_arrays(self):
        with pytest.raises(ValueError, match="X, Y >= 2"):
            HeightField(np.zeros((1, 5)), 0.1)
        with pytest.raises(ValueError, match=r"must have shape \(2, 1\)"):
            StepField([0, 1, 2], [0, 1], np.zeros((1, 2)))
        with pytest.raises(ValueError, match="must increase"):
            StepField([0, 1, 1], [0, 1], np.zeros((2, 1)))


def test_height_field_is_linear_on_its_two_triangles():
    field = HeightField([[0.0, 1.0], [2.0, 5.0]], spacing=2.0)
    assert field.size == (2.0, 2.0)
    points = [(-1, -1), (-1, 1), (1, -1), (1, 1), (0, 0), (0.5, -0.5), (-0.5, 0.5)]
    np.testing.assert_allclose(field.height_at(points), [0, 1, 2, 5, 2.5, 2.25, 1.75])


def test_highest_within_looks_at_the_square_alone():
    step = StepField.painted(8.0, [(1.0, 2.0, -0.5, 0.5, 0.3)])
    assert [step.highest_within(half) for half in (0.5, 1.0, 1.01)] == pytest.approx([0.0, 0.0, 0.3])
    z = np.zeros((81, 81))
    z[50, 40] = 0.3
    assert [HeightField(z, 0.1).highest_within(half) for half in (0.9, 1.0)] == pytest.approx([0.0, 0.3])
