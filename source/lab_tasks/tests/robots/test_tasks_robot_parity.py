"""The robots in the physics of their tasks against C MuJoCo: settings, models, pairs that collide, and motion."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import combinations
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from lab_core.math import quat_apply, quat_from_euler_xyz
from lab_core.registry import get_task
from lab_core.scene import ArticulationCfg, ArticulationData, SceneCfg, clip_to_motor_curve
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.robots import anymal_c_cfg, g1_cfg

N, STEPS = 4, 200
AIR, TILTED, TOUCHING, LYING = range(N)
INTEGRATORS = {"euler": 0, "rk4": 1, "implicit": 2, "implicitfast": 3}
CONES = {"pyramidal": 0, "elliptic": 1}
SOLVERS = {"cg": 1, "newton": 2}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One robot in the physics of its task, and how far it may be from C MuJoCo at any time of the motion."""

    make: Callable[[], tuple[NewtonCfg, SceneCfg]]
    joint_tolerance: float
    """[rad or m]."""
    root_tolerance: float
    """[m and rad]."""
    lying: tuple[float, float] = (1.5, 0.0)
    """Roll and pitch of the robot that is dropped while lying [rad]."""
    spread: float = 0.3
    """Initial joint positions differ by at most this from the default [rad or m]."""
    target: dict[str, float] | None = None
    """End of joint name -> change of the position target [rad]."""
    effort: float = 0.0
    """Amplitude of the efforts that drive the joints besides their PD laws [N m or N]."""
    seed: int = 1
    """Of the states that it starts in."""


def physics_of(
    task: str, robot: ArticulationCfg | None = None, substeps: int | None = None, **solver: Any
) -> Callable[[], tuple[NewtonCfg, SceneCfg]]:
    def make() -> tuple[NewtonCfg, SceneCfg]:
        cfg = get_task(task).make_env_cfg()
        if robot is not None:
            cfg.scene.entities["robot"] = robot
        cfg.physics.solver = replace(cfg.physics.solver, **solver)
        cfg.physics.substeps = substeps or cfg.physics.substeps
        return cfg.physics, SceneCfg(ground=cfg.scene.ground, entities=cfg.scene.entities)

    return make


def physics_of_g1() -> tuple[NewtonCfg, SceneCfg]:
    solver = MuJoCoSolverCfg(njmax=250, nconmax=40)
    return NewtonCfg(dt=0.005, solver=solver), SceneCfg(entities={"robot": g1_cfg()})


ANYMAL = "Lab-Velocity-Flat-AnymalC"
CASES = {
    # Smooth: only the rounding of 32 bits, which the falling pole amplifies.
    "cartpole": Case(make=physics_of("Lab-Cartpole"), joint_tolerance=1e-4, root_tolerance=1e-6, effort=20.0),
    # Friction pyramids of capsules that stand steeper than 60 degrees are turned otherwise in MuJoCo Warp than in C;
    # cones are the same. Feet scrape over the ground while limp legs give way: rounding decides when they stick. Of 32
    # starts 4 end elsewhere with MuJoCo Warp's own solve and 5 with the fused one, these do not.
    "ant": Case(
        make=physics_of("Lab-Ant", cone="elliptic"), joint_tolerance=2e-3, root_tolerance=2e-3, effort=0.5, seed=0
    ),
    # The robots come to rest on feet that stick: rounding dies out.
    "go2": Case(make=physics_of("Lab-Velocity-Flat-Go2"), joint_tolerance=3e-4, root_tolerance=3e-4),
    "anymal_c": Case(
        make=physics_of(ANYMAL, anymal_c_cfg(drive="dc_motor")),
        joint_tolerance=5e-4,
        root_tolerance=5e-4,
    ),
    "anymal_c_menagerie": Case(
        make=physics_of(ANYMAL, anymal_c_cfg(variant="menagerie", drive="dc_motor")),
        joint_tolerance=5e-4,
        root_tolerance=5e-4,
    ),
    # As on generated terrain: Newton finds the contacts. It does so once per physics step, hence one solver step.
    "go2_on_newton_contacts": Case(
        make=physics_of(
            "Lab-Velocity-Flat-Go2", substeps=1, collisions="newton", cone="elliptic", impratio=100.0, nconmax=32
        ),
        joint_tolerance=3e-4,
        root_tolerance=3e-4,
    ),
    # The robot falls over, which amplifies rounding. Its legs are held apart: MuJoCo Warp finds fewer points than C
    # between the boxes of two soles that touch.
    "g1": Case(
        make=physics_of_g1,
        joint_tolerance=2e-3,
        root_tolerance=1e-3,
        lying=(0.0, -1.5),
        spread=0.1,
        target={"left_hip_roll_joint": 0.4, "right_hip_roll_joint": -0.4},
    ),
}


