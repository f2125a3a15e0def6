"""Everything random about a robot in Newton, over 1,000 resets: ranges, means, what shares a draw, and that the physics
has it. On both front ends, whose draws are different code."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv, make_env
from lab_core.managers import EventTermCfg, SceneEntityCfg
from lab_core.math import euler_xyz_from_quat, quat_apply
from lab_core.registry import get_task
from lab_core.scene import clip_to_motor_curve

N, RESETS = 50, 20
BASE = SceneEntityCfg(body_names="base")
GAINS = {"stiffness": (0.8, 1.2), "damping": (0.5, 1.5)}
DRY_FRICTION, ARMATURE, GRIP, FORCE, TORQUE = (0.0, 0.3), (0.005, 0.02), (0.4, 1.2), (-3.0, 3.0), (-0.5, 0.5)
HELD, STANDING, FOLLOWING = (2.0, 10.0), 0.2, 0.7
NOISE = {
    "base_lin_vel": 0.1,
    "base_ang_vel": 0.2,
    "projected_gravity": 0.05,
    "velocity_commands": 0.0,
    "joint_pos": 0.01,
    "joint_vel": 1.5,
    "actions": 0.0,
}


def randomised_env(frontend: str) -> ManagerBasedRLEnv:
    """The Go2 on flat ground, with every property event at every reset."""
    cfg = get_task("Lab-Velocity-Flat-Go2").make_env_cfg()
    cfg.scene.num_envs = N
    events = cfg.events
    for name in ("add_base_mass", "base_com", "physics_material"):
        events[name].mode = "reset"
    events["physics_material"].params["friction_range"] = GRIP
    added = {
        "gains": (
            mdp.randomize_actuator_gains,
            {f"{name}_distribution_params": bounds for name, bounds in GAINS.items()} | {"operation": "scale"},
        ),
        "joints": (
            mdp.randomize_joint_parameters,
            {"friction_distribution_params": DRY_FRICTION, "armature_distribution_params": ARMATURE},
        ),
        "wrench": (
            mdp.apply_external_force_torque,
            {"force_range": FORCE, "torque_range": TORQUE, "asset_cfg": BASE},
        ),
    }
    for name, (func, params) in added.items():
        events[name] = EventTermCfg(func=func, mode="reset", params=params)
    command = cfg.commands["base_velocity"]
    command.resampling_time_range, command.rel_standing_envs, command.rel_heading_envs = HELD, STANDING, FOLLOWING
    return make_env(cfg, frontend=frontend)


@dataclass(frozen=True)
class World:
    """The environment after its resets, and what each of them left."""

    env: ManagerBasedRLEnv
    samples: dict[str, torch.Tensor]
    """Name -> (RESETS, N, ...)."""

    @property
    def data(self):
        return self.env.scene["robot"].data

    def __getitem__(self, name: str) -> torch.Tensor:
        """All samples of a name, (RESETS * N, ...)."""
        return self.samples[name].flatten(0, 1)


@pytest.fixture(scope="module", params=["torch", "warp"])
def world(request) -> Iterator[World]:
    env = randomised_env(request.param)
    drawn: dict[str, list[torch.Tensor]] = {}
    for i in range(RESETS):
        observations, _ = env.reset(seed=3 if i == 0 else None)
        for name, value in (look(env) | noise_in(env, observations["policy"])).items():
            drawn.setdefault(name, []).append(value.clone())
    yield World(env, {name: torch.stack(values) for name, values in drawn.items()})
    env.close()


def look(env: ManagerBasedRLEnv) -> dict[str, torch.Tensor]:
    """What a reset drew, from the buffers and from MuJoCo Warp's model (there called ``engine ...``)."""
    data, command = env.scene["robot"].data, env.command_manager.get_term("base_velocity")
    model = env.physics.solver.inner.mjw_model
    engine = {
        name: torch.from_numpy(getattr(model, name).numpy().copy())
        for name in ("body_mass", "body_ipos", "geom_friction", "dof_frictionloss", "dof_armature")
    }
    return {
        "joint factor": data.joint_pos / data.default_joint_pos,
        "joint speed": data.joint_vel,
        "place": data.root_link_pose_w[:, :3] - env.scene.env_origins,
        "yaw": euler_xyz_from_quat(data.root_link_pose_w[:, 3:])[2],
        "velocity": data.root_com_vel_w,
        "masses": data.body_mass,
        "inertias": data.body_inertia_b,
        "coms": data.body_com_pos_b,
        "grips": data.body_friction,
        "stiffness": data.joint_stiffness,
        "damping": data.joint_damping,
        "dry friction": data.joint_friction,
        "armature": data.joint_armature,
        "wrenches": data.body_wrench_w,
        "command": command.command,
        "heading": command.heading_target,
        "follows": command.is_heading_env,
        "stands": command.is_standing_env,
        "held": command.time_left,
        "push timer": env.event_manager._time_left["push_robot"],
        **{f"engine {name}": value for name, value in engine.items()},
    }


