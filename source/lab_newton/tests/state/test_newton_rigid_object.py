"""Rigid objects: bodies without a file, beside robots with fixed and with floating bases."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import mujoco
import newton
import numpy as np
import pytest
import torch
from newton.viewer import ViewerViser

from lab_core.errors import ConfigError, LabError
from lab_core.physics import Ghost
from lab_core.scene import (
    SIX_COLORS,
    BoxCfg,
    CameraCfg,
    CapsuleCfg,
    CylinderCfg,
    GroundCfg,
    RigidObjectCfg,
    RootStateCfg,
    Scene,
    SceneCfg,
    ShapeCfg,
    SphereCfg,
)
from lab_core.sensors import ContactSensorCfg
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.model import new_builder
from lab_newton.state.rigid_object import add_rigid_object

DT, N = 0.005, 3
SIZE, MASS = 0.072, 0.216
"""The cube of the in-hand tasks."""


@pytest.fixture(scope="module")
def device() -> torch.device:
    return torch.device("cpu")


def cube_cfg(**settings) -> RigidObjectCfg:
    state = RootStateCfg(pos=(2.0, 0.0, 1.0), quat=(0.0, 0.0, 0.6, 0.8))
    cube = BoxCfg(size=(SIZE, SIZE, SIZE), face_colors=SIX_COLORS)
    return RigidObjectCfg(**({"shape": cube, "mass": MASS, "init_state": state} | settings))


def box_inertia(x: float, y: float, z: float, mass: float) -> list[float]:
    return [mass / 12.0 * (a * a + b * b) for a, b in ((y, z), (x, z), (x, y))]


def built(cfg: RigidObjectCfg) -> newton.ModelBuilder:
    """A world that holds it alone."""
    world = new_builder()
    add_rigid_object(world, "thing", cfg)
    return world


# -- from the configuration ------------------------------------------------------------------------------------------

R, H = 0.05, 0.2


@pytest.mark.parametrize(
    ("shape", "volume", "per_mass"),
    [
        (BoxCfg(size=(0.1, 0.2, 0.3)), 0.006, box_inertia(0.1, 0.2, 0.3, 1.0)),
        (SphereCfg(radius=R), 4 / 3 * math.pi * R**3, [0.4 * R**2] * 3),
        (CylinderCfg(radius=R, height=H), math.pi * R**2 * H, [(3 * R**2 + H**2) / 12] * 2 + [R**2 / 2]),
    ],
    ids=["box", "sphere", "cylinder"],
)
def test_mass_and_inertia_are_those_of_the_solid_shape(shape, volume, per_mass):
    by_mass, by_density = (
        built(RigidObjectCfg(shape=shape, mass=2.0)),
        built(RigidObjectCfg(shape=shape, density=500.0)),
    )
    assert by_mass.body_mass == pytest.approx([2.0], rel=1e-6)
    assert by_density.body_mass == pytest.approx([500.0 * volume], rel=1e-6)
    inertia = np.array(by_mass.body_inertia[0]).reshape(3, 3)
    np.testing.assert_allclose(inertia, np.diag(np.multiply(2.0, per_mass)), rtol=1e-5, atol=1e-9)


def test_a_capsule_is_a_cylinder_with_half_spheres():
    cylinder, caps = math.pi * R**2 * H, 4 / 3 * math.pi * R**3
    world = built(RigidObjectCfg(shape=CapsuleCfg(radius=R, height=H), density=1000.0))
    assert world.body_mass == pytest.approx([1000.0 * (cylinder + caps)], rel=1e-6)
    across = cylinder * (3 * R**2 + H**2) / 12 + caps * (0.4 * R**2 + H**2 / 4 + 3 * H * R / 8)
    along = cylinder * R**2 / 2 + caps * 0.4 * R**2
    inertia = np.array(world.body_inertia[0]).reshape(3, 3)
    np.testing.assert_allclose(np.diag(inertia), np.multiply(1000.0, [across, across, along]), rtol=1e-5)


def test_the_cube_of_the_hands_has_the_inertia_of_its_facts():
    for size, inertia in ((SIZE, 1.86624e-4), (0.06, 1.296e-4)):
        world = built(cube_cfg(shape=BoxCfg(size=(size, size, size))))
        np.testing.assert_allclose(np.array(world.body_inertia[0]).reshape(3, 3), inertia * np.eye(3), atol=1e-10)


def test_faces_are_drawn_and_touch_nothing():
    world = built(cube_cfg())
    collides = [bool(flags & newton.ShapeFlags.COLLIDE_SHAPES) for flags in world.shape_flags]
    assert collides == [True] + 6 * [False]
    assert [tuple(color) for color in world.shape_color[1:]] == pytest.approx([pytest.approx(c) for c in SIX_COLORS])
    outward = [np.array(wp_transform)[:3] / (SIZE / 2) for wp_transform in world.shape_transform[1:]]
    np.testing.assert_allclose(outward, [s * np.eye(3)[axis] for axis in range(3) for s in (1, -1)], atol=1e-6)


@dataclass(kw_only=True)
class ConeCfg(ShapeCfg):
    volume = 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"density": 500.0}, "scene.entities['thing']: give either mass or density, got mass=0.216 and density=500.0."),
        ({"mass": None}, "scene.entities['thing']: give either mass or density, got mass=None and density=None."),
        ({"mass": -1.0}, "scene.entities['thing'].mass: got -1.0"),
        ({"friction": -0.1}, "scene.entities['thing'].friction: got -0.1, expected"),
        (
            {"shape": SphereCfg(radius=-0.1)},
            "scene.entities['thing'].shape.radius: got -0.1, expected finite float above 0",
        ),
        ({"shape": BoxCfg(size=(0.1, 0.0, 0.1))}, "scene.entities['thing'].shape.size"),
        (
            {"shape": ConeCfg()},
            "No shape is registered for a ConeCfg, only for BoxCfg, CapsuleCfg, CylinderCfg, SphereCfg.",
        ),
        ({"shape": "box"}, "scene.entities['thing'].shape: got 'box'"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        built(cube_cfg(**settings))


# -- in a world with two robots --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make(rover_cfg, cart_pole_cfg, device):
    def call() -> NewtonBackend:
        """A fixed base first, then the cube, then a floating base."""
        touch = ContactSensorCfg(entity="cube", filter_entities=("terrain", "rover"), force_threshold=0.1)
        scene = SceneCfg(
            entities={"cart": cart_pole_cfg, "cube": cube_cfg(), "rover": rover_cfg}, sensors={"touch": touch}
        )
        physics = NewtonCfg(dt=DT, solver=MuJoCoSolverCfg(njmax=128, nconmax=48))
        return NewtonBackend(physics, scene, N, device)

    return call


@pytest.fixture(scope="module")
def shared(make):
    backend = make()
    return backend, backend.state_dict()


@pytest.fixture
def backend(shared) -> NewtonBackend:
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


@pytest.fixture
def scene(backend) -> Scene:
    return Scene(backend._scene, backend)


def run(backend: NewtonBackend, substeps: int) -> None:
    """Four by four, so that one capture serves all tests."""
    for _ in range(substeps // 4):
        backend.step(4)


def only(world: int) -> torch.Tensor:
    return torch.arange(N) == world


def test_it_falls_like_a_stone_and_rests_at_half_its_size(backend, scene):
    cube = scene["cube"]
    assert cube.body_names == ("cube",) and cube.joint_names == () and not cube.has_joints
    backend.step(4)
    speed = cube.data.root_com_vel_w[:, 2].clone()
    run(backend, 20)
    gravity = (cube.data.root_com_vel_w[:, 2] - speed) / (20 * DT)
    torch.testing.assert_close(gravity, torch.full((N,), -9.81), atol=1e-4, rtol=0.0)
    run(backend, 400)
    torch.testing.assert_close(cube.data.root_link_pose_w[:, 2], torch.full((N,), SIZE / 2), atol=2e-4, rtol=0.0)
    assert cube.data.root_link_vel_w.abs().max() < 1e-3
    force = backend.sensors["touch"].net_forces_w[:, 0, 2]
    torch.testing.assert_close(force, torch.full((N,), MASS * 9.81), atol=1e-2, rtol=0.0)
    assert backend.health().ok


def test_robots_beside_it_move_as_without_it(backend, cart_pole_cfg, rover_cfg, device):
    """Each entity has its own places: a push of one joint moves that joint, of the right robot."""
    cart, rover = backend.entities["cart"], backend.entities["rover"]
    assert (cart.fixed_base, backend.entities["cube"].fixed_base, rover.fixed_base) == (True, False, False)
    alone = NewtonBackend(
        NewtonCfg(dt=DT, solver=MuJoCoSolverCfg(contacts=False)),
        SceneCfg(entities={"cart": cart_pole_cfg, "rover": rover_cfg}),
        N,
        device,
    )
    for physics in (backend, alone):
        physics.entities["cart"].joint_effort_target[:, 0] = 10.0
        physics.entities["rover"].joint_pos_target[:, 1] = 0.5
        run(physics, 12)  # all fly
    for name in ("joint_pos", "joint_vel", "root_link_pose_w", "body_com_vel_w"):
        for entity in ("cart", "rover"):
            one, other = (getattr(physics.entities[entity], name) for physics in (backend, alone))
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_it_collides_with_a_robot(backend, scene):
    pose = scene["cube"].data.root_link_pose_w.clone()
    pose[:, :3] = torch.tensor([0.0, 0.0, 0.5 + 0.05 + 0.7 * SIZE])
    velocity = torch.zeros(N, 6)
    velocity[:, 2] = -1.0
    scene["cube"].write_root_link_pose(pose, only(1))
    scene["cube"].write_root_com_velocity(velocity, only(1))
    backend.forward()
    felt = torch.zeros(N)
    for _ in range(5):
        backend.step(4)
        matrix = backend.sensors["touch"].force_matrix_w
        felt = torch.maximum(felt, matrix[:, 0, 1].norm(dim=-1))
    assert felt[1] > 1.0 and felt[0] == felt[2] == 0.0


def test_a_spin_keeps_its_angular_momentum(backend, scene):
    velocity = torch.zeros(N, 6)
    velocity[:, 2], velocity[:, 3:] = 2.0, torch.tensor([1.0, -2.0, 3.0])
    scene["cube"].write_root_com_velocity(velocity)
    backend.forward()
    run(backend, 40)
    torch.testing.assert_close(scene["cube"].data.root_com_vel_w[:, 3:], velocity[:, 3:], atol=1e-3, rtol=0.0)


def test_writes_and_resets_touch_only_their_worlds(backend, scene):
    backend.step(4)
    cube, before = scene["cube"].data, scene.get_state()
    pose, velocity = torch.rand(N, 7), torch.rand(N, 6)
    pose[:, 3:] /= pose[:, 3:].norm(dim=1, keepdim=True)
    scene["cube"].write_root_link_pose(pose, only(1))
    scene["cube"].write_root_com_velocity(velocity, [1])
    backend.forward()
    for world, (key, value) in ((world, item) for world in range(N) for item in before["rigid_object"]["cube"].items()):
        written = {"root_pose": pose, "root_velocity": velocity}[key] if world == 1 else value
        assert torch.equal(scene.read_state()["rigid_object"]["cube"][key][world], written[world])
    torch.testing.assert_close(cube.body_link_pose_w[1, 0], pose[1])
    scene.reset(only(2))
    backend.forward()
    assert cube.root_link_pose_w[2].tolist() == pytest.approx([2.0, 0.0, 1.0, 0.0, 0.0, 0.6, 0.8])
    assert torch.equal(cube.root_link_pose_w[1], pose[1])
    check_masked_reset(backend, backend.reset, num_envs=N)
    with pytest.raises(LabError, match="'cube': it has no joints"):
        scene["cube"].write_joint_state(pose, pose)


def test_a_checkpoint_and_a_state_continue_bit_for_bit(backend, scene):
    backend.step(4)
    saved, state = backend.state_dict(), scene.get_state()
    assert set(state["rigid_object"]["cube"]) == {"root_pose", "root_velocity"}
    backend.step(4)
    expected = backend.state_dict()
    backend.load_state_dict(saved)
    backend.step(4)
    assert all(torch.equal(expected[name], value) for name, value in backend.state_dict().items())
    scene.set_state(state, torch.ones(N, dtype=torch.bool))
    backend.forward()
    backend.step(4)
    for key, value in scene.read_state()["rigid_object"]["cube"].items():
        buffer = {"root_pose": "root_link_pose_w", "root_velocity": "root_com_vel_w"}[key]
        assert torch.equal(value, expected[f"entities.cube.{buffer}"])


def test_captured_steps_equal_eager_ones(backend, make, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = make()
    for physics in (backend, eager):
        physics.entities["cube"].body_wrench_w[1, 0, 0] = 0.5
        run(physics, 80)
    assert eager.description.endswith("LAB_CAPTURE=0")
    for name, value in backend.entities["cube"].tensors().items():
        assert torch.equal(value, eager.entities["cube"].tensors()[name]), name


def test_the_fingerprint_names_it(backend):
    found = backend.fingerprint()
    assert found["robot"]["cube"]["bodies"]["cube"]["mass"] == pytest.approx(MASS)
    assert list(found["robot"]["cube"]["joints"]) == ["free joint of cube"]
    (shape,) = found["collision"]["cube"]["cube"]
    assert shape["kind"] == "BOX" and shape["size"] == pytest.approx([SIZE / 2] * 3)
    assert found["materials"]["cube"]["cube"][0]["friction"] == 1.0


def test_pictures_show_its_faces_and_its_ghost(backend):
    camera = CameraCfg(eye=(2.4, 0.0, 1.0), target=(2.0, 0.0, 1.0), width=48, height=48, fov=30.0)

    def brightest() -> np.ndarray:
        """The middle of the picture, where the cube is, as (red, green, blue)."""
        return backend.render(camera)[22:26, 22:26].reshape(-1, 3).mean(axis=0)

    backend.entities["cube"].root_link_pose_w[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    backend.written.fill_(True)
    red, green, blue = brightest()
    assert red > 1.8 * green and red > 1.8 * blue, "+x"
    half = math.sqrt(0.5)
    backend.entities["cube"].root_link_pose_w[:, 3:] = torch.tensor([0.0, 0.0, half, half])
    red, green, blue = brightest()
    assert blue > 1.5 * red and blue > 1.2 * green, "-y"
    goal = backend.entities["cube"].root_link_pose_w.clone()
    goal[:, 0], goal[:, 3:] = 2.1, torch.tensor([0.0, 0.0, 0.0, 1.0])
    backend.ghost_sources.append(lambda: [Ghost(entity="cube", root_pose_w=goal)])
    ghost_red, _, ghost_blue = brightest()
    backend.ghost_sources.clear()
    assert ghost_red > red + 30.0 and ghost_blue < blue, "the red face of the ghost, before the blue one of the cube"


# -- friction --------------------------------------------------------------------------------------------------------


def slide_in_mujoco(friction: float, steps: int) -> float:
    """Returns how far a cube at 1 m/s slides on a plane in C MuJoCo [m]."""
    half = SIZE / 2
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{DT}" integrator="implicitfast" cone="elliptic"/>
        <default><geom friction="{friction}"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>
          <body pos="0 0 {half}"><freejoint/><geom type="box" size="{half} {half} {half}" mass="{MASS}"/></body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    data.qvel[0] = 1.0
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return float(data.qpos[0])


def test_it_slides_as_far_as_its_friction_lets_it(device):
    """The larger coefficient counts, unless one has priority; what is randomised acts in its world alone."""
    start = {"lin_vel": (1.0, 0.0, 0.0)}
    cubes = {
        name: cube_cfg(
            friction=friction, friction_priority=priority, init_state=RootStateCfg(pos=(0, y, SIZE / 2), **start)
        )
        for name, friction, priority, y in (("rough", 0.5, 0, 0.0), ("smooth", 0.2, 1, 1.0), ("outvoted", 0.1, 0, 2.0))
    }
    scene = SceneCfg(entities=cubes, ground=GroundCfg(friction=0.4))
    physics = NewtonCfg(dt=DT, solver=MuJoCoSolverCfg(cone="elliptic", njmax=72, nconmax=24))
    backend = NewtonBackend(physics, scene, 2, device)
    backend.entities["rough"].body_friction[1] = 0.8
    backend.notify("rough", "body_friction")
    run(backend, 200)
    slid = {name: data.root_link_pose_w[:, 0].tolist() for name, data in backend.entities.items()}
    for name, coefficients in {"rough": (0.5, 0.8), "smooth": (0.2, 0.2), "outvoted": (0.4, 0.4)}.items():
        for distance, friction in zip(slid[name], coefficients, strict=True):
            assert distance == pytest.approx(slide_in_mujoco(friction, 200), rel=0.02), name
            assert distance == pytest.approx(1.0 / (2.0 * friction * 9.81), rel=0.1), name


def test_the_page_draws_its_faces_in_their_colours(backend, monkeypatch):
    drawn: list[np.ndarray] = []
    log_instances = ViewerViser.log_instances

    def keep(self, name, mesh, xforms, scales=None, colors=None, *args, **kwargs) -> None:
        if colors is not None:
            drawn.append(np.asarray(colors.numpy() if hasattr(colors, "numpy") else colors))
        log_instances(self, name, mesh, xforms, scales, colors, *args, **kwargs)

    monkeypatch.setattr(ViewerViser, "log_instances", keep)
    page = backend.open_viewer(CameraCfg(follow="cube"))
    try:
        shown = np.concatenate(drawn)
    finally:
        page.close()
    for color in SIX_COLORS:
        assert np.abs(shown - color).max(axis=1).min() < 0.01, color