@dataclass(frozen=True)
class World:
    """A robot in the Newton backend, the C model that the solver compiled, and C MuJoCo's model of the robot's file."""

    case: Case
    cfg: NewtonCfg
    robot: ArticulationCfg
    backend: NewtonBackend
    compiled: mujoco.MjModel
    reference: mujoco.MjModel

    @property
    def data(self) -> ArticulationData:
        return self.backend.entities["robot"]

    @property
    def warp(self):
        return self.backend.solver.inner.mjw_model


@pytest.fixture(scope="module", params=CASES)
def world(request) -> Iterator[World]:
    case = CASES[request.param]
    cfg, scene = case.make()
    robot = scene.entities["robot"]
    backend = NewtonBackend(cfg, scene, N, torch.device("cpu"))
    yield World(case, cfg, robot, backend, backend.solver.inner.mj_model, reference_model(robot, scene))
    backend.close()


def reference_model(robot: ArticulationCfg, scene: SceneCfg) -> mujoco.MjModel:
    package, _, inside = robot.asset.partition(":")
    spec = mujoco.MjSpec.from_file(str(files(package) / inside))
    if not robot.self_collision:
        for geom in spec.geoms:
            geom.contype, geom.conaffinity = 0, geom.contype
    if scene.ground is not None and scene.ground.collision:
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5.0, 5.0, 0.1], friction=[scene.ground.friction, 0.005, 0.0001]
        )
    return spec.compile()


# Settings -------------------------------------------------------------------------------------------------------------


def test_settings_are_those_of_the_task(world):
    cfg, option = world.cfg.solver, world.compiled.opt
    world.backend.step(1)
    assert option.integrator == world.warp.opt.integrator == INTEGRATORS[cfg.integrator]
    assert option.cone == world.warp.opt.cone == CONES[cfg.cone]
    assert option.solver == world.warp.opt.solver == SOLVERS[cfg.solver]
    assert (option.iterations, option.ls_iterations) == (cfg.iterations, cfg.ls_iterations)
    assert (world.warp.opt.iterations, world.warp.opt.ls_iterations) == (cfg.iterations, cfg.ls_iterations)
    assert option.tolerance == pytest.approx(cfg.tolerance) == world.warp.opt.tolerance.numpy()[0]
    assert option.impratio == pytest.approx(cfg.impratio)
    assert world.warp.opt.impratio_invsqrt.numpy()[0] == pytest.approx(cfg.impratio**-0.5)
    assert world.warp.opt.timestep.numpy()[0] == pytest.approx(world.cfg.dt / world.cfg.substeps)
    assert option.gravity == pytest.approx([0.0, 0.0, -9.81])
    # All else is as in MuJoCo by default, but one point per pair of convex shapes.
    flags = mujoco.mjtDisableBit
    off = flags.mjDSBL_MULTICCD | flags.mjDSBL_FILTERPARENT | (0 if cfg.contacts else flags.mjDSBL_CONTACT)
    assert option.disableflags == off
    # MuJoCo Warp need not compute what these robots do not have.
    absent = flags.mjDSBL_ACTUATION | flags.mjDSBL_SPRING | flags.mjDSBL_DAMPER
    assert world.warp.opt.disableflags == off | absent
    assert option.enableflags == world.warp.opt.enableflags == 0
    assert not option.density and not option.viscosity