def noise_in(env: ManagerBasedRLEnv, observed: torch.Tensor) -> dict[str, torch.Tensor]:
    data = env.scene["robot"].data
    clean = torch.cat(
        [
            *(data.root_com_lin_vel_b, data.root_ang_vel_b, data.projected_gravity_b),
            env.command_manager.get_command("base_velocity"),
            *(data.joint_pos - data.default_joint_pos, data.joint_vel, torch.zeros(N, 12)),
        ],
        dim=1,
    )
    widths = (3, 3, 3, 3, 12, 12, 12)
    return {f"noise {name}": part for name, part in zip(NOISE, (observed - clean).split(widths, dim=1), strict=True)}


def check_uniform(values: torch.Tensor, low: float, high: float) -> None:
    """Each column (samples, ...) is uniform from ``low`` to ``high``: within 4.5 standard errors of mean and spread."""
    values, width = values.flatten(1).double() if values.dim() > 1 else values[:, None].double(), high - low
    n = len(values)
    rounding = 1e-5 * max(abs(low), abs(high))
    assert values.min() >= low - rounding and values.max() <= high + rounding
    assert ((values.amin(dim=0) - low) < 12.0 * width / n).all()
    assert ((high - values.amax(dim=0)) < 12.0 * width / n).all()
    assert ((values.mean(dim=0) - (low + high) / 2).abs() < 4.5 * width / math.sqrt(12 * n)).all()
    spread = values.std(dim=0) / (width / math.sqrt(12))
    assert ((spread - 1.0).abs() < 4.5 * math.sqrt(0.2 / n)).all()  # kurtosis of a uniform: 1.8


def check_share(hits: torch.Tensor, expected: float) -> None:
    error = math.sqrt(expected * (1.0 - expected) / hits.numel())
    assert hits.float().mean().item() == pytest.approx(expected, abs=4.5 * error)


# Ranges and means -----------------------------------------------------------------------------------------------------


def test_joint_positions_and_speeds(world):
    hips_and_thighs = [i for i, name in enumerate(world.data.joint_names) if "calf" not in name]
    check_uniform(world["joint factor"][:, hips_and_thighs], 0.5, 1.5)
    calves = [i for i, name in enumerate(world.data.joint_names) if "calf" in name]
    low, high = world.data.soft_joint_pos_limits[0, calves[0]].tolist()
    position = -1.5 * world["joint factor"][:, calves]
    assert position.min().item() == pytest.approx(-2.25, abs=0.02)
    assert low < position.min() and position.max().item() == pytest.approx(high)
    check_share(position >= high - 1e-6, (-0.75 - high) / 1.5)
    assert not world["joint speed"].any()


def test_root_places_and_velocities(world):
    check_uniform(world["place"][:, :2], -0.5, 0.5)
    assert world["place"][:, 2] == pytest.approx(0.4)
    check_uniform(world["yaw"], -math.pi, math.pi)
    check_uniform(world["velocity"], -0.5, 0.5)


