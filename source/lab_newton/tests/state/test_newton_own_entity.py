"""A kind of entity that lab_newton does not know: stepped beside a robot, written, reset, checkpointed and rebuilt."""

from __future__ import annotations

import re
from dataclasses import dataclass

import newton
import pytest
import torch
import warp as wp

from lab_core.errors import ConfigError, LabError
from lab_core.scene import Entity, EntityCfg, EntityData, EntityPhysics, Role, Scene, SceneCfg
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.state import EntityLayout, NewtonEntity, make_entity
from lab_warp.views import array_struct, fill_struct

DT, HEIGHT, HALF = 0.005, 1.0, 0.1


class CrateData(EntityData):
    """What every kind has, and no joints."""


CrateArrays = array_struct("CrateArrays", __name__, CrateData.buffers(Role.STATE, Role.DERIVED, Role.DEFAULT))


@wp.kernel(enable_backward=False)
def write_crate(
    mask: wp.array[wp.bool],
    origins: wp.array[wp.vec3],
    crate: CrateArrays,
    place: wp.vec2i,
    joint_q: wp.array2d[wp.float32],
    joint_qd: wp.array2d[wp.float32],
):
    world = wp.tid()
    if not mask[world]:
        return
    if origins:
        pose = crate.default_root_pose[world]
        position = wp.transform_get_translation(pose) + origins[world]
        crate.root_link_pose_w[world] = wp.transform(position, wp.transform_get_rotation(pose))
        crate.root_com_vel_w[world] = crate.default_root_vel[world]
    for k in range(7):
        joint_q[world, place[0] + k] = crate.root_link_pose_w[world][k]
    for k in range(6):
        joint_qd[world, place[1] + k] = crate.root_com_vel_w[world][k]


@wp.kernel(enable_backward=False)
def read_crate(
    mask: wp.array[wp.bool],
    body: wp.int32,
    body_q: wp.array2d[wp.transform],
    body_qd: wp.array2d[wp.spatial_vector],
    crate: CrateArrays,
    written: wp.array[wp.bool],
):
    world = wp.tid()
    if mask and not mask[world]:
        return
    crate.root_link_pose_w[world] = body_q[world, body]
    crate.root_com_vel_w[world] = body_qd[world, body]
    crate.body_link_pose_w[world, 0] = body_q[world, body]
    crate.body_com_vel_w[world, 0] = body_qd[world, body]
    if not mask:
        written[world] = False


@dataclass(kw_only=True)
class CrateCfg(EntityCfg):
    """A free box, which no file describes."""

    pos: tuple[float, float, float] = (3.0, 0.0, HEIGHT)
    mass: float = 2.0

    def make_entity(self, name: str, physics: EntityPhysics) -> Crate:
        return Crate(name, self, physics.entities[name], physics)


class Crate(Entity[CrateCfg, EntityData]):
    kind = "rigid_object"


class NewtonCrate(NewtonEntity[CrateCfg, CrateData]):
    data_type = CrateData

    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        coord, dof = world.joint_coord_count, world.joint_dof_count
        body = world.add_body(xform=wp.transform(self.cfg.pos, wp.quat_identity()), label=self.name)
        density = self.cfg.mass / (2.0 * HALF) ** 3
        world.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF, cfg=newton.ModelBuilder.ShapeConfig(density=density))
        return EntityLayout(
            joint_names=(),
            body_names=("crate",),
            joint_coord=(),
            joint_dof=(),
            body=(body,),
            root_coord=coord,
            root_dof=dof,
            floating=True,
        )

    def _fill_defaults(self) -> None:
        self.data.default_root_pose[:, :3] = torch.tensor(self.cfg.pos)
        self._arrays = fill_struct(CrateArrays, self.data)

    def write_state(self, mask: wp.array, state: newton.State) -> None:
        self._write(mask, None, state)

    def restore_default(self, mask: wp.array, env_origins: wp.array, state: newton.State) -> None:
        self._write(mask, env_origins, state)

    def _write(self, mask: wp.array, origins: wp.array | None, state: newton.State) -> None:
        place = wp.vec2i(self.layout.root_coord, self.layout.root_dof)
        rows = [array.reshape((self.num_envs, -1)) for array in (state.joint_q, state.joint_qd)]
        inputs = [mask, origins, self._arrays, place]
        wp.launch(write_crate, self.num_envs, inputs=inputs, outputs=rows, device=self.device)

    def read_state(self, model, state, written, mask=None, elapsed=None) -> None:
        rows = [array.reshape((self.num_envs, -1)) for array in (state.body_q, state.body_qd)]
        inputs = [mask, self.layout.body[0], *rows]
        wp.launch(read_crate, self.num_envs, inputs=inputs, outputs=[self._arrays, written], device=self.device)


make_entity.register(CrateCfg, NewtonCrate)


@dataclass(kw_only=True)
class HeavyCrateCfg(CrateCfg):
    """Simulated as what it derives from."""

    mass: float = 20.0


@dataclass(kw_only=True)
class ClothCfg(EntityCfg):
    """Nothing simulates it."""

    def make_entity(self, name: str, physics: EntityPhysics) -> Entity:
        raise AssertionError("the backend refuses it before the scene asks for it")


def make(**entities: EntityCfg) -> NewtonBackend:
    physics = NewtonCfg(dt=DT, solver=MuJoCoSolverCfg(njmax=128, nconmax=64))
    return NewtonBackend(physics, SceneCfg(entities=entities), 3, torch.device("cpu"))