# Model ----------------------------------------------------------------------------------------------------------------

BODY = ("body_parentid", "body_mass", "body_ipos", "body_gravcomp")
JOINT = (
    *("jnt_type", "jnt_bodyid", "jnt_limited", "jnt_pos", "jnt_axis", "jnt_solref", "jnt_solimp", "jnt_margin"),
    *("jnt_stiffness", "dof_armature", "dof_damping", "dof_frictionloss", "dof_solref", "dof_solimp"),
)
GEOM = ("condim", "priority", "friction", "solref", "solimp", "margin", "gap", "solmix")


def inertias(model: mujoco.MjModel) -> np.ndarray:
    """Returns the inertia tensors in the bodies' axes (B, 3, 3); principal axes have no unique order."""
    tensors = []
    for principal, quat in zip(model.body_inertia, model.body_iquat, strict=True):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, quat)
        axes = rotation.reshape(3, 3)
        tensors.append(axes @ np.diag(principal) @ axes.T)
    return np.array(tensors)


def geoms(model: mujoco.MjModel) -> dict[tuple, int]:
    """Returns the geoms that can collide: body, type and place -> number."""
    return {
        (int(model.geom_bodyid[i]), int(model.geom_type[i]), *(np.round(model.geom_pos[i], 4) + 0.0)): i
        for i in range(model.ngeom)
        if model.geom_contype[i] or model.geom_conaffinity[i]
    }


def test_model_is_that_of_the_file(world):
    compiled, reference = world.compiled, world.reference
    for name in (*BODY, *JOINT):
        assert getattr(compiled, name) == pytest.approx(getattr(reference, name), rel=1e-6, abs=1e-7), name
    assert inertias(compiled) == pytest.approx(inertias(reference), rel=1e-4, abs=2e-6)
    limited = reference.jnt_limited.astype(bool)
    assert compiled.jnt_range[limited] == pytest.approx(reference.jnt_range[limited], abs=1e-6)
    # Bodies that hang on others; the root is where the configuration puts it.
    hanging = reference.body_parentid > 0
    assert compiled.body_pos[hanging] == pytest.approx(reference.body_pos[hanging], abs=1e-6)
    dots = (compiled.body_quat * reference.body_quat).sum(axis=1)
    assert np.abs(dots) == pytest.approx(1.0, abs=1e-6)
    # How bodies give way to constraints.
    for name in ("body_invweight0", "dof_invweight0"):
        assert getattr(compiled, name) == pytest.approx(getattr(reference, name), rel=1e-4), name


def test_shapes_are_those_of_the_file(world):
    compiled, reference = geoms(world.compiled), geoms(world.reference)
    assert compiled.keys() == reference.keys()
    assert len(reference) == sum(map(bool, world.reference.geom_contype | world.reference.geom_conaffinity))
    for key, i in compiled.items():
        j = reference[key]
        for name in GEOM:
            ours, theirs = (getattr(m, f"geom_{name}")[n] for m, n in ((world.compiled, i), (world.reference, j)))
            assert ours == pytest.approx(theirs, rel=1e-6), (key, name)
        dot = world.compiled.geom_quat[i] @ world.reference.geom_quat[j]
        assert abs(dot) == pytest.approx(1.0, abs=1e-6), key
        if world.reference.geom_type[j] != mujoco.mjtGeom.mjGEOM_PLANE:
            size = world.reference.geom_size[j]
            assert world.compiled.geom_size[i][size > 0] == pytest.approx(size[size > 0], rel=1e-6), key