def test_masses_and_centres_of_mass(world):
    base = world.data.body_names.index("base")
    defaults = world.env.scene["robot"].default_properties
    ratio = world["masses"] / defaults["body_mass"][0]
    check_uniform(ratio[:, base].log(), math.log(0.8), math.log(1.25))
    others = [i for i in range(len(world.data.body_names)) if i != base]
    assert (ratio[:, others] == 1.0).all()
    scaled = defaults["body_inertia_b"][:1, base] * ratio[:, base, None, None]
    torch.testing.assert_close(world["inertias"][:, base], scaled)
    offset = world["coms"] - defaults["body_com_pos_b"][0]
    for axis, bound in enumerate((0.05, 0.05, 0.01)):
        check_uniform(offset[:, base, axis], -bound, bound)
    assert not offset[:, others].any()


def test_all_feet_share_their_grip(world):
    check_uniform(world["grips"][:, 0], *GRIP)
    assert (world["grips"] == world["grips"][:, :1]).all()


def test_joint_properties_one_by_one(world):
    defaults = world.env.scene["robot"].default_properties
    for name, bounds in GAINS.items():
        check_uniform(world[name] / defaults[f"joint_{name}"][0], *bounds)
    check_uniform(world["dry friction"], *DRY_FRICTION)
    check_uniform(world["armature"], *ARMATURE)


def test_wrenches_on_the_base_alone(world):
    base = world.data.body_names.index("base")
    check_uniform(world["wrenches"][:, base, :3], *FORCE)
    check_uniform(world["wrenches"][:, base, 3:], *TORQUE)
    assert world["wrenches"].count_nonzero() == 6 * N * RESETS


def test_commands(world):
    stands, follows = world["stands"], world["follows"]
    check_share(stands, STANDING)
    check_share(follows, FOLLOWING)
    assert not world["command"][stands].any()
    check_uniform(world["command"][~stands, :2], -1.0, 1.0)
    check_uniform(world["command"][~stands & ~follows, 2], -1.0, 1.0)
    check_uniform(world["heading"], -math.pi, math.pi)
    check_uniform(world["held"], *HELD)


def test_times_between_pushes(world):
    check_uniform(world["push timer"], 10.0, 15.0)


def test_observation_noise(world):
    for name, bound in NOISE.items():
        noise = world[f"noise {name}"]
        if bound:
            check_uniform(noise, -bound, bound)
        else:
            assert not noise.any(), name


# Independence and accumulation ----------------------------------------------------------------------------------------


def independent_columns(world: World) -> torch.Tensor:
    """All that should know nothing of each other, (RESETS, N, columns)."""
    base = world.data.body_names.index("base")
    samples = world.samples
    hips_and_thighs = [i for i, name in enumerate(world.data.joint_names) if "calf" not in name]
    columns = [
        samples["joint factor"][..., hips_and_thighs],
        *(samples[name] for name in ("stiffness", "damping", "dry friction", "armature", "velocity")),
        samples["place"][..., :2],
        samples["masses"][..., [base]],
        samples["coms"][..., base, :],
        samples["wrenches"][..., base, :],
        samples["grips"][..., :1],
        *(samples[name][..., None] for name in ("yaw", "heading", "held", "stands", "follows", "push timer")),
        *(samples[f"noise {name}"] for name, bound in NOISE.items() if bound),
    ]
    return torch.cat([column.double() for column in columns], dim=-1)


