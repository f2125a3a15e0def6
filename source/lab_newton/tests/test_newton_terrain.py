"""Generated terrain in the physics: what robots stand on, where they are put, and what pictures show."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.names import UnknownNameError
from lab_core.scene import ArticulationCfg, CameraCfg, GroundCfg, IdealPDActuatorCfg, InitialStateCfg, Scene, SceneCfg
from lab_core.sensors import ContactSensorCfg, RayCasterCfg
from lab_core.terrain import PyramidSlopeTerrainCfg, PyramidStairsTerrainCfg, TerrainGeneratorCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

ASSETS = Path(__file__).parent / "newton_assets"
RADIUS = 0.05
N = 4
CPU = torch.device("cpu")
MIDDLE = torch.tensor([False, True, False, False])


def terrain_cfg() -> TerrainGeneratorCfg:
    """Two levels of stairs and of slopes; 18 m by 18 m."""
    return TerrainGeneratorCfg(
        sub_terrains={
            "stairs": PyramidStairsTerrainCfg(step_height_range=(0.1, 0.2)),
            "slopes": PyramidSlopeTerrainCfg(),
        },
        num_rows=2,
        num_cols=2,
        border_width=1.0,
        seed=5,
    )


def scene_cfg(entity: str, height: float, **settings) -> SceneCfg:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=200.0, damping=4.0, effort_limit=100.0)
    cfg = ArticulationCfg(
        asset=str(ASSETS / f"{entity}.xml"),
        init_state=InitialStateCfg(pos=(0.0, 0.0, height)),
        actuators={"legs": legs} if entity == "walker" else {},
    )
    defaults = {"ground": None, "terrain": terrain_cfg(), "entities": {"robot": cfg}}
    return SceneCfg(**(defaults | settings))


def make(scene: SceneCfg, device: torch.device, **physics) -> NewtonBackend:
    settings = {"dt": 0.005, "solver": MuJoCoSolverCfg(njmax=100, nconmax=24)} | physics
    return NewtonBackend(NewtonCfg(**settings), scene, N, device)


def every(backend: NewtonBackend) -> torch.Tensor:
    return torch.ones_like(backend.written)


def restart(backend: NewtonBackend) -> Scene:
    """Puts robots to their default state on the tiles of a new scene."""
    scene = Scene(backend._scene, backend)
    scene.reset(every(backend))
    backend.forward()
    return scene


def put(backend: NewtonBackend, position: torch.Tensor) -> None:
    robot = backend.entities["robot"]
    robot.root_link_pose_w[:, :3] = position
    robot.root_link_pose_w[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    robot.root_com_vel_w.zero_()
    backend.written.fill_(True)
    backend.reset(every(backend))
    backend.forward()


def run(backend: NewtonBackend, substeps: int) -> None:
    for _ in range(substeps // 4):
        backend.step(4)


@pytest.fixture(scope="module", params=["mesh", "heightfield"])
def balls(request, device: torch.device) -> NewtonBackend:
    return make(scene_cfg("ball", RADIUS), device, terrain=request.param)


@pytest.fixture(scope="module")
def walkers(device: torch.device) -> NewtonBackend:
    sensors = {
        "feet": ContactSensorCfg(body_names=(".*_.*",), filter_entities=("terrain",)),
        "scan": RayCasterCfg(body_name="base"),
    }
    return make(scene_cfg("walker", 0.24, sensors=sensors), device)


def test_bodies_rest_on_the_ground_that_the_terrain_has(balls):
    """On the platform, on two treads and on the border."""
    spots = torch.tensor([[-4.0, -4.0], [-4.0, -2.0], [-1.7, -4.0], [8.5, 8.5]])
    height = torch.tensor(balls.terrain.height_at(spots.numpy()), dtype=torch.float32)
    assert len(height.unique()) == 4
    put(balls, torch.cat([spots, height[:, None] + RADIUS + 0.02], dim=1))
    run(balls, 160)
    position = balls.entities["robot"].root_link_pose_w.cpu()
    torch.testing.assert_close(position[:, 2], height + RADIUS, rtol=0.0, atol=2e-3)
    torch.testing.assert_close(position[:, :2], spots, rtol=0.0, atol=5e-3)


def test_bodies_accelerate_down_a_slope_by_the_law_of_rolling(balls):
    """a = 5/7 g sin along the slope for a ball that rolls without slipping, whatever triangle it is on."""
    spot = torch.tensor([4.0, 1.0])  # on the slope that falls towards -y
    below, above = (balls.terrain.height_at(np.array([4.0, y])) for y in (0.9, 1.1))
    slope = math.atan2(above - below, 0.2)
    assert 0.1 < slope < 0.5
    height = float(balls.terrain.height_at(spot.numpy())) + RADIUS / math.cos(slope)
    put(balls, torch.cat([spot, torch.tensor([height])]).repeat(N, 1))
    run(balls, 80)
    moved = 1.0 - balls.entities["robot"].root_link_pose_w[:, 1]
    expected = 0.5 * (5 / 7) * 9.81 * math.sin(slope) * math.cos(slope) * 0.4**2
    assert moved.tolist() == pytest.approx([expected] * N, rel=0.1)


def test_the_scene_puts_robots_onto_their_tiles(walkers):
    scene = Scene(walkers._scene, walkers)
    levels, types = scene.terrain.levels, scene.terrain.types
    assert types.tolist() == [0, 0, 1, 1]
    expected = torch.tensor(walkers.terrain.origins)[levels.cpu(), types.cpu()]
    assert torch.equal(scene.env_origins.cpu(), expected) and scene.env_origins is walkers.env_origins
    scene.reset(every(walkers))
    walkers.forward()
    position = scene["robot"].data.root_link_pose_w[:, :3].cpu()
    torch.testing.assert_close(position, expected + torch.tensor([0.0, 0.0, 0.24]))

    address = scene.env_origins.data_ptr()
    before = scene.env_origins.clone()
    scene.terrain.levels.fill_(0)
    scene.terrain.update(MIDDLE.to(walkers.device), every(walkers), ~every(walkers))
    assert scene.env_origins.data_ptr() == address
    assert torch.equal(scene.env_origins[[0, 2, 3]], before[[0, 2, 3]])
    assert torch.equal(scene.env_origins[1].cpu(), torch.tensor(walkers.terrain.origins[1, 0]))
    state = scene.state_dict()
    assert {"terrain.levels", "terrain.env_origins"} <= state.keys() and not any("physics" in key for key in state)


def test_robots_stand_on_terrain_with_their_weight(walkers):
    restart(walkers)
    run(walkers, 400)
    feet = walkers.sensors["feet"]
    total = feet.net_forces_w[..., 2].sum(dim=1)
    assert total.tolist() == pytest.approx([5.8 * 9.81] * N, rel=0.05)
    assert torch.equal(feet.force_matrix_w[:, :, 0], feet.net_forces_w)
    ground = walkers.sensors["scan"].ray_hits_w[..., 2]
    height = walkers.entities["robot"].root_link_pose_w[:, 2] - ground[:, 93]
    assert height.tolist() == pytest.approx([0.23] * N, abs=0.01)
    assert walkers.health().ok


def test_a_world_that_goes_non_finite_comes_back_to_its_own_tile(walkers):
    scene = restart(walkers)
    robot = walkers.entities["robot"]
    robot.joint_pos_target[1, 0] = math.nan
    walkers.step(4)
    assert walkers.non_finite.tolist() == [False, True, False, False]
    above = torch.tensor([0.0, 0.0, 0.24], device=walkers.device)
    torch.testing.assert_close(robot.root_link_pose_w[1, :3], scene.env_origins[1] + above)
    torch.testing.assert_close(walkers.sensors["scan"].pos_w[1], robot.root_link_pose_w[1, :3])
    walkers.step(4)
    assert not walkers.non_finite.any()
    walkers.health()


def test_eager_equals_captured_and_a_rebuild_starts_at_the_origins(walkers, device, assert_same, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")  # eager steps raise where the host would wait for the device
    eager = make(walkers._scene, device)
    Scene(walkers._scene, eager)
    Scene(walkers._scene, walkers)
    for backend in (walkers, eager):
        backend.rebuild()
        robot = backend.entities["robot"]
        torch.testing.assert_close(robot.root_link_pose_w[:, :2], backend.env_origins[:, :2])
        run(backend, 24)
        backend.reset(MIDDLE.to(device))
        backend.step(4)
    expected = eager.state_dict()
    assert_same(walkers.state_dict(), expected, num_envs=N)
    assert expected["sensors.feet.net_forces_w"].any() and expected["sensors.scan.ray_hits_w"].isfinite().all()


def test_too_few_contacts_are_reported(device):
    backend = make(scene_cfg("walker", 0.24), device, solver=MuJoCoSolverCfg(njmax=100, nconmax=3))
    restart(backend)
    run(backend, 40)
    report = backend.health()
    needed = re.search(r"raise physics.solver.nconmax from 3 to at least (\d+)", report.overflows["contacts"])
    assert needed and int(needed[1]) >= 4, "every walker stands on four feet"


def test_pictures_show_the_terrain_and_follow_the_robot(walkers):
    restart(walkers)
    camera = CameraCfg(eye=(1.2, 1.2, 0.9), target=(0.0, 0.0, 0.2), width=96, height=72)
    still = walkers.render(camera).astype(int)
    follow = walkers.render(CameraCfg(**(vars(camera) | {"follow": "robot"}))).astype(int)
    assert np.abs(still - follow).max() <= 2, "the robot is where it is by default"
    red, _, blue = still[-20:].mean(axis=(0, 1))
    assert red > blue + 10.0, "ground below: earth is brown, sky and haze are blue"
    red, _, blue = still[:10].mean(axis=(0, 1))
    assert blue > red + 10.0, "sky above"

    robot = walkers.entities["robot"]
    robot.root_link_pose_w[:, 2] += 3.0
    walkers.written.fill_(True)
    walkers.forward()
    away = walkers.render(camera).astype(int)
    followed = walkers.render(CameraCfg(**(vars(camera) | {"follow": "robot"}))).astype(int)
    middle = (slice(20, 52), slice(32, 64))
    changed = np.abs(away - still)[middle].max(axis=-1) > 20
    kept = np.abs(followed - still)[middle].max(axis=-1) < 20
    assert changed.mean() > 0.1, "the robot has left the picture of a camera that stays"
    assert kept.mean() > 0.1
    with pytest.raises(UnknownNameError, match="'dog'"):
        walkers.render(CameraCfg(follow="dog"))


def test_plane_and_terrain_at_once_are_refused():
    with pytest.raises(ConfigError, match=r"scene.ground and scene.terrain are both set"):
        make(scene_cfg("ball", RADIUS, ground=GroundCfg()), CPU)


def test_a_fixed_base_on_a_terrain_is_refused():
    """It would stand in the middle of the world in all environments, not at their origins."""
    with pytest.raises(ConfigError, match="'robot' is fixed to the world.*scene.ground in place of scene.terrain"):
        make(scene_cfg("cart_pole", 2.0), CPU)


def test_a_floor_of_a_model_file_on_a_terrain_is_refused(tmp_path):
    file = tmp_path / "ball.xml"
    file.write_text('<mujoco><worldbody><geom type="plane" size="0 0 1"/><body><freejoint/><geom size="0.1"/></body>'
                    "</worldbody></mujoco>")  # fmt: skip
    scene = scene_cfg("ball", RADIUS)
    scene = replace(scene, entities={"robot": ArticulationCfg(asset=str(file), actuators={})})
    with pytest.raises(ConfigError, match="'robot' brings shapes that stand still in the world"):
        make(scene, CPU)


def test_the_convex_hull_of_a_terrain_is_refused():
    with pytest.raises(ConfigError, match="convex hull.*'newton'.*heightfield"):
        make(scene_cfg("ball", RADIUS), CPU, solver=MuJoCoSolverCfg(collisions="mujoco"))


def test_friction_of_the_terrain_reaches_the_physics():
    scene = scene_cfg("walker", 0.24)
    scene.terrain.friction = 0.05
    backend = make(scene, CPU)
    shapes = backend._model.shape_body.numpy() == -1
    assert backend._model.shape_material_mu.numpy()[shapes] == pytest.approx(0.05)