def colliding_pairs(model: mujoco.MjModel) -> set[frozenset]:
    """Returns the pairs of geoms that MuJoCo lets collide, by its rules for types, parents, welds and exclusions."""
    excluded = {frozenset(divmod(int(signature), 1 << 16)) for signature in model.exclude_signature}
    pairs = set()
    for (key1, i), (key2, j) in combinations(geoms(model).items(), 2):
        bodies = model.geom_bodyid[[i, j]]
        weld1, weld2 = model.body_weldid[bodies]
        above1, above2 = (model.body_weldid[model.body_parentid[weld]] for weld in (weld1, weld2))
        related = weld1 == weld2 or (weld1 and weld2 and (above1 == weld2 or above2 == weld1))
        allowed = (model.geom_contype[i] & model.geom_conaffinity[j]) or (
            model.geom_contype[j] & model.geom_conaffinity[i]
        )
        if allowed and not related and frozenset(map(int, bodies)) not in excluded:
            pairs.add(frozenset((key1, key2)))
    return pairs


def test_the_same_pairs_collide(world):
    expected = colliding_pairs(world.reference)
    assert colliding_pairs(world.compiled) == expected
    if world.cfg.solver.contacts:
        key_of = {i: key for key, i in geoms(world.compiled).items()}
        looked_at = world.warp.nxn_geom_pair_filtered.numpy()
        assert {frozenset((key_of[i], key_of[j])) for i, j in looked_at.tolist()} == expected
    assert bool(expected) == world.cfg.solver.contacts


def test_every_world_has_the_properties_of_the_model(world):
    for name in (
        *("body_mass", "body_ipos", "dof_armature", "dof_damping", "dof_frictionloss", "jnt_stiffness"),
        *("jnt_solref", "jnt_solimp", "jnt_margin", "geom_friction", "geom_solref", "geom_solimp", "geom_margin"),
    ):
        found, expected = getattr(world.warp, name).numpy(), getattr(world.compiled, name)
        assert found == pytest.approx(np.broadcast_to(expected, found.shape), rel=1e-6, abs=1e-9), name


# Motion ---------------------------------------------------------------------------------------------------------------


def draw_states(world: World) -> None:
    """Puts the robots into the air, tilted into the air, onto the ground, and above it lying; all but one moving."""
    data, case = world.data, world.case
    generator = torch.Generator().manual_seed(case.seed)

    def draw(columns: int, bound: float) -> torch.Tensor:
        values = bound * (2.0 * torch.rand(N, columns, generator=generator) - 1.0)
        values[AIR] = 0.0
        return values

    joints = len(data.joint_names)
    low, high = data.joint_pos_limits.unbind(-1)
    data.joint_pos.copy_((data.default_joint_pos + draw(joints, case.spread)).clamp(low + 0.01, high - 0.01))
    data.joint_vel.copy_(draw(joints, 1.0))
    if not data.fixed_base:
        roll, pitch, yaw = draw(3, 0.2).unbind(1)
        roll[LYING], pitch[LYING] = case.lying
        data.root_link_pose_w[:, 3:] = quat_from_euler_xyz(roll, pitch, yaw)
        data.root_com_vel_w.copy_(draw(6, 0.5))
        for row, height in ((TOUCHING, -0.002), (LYING, 0.05)):
            data.root_link_pose_w[row, 2] += height - lowest_point(world, row)
    world.backend.mark_written(torch.ones(N, dtype=torch.bool))
    world.backend.forward()
    data.joint_pos_target.copy_(data.default_joint_pos)
    for name, change in (case.target or {}).items():
        data.joint_pos_target[:, data.joint_names.index(name)] += change


def lowest_point(world: World, row: int) -> float:
    """Returns the height of the lowest point of the robot's shapes [m]."""
    state = c_state(world, row)
    mujoco.mj_kinematics(world.compiled, state)
    (ground,) = (i for key, i in geoms(world.compiled).items() if key[0] == 0)
    shapes = [i for i in geoms(world.compiled).values() if i != ground]
    return min(mujoco.mj_geomDistance(world.compiled, state, i, ground, 10.0, None) for i in shapes)