def correlation(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Correlation of every column of (samples, columns) with every column of the other."""
    a, b = ((x - x.mean(dim=0)) / x.std(dim=0) for x in (a, b))
    return a.T @ b / (len(a) - 1)


def test_draws_know_nothing_of_each_other(world):
    """Neither those of one reset, nor those of neighbouring environments, nor those of one reset after the other."""
    columns = independent_columns(world)
    width = columns.shape[-1]
    limit = 5.5 / math.sqrt(N * RESETS)
    flat = columns.flatten(0, 1)
    same_reset = correlation(flat, flat) - torch.eye(width)
    assert same_reset.abs().max() < limit
    for a, b in ((columns[:, :-1], columns[:, 1:]), (columns[:-1], columns[1:])):
        assert correlation(a.flatten(0, 1), b.flatten(0, 1)).abs().max() < 1.05 * limit


def test_every_draw_is_new(world):
    for name in ("stiffness", "velocity", "heading", "push timer"):
        values = world[name].reshape(N * RESETS, -1)[:, 0]
        assert values.unique().numel() > 0.98 * N * RESETS, name


def test_defaults_stay_and_draws_do_not_add_up(world):
    """The last resets draw from the range of the first."""
    base = world.data.body_names.index("base")
    late = {name: values[RESETS // 2 :].flatten(0, 1) for name, values in world.samples.items()}
    defaults = world.env.scene["robot"].default_properties
    check_uniform((late["masses"][:, base] / defaults["body_mass"][0, base]).log(), math.log(0.8), math.log(1.25))
    check_uniform(late["coms"][:, base, 0] - defaults["body_com_pos_b"][0, base, 0], -0.05, 0.05)
    check_uniform(late["stiffness"] / 25.0, *GAINS["stiffness"])
    check_uniform(late["grips"][:, 0], *GRIP)
    assert defaults["body_mass"][:, base].tolist() == pytest.approx([6.919] * N)
    assert (defaults["joint_stiffness"] == 25.0).all()


# Effect on the physics ------------------------------------------------------------------------------------------------


def test_the_engine_has_what_was_drawn(world):
    bodies = slice(1, 1 + len(world.data.body_names))
    joints = slice(6, None)
    for engine, buffer in (
        (world["engine body_mass"][:, bodies], "masses"),
        (world["engine body_ipos"][:, bodies], "coms"),
        (world["engine dof_frictionloss"][:, joints], "dry friction"),
        (world["engine dof_armature"][:, joints], "armature"),
    ):
        torch.testing.assert_close(engine, world[buffer], rtol=1e-6, atol=1e-7)
    sliding = world["engine geom_friction"][..., 0]
    assert (sliding[:, 0] == 1.0).all(), "the ground's"
    torch.testing.assert_close(sliding[:, 1:], world["grips"][:, :1].expand_as(sliding[:, 1:]))


def c_model(world: World, row: int) -> mujoco.MjModel:
    """C MuJoCo's model with the properties of one environment."""
    env, data = world.env, world.data
    model = copy.copy(env.physics.solver.inner.mj_model)
    model.opt.timestep = env.physics.dt / env.cfg.physics.substeps
    model.opt.tolerance, model.opt.ls_tolerance = 1e-10, 1e-6
    bodies = slice(1, 1 + len(data.body_names))
    model.body_mass[bodies] = data.body_mass[row]
    model.body_ipos[bodies] = data.body_com_pos_b[row]
    ratio = data.body_mass[row] / env.scene["robot"].default_properties["body_mass"][row]
    model.body_inertia[bodies] *= ratio[:, None].numpy()
    model.dof_armature[6:] = data.joint_armature[row]
    model.dof_frictionloss[6:] = data.joint_friction[row]
    model.geom_friction[1:, 0] = data.body_friction[row, 0]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def c_state(world: World, row: int, model: mujoco.MjModel) -> mujoco.MjData:
    data, state = world.data, mujoco.MjData(model)
    position, quat = data.root_link_pose_w[row].double().split([3, 4])
    linear, angular = data.root_com_vel_w[row].double().split(3)
    com = quat_apply(quat, data.body_com_pos_b[row, 0].double())
    state.qpos[:7] = torch.cat([position, quat[[3, 0, 1, 2]]])
    state.qpos[7:] = data.joint_pos[row]
    state.qvel[:3] = linear - torch.linalg.cross(angular, com)
    state.qvel[3:6] = quat_apply(quat * torch.tensor([-1.0, -1.0, -1.0, 1.0]), angular)
    state.qvel[6:] = data.joint_vel[row]
    base = data.body_names.index("base")
    state.xfrc_applied[1 + base] = data.body_wrench_w[row, base]
    return state


def effort_in(world: World, row: int, state: mujoco.MjData, target: torch.Tensor) -> torch.Tensor:
    data = world.data
    position, velocity = (torch.tensor(values, dtype=torch.float32) for values in (state.qpos[7:], state.qvel[6:]))
    effort = data.joint_stiffness[row] * (target - position) - data.joint_damping[row] * velocity
    limits = (data.joint_effort_limits[row], data.joint_saturation_efforts[row], data.joint_velocity_limits[row])
    return clip_to_motor_curve(effort, velocity, *limits)


def test_every_robot_moves_as_c_mujoco_says_of_its_properties(world):
    """A tenth of a second after a reset, on the ground; and each otherwise than with the properties of another."""
    env, data, rows, steps = world.env, world.data, (0, 17, 42), 60
    env.reset()
    pose = data.root_link_pose_w.clone()
    pose[:, 2] = 0.33
    env.scene["robot"].write_root_link_pose(pose)
    env.physics.forward()
    target = data.default_joint_pos[0]
    data.joint_pos_target.copy_(data.default_joint_pos)
    own = [c_model(world, row) for row in rows]
    others = [*own[1:], own[0]]
    worlds = [
        (row, model, c_state(world, row, model))
        for models in (own, others)
        for row, model in zip(rows, models, strict=True)
    ]
    for _ in range(steps):
        env.physics.step(1)
        for row, model, state in worlds:
            state.qfrc_applied[6:] = effort_in(world, row, state, target)
            mujoco.mj_step(model, state, env.cfg.physics.substeps)
    states = [state for _, _, state in worlds]
    for row, state, stranger in zip(rows, states[:3], states[3:], strict=True):
        found = torch.cat([data.root_link_pose_w[row, :3], data.joint_pos[row]]).numpy()
        expected, other = (np.concatenate([s.qpos[:3], s.qpos[7:]]) for s in (state, stranger))
        assert np.abs(found - expected).max() < 1e-3, row
        assert np.abs(found - other).max() > 5e-3, row


def test_a_push_changes_the_velocity_and_the_way(world):
    """It comes at the end of a step; from there the robot goes on with it."""
    env, data = world.env, world.data
    env.reset()
    action = torch.zeros(N, 12)
    term = env.event_manager.get_term_cfg("push_robot")
    saved = env.state_dict()
    travelled = []
    for pushed in (False, True):
        env.load_state_dict(saved)
        term.interval_range_s = (0.5 * env.step_dt,) * 2 if pushed else (10.0, 15.0)
        term.params = {"velocity_range": {"x": (-0.5, 0.5), "y": (0.25, 0.25)}}
        env.event_manager.set_term_cfg("push_robot", term)
        env.step(action)
        after = data.root_com_vel_w.clone()
        term.interval_range_s = (10.0, 15.0)
        env.event_manager.set_term_cfg("push_robot", term)
        before = data.root_link_pose_w[:, :3].clone()
        env.step(action)
        travelled.append((after, data.root_link_pose_w[:, :3] - before))
    (calm, calm_way), (kicked, kicked_way) = travelled
    kick = kicked - calm
    assert kick[:, 0].min() < -0.4 and kick[:, 0].max() > 0.4 and kick[:, 0].abs().max() <= 0.5 + 1e-5
    assert kick[:, 1].tolist() == pytest.approx([0.25] * N, abs=1e-5)
    assert kick[:, 2:].abs().max() < 1e-5
    torch.testing.assert_close(kicked_way[:, :2] - calm_way[:, :2], 0.02 * kick[:, :2], atol=2.5e-3, rtol=0.1)