@pytest.fixture(scope="module")
def shared(rover_cfg) -> tuple[NewtonBackend, dict[str, torch.Tensor]]:
    backend = make(robot=rover_cfg, crate=CrateCfg(), heavy=HeavyCrateCfg(pos=(-3.0, 0.0, HEIGHT)))
    return backend, backend.state_dict()


@pytest.fixture
def backend(shared) -> NewtonBackend:
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


@pytest.fixture
def scene(backend) -> Scene:
    return Scene(backend._scene, backend)


def only(world: int) -> torch.Tensor:
    return torch.arange(3) == world


def test_it_falls_and_comes_to_rest_on_the_ground_beside_the_robot(backend):
    backend.step(20)
    data, robot = backend.entities["crate"], backend.entities["robot"]
    fallen = 9.81 * DT**2 * (20 * 21 / 2)
    torch.testing.assert_close(data.root_link_pose_w[:, 2], torch.full((3,), HEIGHT - fallen), atol=1e-4, rtol=0.0)
    torch.testing.assert_close(data.root_com_vel_w[:, 2], torch.full((3,), -9.81 * 20 * DT), atol=1e-4, rtol=0.0)
    backend.step(280)
    torch.testing.assert_close(data.root_link_pose_w[:, 2], torch.full((3,), HALF), atol=5e-3, rtol=0.0)
    assert robot.joint_names and robot.root_link_pose_w[:, 0].abs().max() < 1.0, "each has its own place"
    assert backend.health().ok


def test_its_properties_and_forces_are_those_of_any_entity(backend):
    crate, heavy = backend.entities["crate"], backend.entities["heavy"]
    assert crate.body_mass[:, 0].tolist() == pytest.approx([2.0] * 3)
    assert heavy.body_mass[:, 0].tolist() == pytest.approx([20.0] * 3)
    crate.body_mass[1] = 4.0
    backend.notify("crate", "body_mass")
    for data in (crate, heavy):
        data.body_wrench_w[:, 0, 0] = 8.0
    backend.step(1)
    assert crate.root_com_vel_w[:, 0].tolist() == pytest.approx([4.0 * DT, 2.0 * DT, 4.0 * DT], rel=1e-4)
    assert heavy.root_com_vel_w[:, 0].tolist() == pytest.approx([0.4 * DT] * 3, rel=1e-4)
    with pytest.raises(LabError, match="joint_armature"):
        backend.notify("crate", "joint_armature")


def test_its_state_is_written_by_mask_and_reset_by_mask(backend, scene):
    velocity = torch.zeros(3, 6)
    velocity[:, 1] = 2.0
    scene["crate"].write_root_com_velocity(velocity, only(1))
    backend.forward()
    backend.step(10)
    moved = backend.entities["crate"].root_link_pose_w[:, 1]
    assert moved.tolist() == pytest.approx([0.0, 20.0 * DT, 0.0], abs=1e-4)
    scene.reset(only(1))
    backend.forward()
    pose = backend.entities["crate"].body_link_pose_w[:, 0]
    assert pose[1].tolist() == pytest.approx([3.0, 0.0, HEIGHT, 0.0, 0.0, 0.0, 1.0])
    assert pose[0, 2] < HEIGHT
    check_masked_reset(backend, backend.reset, num_envs=3)


def test_a_scene_keeps_its_state_under_its_kind(backend, scene):
    backend.step(10)
    state = scene.get_state()
    assert {kind: list(entities) for kind, entities in state.items()} == {
        "articulation": ["robot"],
        "rigid_object": ["crate", "heavy"],
    }
    assert set(state["rigid_object"]["crate"]) == {"root_pose", "root_velocity"}
    backend.step(10)
    scene.set_state(state, only(2))
    backend.forward()
    now = scene.get_state()["rigid_object"]["crate"]["root_pose"]
    assert torch.equal(now[2], state["rigid_object"]["crate"]["root_pose"][2])
    assert (now[:2, 2] < state["rigid_object"]["crate"]["root_pose"][:2, 2]).all()


def test_a_checkpoint_continues_bit_for_bit(backend):
    backend.step(5)
    saved = backend.state_dict()
    backend.step(5)
    expected = backend.state_dict()
    backend.load_state_dict(saved)
    backend.step(5)
    assert all(torch.equal(expected[name], value) for name, value in backend.state_dict().items())
    assert any(name.startswith("entities.crate.") for name in saved)


def test_a_world_that_went_non_finite_is_put_back(backend):
    backend.entities["crate"].body_wrench_w[1, 0, 2] = float("nan")
    backend.step(4)
    assert backend.non_finite.tolist() == [False, True, False]
    assert backend.entities["crate"].root_link_pose_w[1, 2] == HEIGHT


def test_it_is_traced_and_survives_a_rebuild():
    backend = make(crate=CrateCfg())
    rows = backend.trace("crate", "root_link_pose_w", 4)
    with pytest.raises(LabError, match="joint_pos"):
        backend.trace("crate", "joint_pos", 4)
    data = backend.entities["crate"]
    backend.step(4)
    backend.rebuild()
    assert backend.entities["crate"] is data and (data.root_link_pose_w[:, 2] == HEIGHT).all()
    backend.step(4)
    assert torch.equal(rows[:, -1], data.root_link_pose_w) and (rows[:, :-1, 2] > rows[:, 1:, 2]).all()


def test_an_unknown_kind_names_its_key_its_class_and_the_kinds_there_are():
    known = "ArticulationCfg, CrateCfg, RigidObjectCfg"
    message = f"scene.entities['flag']: no entity is registered for a ClothCfg, only for {known}."
    with pytest.raises(ConfigError, match=re.escape(message)):
        make(flag=ClothCfg())