def c_state(world: World, row: int) -> mujoco.MjData:
    """Returns C MuJoCo's state of a world."""
    data, state = world.data, mujoco.MjData(world.compiled)
    joints = len(data.joint_names)
    state.qpos[-joints:] = data.joint_pos[row]
    state.qvel[-joints:] = data.joint_vel[row]
    if not data.fixed_base:
        position, quat = data.root_link_pose_w[row].double().split([3, 4])
        linear, angular = data.root_com_vel_w[row].double().split(3)
        com = quat_apply(quat, data.body_com_pos_b[row, 0].double())
        inverse = quat * torch.tensor([-1.0, -1.0, -1.0, 1.0])
        state.qpos[:7] = torch.cat([position, quat[[3, 0, 1, 2]]])
        state.qvel[:3] = linear - torch.linalg.cross(angular, com)
        state.qvel[3:6] = quat_apply(inverse, angular)
    return state


def effort_in(world: World, row: int, state: mujoco.MjData, feed_forward: torch.Tensor) -> torch.Tensor:
    """Returns what the actuators of a world do in C MuJoCo's state of it (J,)."""
    data, joints = world.data, len(world.data.joint_names)
    position, velocity = (torch.tensor(values[-joints:], dtype=torch.float32) for values in (state.qpos, state.qvel))
    effort = data.joint_stiffness[row] * (data.joint_pos_target[row] - position) - data.joint_damping[row] * velocity
    limits = (data.joint_effort_limits[row], data.joint_saturation_efforts[row], data.joint_velocity_limits[row])
    return clip_to_motor_curve(effort + feed_forward, velocity, *limits)


def distances(world: World, row: int, state: mujoco.MjData) -> tuple[float, float]:
    """Returns the largest distances of joint positions, and of the root's position and orientation."""
    data, joints = world.data, len(world.data.joint_names)
    joint = np.abs(state.qpos[-joints:] - data.joint_pos[row].numpy()).max()
    if data.fixed_base:
        return joint, 0.0
    pose = data.root_link_pose_w[row].numpy()
    quat = pose[[6, 3, 4, 5]]
    turned = 2.0 * min(np.linalg.norm(state.qpos[3:7] - quat), np.linalg.norm(state.qpos[3:7] + quat))
    return joint, max(np.abs(state.qpos[:3] - pose[:3]).max(), turned)


def test_robots_move_as_in_c_mujoco(world):
    """200 steps under the actuators' law, each engine with that of its own state, from above and on the ground."""
    model = copy.copy(world.compiled)
    model.opt.timestep = world.cfg.dt / world.cfg.substeps
    model.opt.tolerance, model.opt.ls_tolerance = 1e-10, 1e-6  # C MuJoCo stops after fewer iterations than MuJoCo Warp
    draw_states(world)
    data, joints = world.data, len(world.data.joint_names)
    states = [c_state(world, row) for row in range(N)]
    start = data.joint_pos.clone()
    contacts = [0] * N
    for step in range(STEPS):
        wave = world.case.effort * torch.sin(0.1 * step + torch.arange(joints))
        data.joint_effort_target.copy_(wave)
        world.backend.step(1)
        for row, state in enumerate(states):
            state.qfrc_applied[-joints:] = effort_in(world, row, state, wave)
            mujoco.mj_step(model, state, world.cfg.substeps)
            contacts[row] = max(contacts[row], state.ncon)
            joint, root = distances(world, row, state)
            assert joint < world.case.joint_tolerance, (step, row)
            assert root < world.case.root_tolerance, (step, row)
    assert world.backend.health().ok
    assert (data.joint_pos - start).abs().amax(dim=1).min() > 0.05, "somebody did not move"
    if world.cfg.solver.contacts:
        assert min(contacts) >= 2, "somebody did not touch anything"
