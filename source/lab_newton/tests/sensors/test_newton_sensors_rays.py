"""Rays against a plane and against generated terrain."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.math import quat_apply, quat_from_euler_xyz
from lab_core.scene import ArticulationCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import GridPatternCfg, RayCasterCfg, SensorCfg
from lab_core.terrain import PyramidStairsTerrainCfg, RandomGridTerrainCfg, TerrainGeneratorCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

CPU = torch.device("cpu")
ASSETS = Path(__file__).parents[1] / "newton_assets"
MIDDLE = torch.tensor([False, True, False])
PATTERN = GridPatternCfg(size=(0.8, 0.4), resolution=0.2)


def make(
    sensors: dict[str, SensorCfg],
    device: torch.device = CPU,
    shape: Literal["mesh", "heightfield"] = "mesh",
    **scene,
) -> NewtonBackend:
    init = InitialStateCfg(pos=(0.0, 0.0, 1.0))
    entity = ArticulationCfg(asset=str(ASSETS / "walker.xml"), init_state=init, actuators={})
    cfg = NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=100, nconmax=24), terrain=shape)
    return NewtonBackend(cfg, SceneCfg(entities={"robot": entity}, sensors=sensors, **scene), 3, device)


def caster(**settings) -> RayCasterCfg:
    return RayCasterCfg(body_name="base", pattern=PATTERN, **settings)


def place(backend: NewtonBackend, position: torch.Tensor, rpy: torch.Tensor) -> torch.Tensor:
    """Puts the bases at ``position`` (N, 3) with roll, pitch and yaw (N, 3); returns their rotation."""
    robot = backend.entities["robot"]
    rotation = quat_from_euler_xyz(*rpy.unbind(-1))
    robot.root_link_pose_w.copy_(torch.cat([position, rotation], dim=-1))
    backend.written.fill_(True)
    backend.forward()
    return rotation


def hits(backend: NewtonBackend, name: str) -> torch.Tensor:
    """(3, rays, 3) [m], on the CPU."""
    return backend.sensors[name].ray_hits_w.cpu()


RPY = torch.tensor([[0.0, 0.0, 0.0], [0.3, -0.4, 2.0], [-0.5, 0.2, -1.0]])
POSITION = torch.tensor([[0.0, 0.0, 1.0], [2.0, -1.0, 1.5], [-3.0, 0.4, 0.8]])


@pytest.fixture(scope="module")
def plane(device: torch.device) -> NewtonBackend:
    sensors: dict[str, SensorCfg] = {
        "yaw": caster(),
        "base": caster(alignment="base", offset=(0.1, 0.0, 0.0)),
        "world": caster(alignment="world", offset=(0.0, 0.2, 5.0)),
        "short": caster(offset=(0.0, 0.0, 0.0), max_distance=1.2),
        "up": RayCasterCfg(body_name="base", pattern=GridPatternCfg(size=(0.2, 0.2), direction=(0.0, 0.0, 1.0))),
    }
    return make(sensors, device)


@pytest.fixture(scope="module", params=["mesh", "heightfield"])
def rough(request, device: torch.device) -> NewtonBackend:
    terrain = TerrainGeneratorCfg(
        sub_terrains={
            "stairs": PyramidStairsTerrainCfg(step_height_range=(0.1, 0.2)),
            "boxes": RandomGridTerrainCfg(grid_height_range=(0.05, 0.2)),
        },
        num_rows=2,
        num_cols=2,
        border_width=1.0,
        seed=5,
    )
    return make({"scan": caster()}, device, request.param, ground=None, terrain=terrain)


def test_heights_of_a_plane_are_constant(plane):
    place(plane, POSITION, RPY)
    for name in ("yaw", "base", "world"):
        assert plane.sensors[name].ray_hits_w[..., 2].abs().max() < 1e-5, name
    assert plane.sensors["yaw"].ray_hits_w.shape[1] == 15


def test_yaw_alignment_ignores_roll_and_pitch(plane):
    place(plane, POSITION, RPY)
    tilted = hits(plane, "yaw").clone()
    # The heading is that of the x axis, seen from above.
    rotation = plane.entities["robot"].root_link_pose_w[:, 3:].cpu()
    x_axis = quat_apply(rotation, torch.tensor([1.0, 0.0, 0.0]).expand(3, 3))
    flat = torch.zeros(3, 3)
    flat[:, 2] = torch.atan2(x_axis[:, 1], x_axis[:, 0])
    place(plane, POSITION, flat)
    torch.testing.assert_close(hits(plane, "yaw"), tilted, rtol=0.0, atol=1e-5)


def test_rays_turn_with_what_they_are_aligned_to(plane):
    rotation = place(plane, POSITION, RPY)
    starts, _ = PATTERN.rays()
    grid = starts.expand(3, 15, 3)
    turn = rotation[:, None].expand(3, 15, 4)
    start = POSITION[:, None] + quat_apply(turn, grid + torch.tensor([0.1, 0.0, 0.0]))
    direction = quat_apply(turn, torch.tensor([0.0, 0.0, -1.0]).expand(3, 15, 3))
    on_ground = start - direction * (start[..., 2:] / direction[..., 2:])
    torch.testing.assert_close(hits(plane, "base"), on_ground, rtol=0.0, atol=1e-4)
    expected = POSITION[:, None] + grid + torch.tensor([0.0, 0.2, 0.0])
    torch.testing.assert_close(hits(plane, "world")[..., :2], expected[..., :2], rtol=0.0, atol=1e-5)


def test_the_pose_is_that_of_the_body(plane):
    rotation = place(plane, POSITION, RPY)
    data = plane.sensors["yaw"]
    torch.testing.assert_close(data.pos_w.cpu(), POSITION)
    torch.testing.assert_close(data.quat_w.cpu(), rotation)
    plane.step(4)
    robot = plane.entities["robot"]
    assert torch.equal(data.pos_w, robot.root_link_pose_w[:, :3])
    assert torch.equal(data.quat_w, robot.body_link_pose_w[:, 0, 3:])


def test_what_misses_is_infinite(plane):
    place(plane, POSITION, torch.zeros(3, 3))
    assert torch.equal(hits(plane, "up"), torch.full((3, 9, 3), math.inf))
    short = hits(plane, "short")
    assert short[[0, 2]].isfinite().all() and (short[1] == math.inf).all(), "1.5 m above the ground"


def test_written_state_moves_the_rays_of_its_worlds_only(plane):
    place(plane, POSITION, RPY)
    before = hits(plane, "yaw").clone()
    plane.entities["robot"].root_link_pose_w[1, 0] += 1.0
    plane.mark_written(MIDDLE.to(plane.device))
    plane.reset(MIDDLE.to(plane.device))
    assert torch.equal(hits(plane, "yaw"), before)
    plane.forward()
    after = hits(plane, "yaw")
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    torch.testing.assert_close(after[1] - before[1], torch.tensor([1.0, 0.0, 0.0]).expand(15, 3))


def test_rays_hit_the_terrain_in_their_order(rough):
    """The height under every single ray, on stairs and boxes, under turned robots."""
    position = torch.tensor([[-4.03, -2.05, 1.0], [3.3, 4.4, 1.0], [-5.1, 3.0, 1.0]])
    rpy = RPY * torch.tensor([0.0, 0.0, 1.0])
    rotation = place(rough, position, rpy)
    starts, _ = PATTERN.rays()
    expected = position[:, None] + quat_apply(rotation[:, None].expand(3, 15, 4), starts.expand(3, 15, 3))
    found = hits(rough, "scan")
    torch.testing.assert_close(found[..., :2], expected[..., :2], rtol=0.0, atol=1e-5)
    surface = rough.terrain if rough.cfg.terrain == "mesh" else rough.terrain.to_heightfield()
    heights = surface.height_at(expected[..., :2].numpy())
    np.testing.assert_allclose(found[..., 2].numpy(), heights, atol=1e-4)
    assert len(np.unique(heights[0].round(3))) > 2, "the rays of the first robot cross steps"


def test_rays_beside_the_terrain_miss(rough):
    position = torch.tensor([[0.0, 0.0, 1.0], [8.9, 0.0, 1.0], [20.0, 0.0, 1.0]])
    place(rough, position, torch.zeros(3, 3))
    height = hits(rough, "scan")[..., 2]
    assert height[0].isfinite().all() and (height[2] == math.inf).all()
    starts, _ = PATTERN.rays()
    assert torch.equal(height[1] == math.inf, 8.9 + starts[:, 0] > 9.0), "terrain ends at 9 m"


def test_a_high_start_sees_the_top_of_what_is_taller_than_the_robot(rough):
    """Pitched down beside a wall: the rays start above, and not where the pitched body points."""
    position = torch.tensor([[-4.0, -4.0, -1.0]]).repeat(3, 1)  # the body itself is below the ground
    place(rough, position, torch.tensor([[0.0, 0.35, 0.0]]).repeat(3, 1))
    top = float(rough.terrain.origins[0, 0, 2])
    torch.testing.assert_close(hits(rough, "scan")[..., 2], torch.full((3, 15), top), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alignment": "gravity"}, "alignment is 'gravity', expected one of base, yaw, world"),
        ({"max_distance": 0.0}, "max_distance must be positive, got 0.0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make({"scan": caster(**settings)})


def test_without_ground_all_rays_miss():
    backend = make({"scan": caster()}, ground=None)
    assert (hits(backend, "scan") == math.inf).all()
    backend.step(1)
    assert (hits(backend, "scan") == math.inf).all()
