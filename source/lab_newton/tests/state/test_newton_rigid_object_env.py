"""A cube beside a robot in an environment: terms of both front ends, recordings, states, randomisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import h5py
import pytest
import torch

from lab_core import mdp
from lab_core.datasets import DatasetCfg, RecordedDataset
from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv, make_env
from lab_core.errors import ConfigError
from lab_core.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from lab_core.recorder import RecorderCfg, task_terms
from lab_core.rollouts import build_replay_env, replay_episodes
from lab_core.scene import BoxCfg, RigidObjectCfg, RootStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_warp.testing import assert_same_results, rollout, step_report

N = 4
CUBE = SceneEntityCfg("cube")
STILL = dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), (0.0, 0.0))
MakeCfg = Callable[..., ManagerBasedRLEnvCfg]


@pytest.fixture
def make_cfg(rover_cfg) -> MakeCfg:
    def call(spread: float = 0.0, **events: EventTermCfg) -> ManagerBasedRLEnvCfg:
        """Cubes that fall beside rovers, from places that differ by up to ``spread`` [m]."""
        cube = RigidObjectCfg(
            shape=BoxCfg(size=(0.2, 0.1, 0.1)),
            mass=0.5,
            init_state=RootStateCfg(pos=(0.8, 0.0, 0.4), lin_vel=(-1.0, 0.2, 0.0), ang_vel=(0.0, 3.0, 1.0)),
        )
        terms = (mdp.root_pos_w, mdp.root_quat_w, mdp.root_lin_vel_w, mdp.root_ang_vel_w, mdp.projected_gravity)
        of_cube = {func.__name__: ObservationTermCfg(func=func, params={"asset_cfg": CUBE}) for func in terms}
        ranges = {"pose_range": STILL | {"x": (-spread, spread), "y": (-spread, spread)}, "velocity_range": STILL}
        return ManagerBasedRLEnvCfg(
            seed=3,
            physics=NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=128, nconmax=48)),
            scene=SceneCfg(num_envs=N, entities={"cube": cube, "robot": rover_cfg}),
            decimation=4,
            episode_length_s=0.4,
            actions={"arm": mdp.JointPositionActionCfg(joint_names=("shoulder", "wrist"), scale=0.5)},
            observations={
                "policy": ObservationGroupCfg(
                    terms=of_cube | {"joint_pos": ObservationTermCfg(func=mdp.joint_pos_rel)},
                )
            },
            rewards={"height": RewardTermCfg(func=mdp.lin_vel_z_l2, weight=1.0, params={"asset_cfg": CUBE})},
            terminations={
                "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
                "lost": TerminationTermCfg(
                    func=mdp.root_height_below_minimum, params={"minimum_height": 0.06, "asset_cfg": CUBE}
                ),
            },
            events={
                "place": EventTermCfg(
                    func=mdp.reset_root_state_uniform, mode="reset", params=ranges | {"asset_cfg": CUBE}
                ),
                **events,
            },
        )

    return call


def event(func, **params) -> EventTermCfg:
    return EventTermCfg(func=func, mode="reset", params={"asset_cfg": CUBE, **params})


@pytest.fixture
def build() -> Iterator[Callable[[ManagerBasedRLEnvCfg, str], RLEnv]]:
    built = []

    def call(cfg: ManagerBasedRLEnvCfg, frontend: str) -> RLEnv:
        built.append(make_env(cfg, "cpu", frontend))
        return built[-1]

    yield call
    for env in built:
        env.close()


def test_both_front_ends_step_it_alike_in_one_graph(make_cfg, build):
    torch_env, warp_env = (build(make_cfg(), frontend) for frontend in ("torch", "warp"))
    results = []
    for env in (torch_env, warp_env):
        env.reset(seed=0)
        results.append(rollout(env, 30))
    ended = 0
    for one, other in zip(*results, strict=True):
        for name in ("obs.policy", "reward", "terminated", "truncated"):
            torch.testing.assert_close(one[name], other[name], atol=1e-6, rtol=1e-6)
        ended += int((one["terminated"] | one["truncated"]).sum())
    assert ended >= N, "resets are compared as well"
    assert step_report(warp_env).num_graphs == 1


def test_captured_steps_equal_eager_ones_with_all_that_is_drawn(make_cfg, build, monkeypatch):
    cfg = make_cfg(
        0.1,
        mass=event(mdp.randomize_rigid_body_mass, mass_distribution_params=(0.5, 1.5), operation="scale"),
        friction=event(mdp.randomize_rigid_body_material, friction_range=(1.0, 1.3)),
    )
    captured = build(cfg, "warp")
    captured.reset(seed=0)
    results = rollout(captured, 25)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = build(cfg, "warp")
    eager.reset(seed=0)
    assert_same_results(results, rollout(eager, 25))


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_randomisation_and_resets_act_by_mask(make_cfg, build, frontend):
    env = build(
        make_cfg(
            0.1,
            mass=event(mdp.randomize_rigid_body_mass, mass_distribution_params=(0.5, 1.5), operation="scale"),
            com=event(mdp.randomize_rigid_body_com, com_range={"z": (-0.01, 0.01)}),
            friction=event(mdp.randomize_rigid_body_material, friction_range=(1.0, 1.3)),
            wind=event(mdp.apply_external_force_torque, force_range=(-0.1, 0.1), torque_range=(0.0, 0.0)),
            push=EventTermCfg(
                func=mdp.push_by_setting_velocity,
                mode="interval",
                interval_range_s=(0.1, 0.1),
                params={"velocity_range": {"z": (0.5, 0.5)}, "asset_cfg": CUBE},
            ),
        ),
        frontend,
    )
    env.reset(seed=0)
    data = env.scene["cube"].data
    assert ((data.body_mass > 0.25) & (data.body_mass < 0.75)).all() and data.body_mass.unique().numel() == N
    torch.testing.assert_close(data.body_inertia_b[:, 0, 0, 0], data.body_mass[:, 0] * 0.02 / 12.0)
    assert data.body_friction.unique().numel() == N and (data.body_friction >= 1.0).all()
    place = data.root_link_pose_w[:, :2] - env.scene.env_origins[:, :2] - torch.tensor([0.8, 0.0])
    assert place.abs().max() <= 0.1 and place[:, 0].unique().numel() == N
    kept = ("body_mass", "body_friction", "root_link_pose_w", "root_com_vel_w")
    before = {name: getattr(data, name).clone() for name in kept}
    env.reset(mask=[1])
    for name, value in before.items():
        assert torch.equal(getattr(data, name)[[0, 2, 3]], value[[0, 2, 3]]), name
    assert not torch.equal(data.body_mass[1], before["body_mass"][1])
    assert not torch.equal(data.root_link_pose_w[1], before["root_link_pose_w"][1])
    rollout(env, 8)
    assert env.health().ok


@pytest.mark.parametrize("frontend", ["torch", "warp"])
@pytest.mark.parametrize(
    ("func", "params"),
    [
        (mdp.randomize_joint_parameters, {"armature_distribution_params": (0.0, 0.1)}),
        (mdp.randomize_actuator_gains, {"stiffness_distribution_params": (0.0, 0.1)}),
        (mdp.reset_joints_by_offset, {"position_range": (0.0, 0.1), "velocity_range": (0.0, 0.0)}),
    ],
)
def test_events_of_joints_are_refused_by_name(make_cfg, build, frontend, func, params):
    with pytest.raises(ConfigError, match="Entity 'cube' is of the kind 'rigid_object', which has no joints"):
        build(make_cfg(joints=event(func, **params)), frontend).reset()


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_recordings_hold_it_and_repeat_bit_for_bit(make_cfg, build, tmp_path, frontend):
    cfg = make_cfg(
        0.1, mass=event(mdp.randomize_rigid_body_mass, mass_distribution_params=(0.5, 1.5), operation="scale")
    )
    cfg.recorder = RecorderCfg(terms=task_terms(cfg), dataset=DatasetCfg(folder=tmp_path))
    env = build(cfg, frontend)
    rollout(env, 30)
    env.close()
    dataset = RecordedDataset(tmp_path)
    with h5py.File(next(tmp_path.glob("*.hdf5"))) as file:
        group = file["data/demo_0/states/rigid_object/cube"]
        assert {name: array.shape[1:] for name, array in group.items()} == {"root_pose": (7,), "root_velocity": (6,)}
        assert set(file["data/demo_0/states/articulation/robot"]) == {
            "root_pose", "root_velocity", "joint_position", "joint_velocity"
        }  # fmt: skip
    again = build_replay_env(dataset, 3)
    again.reset(seed=77)
    report = replay_episodes(dataset, again, range(len(dataset)), tolerance=0.0)
    again.close()
    assert report.ok, report.mismatches[0]
    assert report.episodes == len(dataset) >= N


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_state_is_returned_to_and_a_checkpoint_continues(make_cfg, build, frontend):
    env = build(make_cfg(0.1), frontend)
    env.reset(seed=0)
    rollout(env, 5)
    state, saved = env.scene.get_state(is_relative=True), env.state_dict()
    expected = rollout(env, 8)
    env.load_state_dict(saved)
    assert_same_results(rollout(env, 8), expected)
    mask = torch.tensor([True, False, True, False])
    other = env.scene["cube"].data.root_link_pose_w[1].clone()
    env.reset_to(state, mask, is_relative=True)
    found = env.scene.get_state(is_relative=True)["rigid_object"]["cube"]
    for key, value in state["rigid_object"]["cube"].items():
        assert torch.equal(found[key][mask], value[mask])
    assert torch.equal(env.scene["cube"].data.root_link_pose_w[1], other)


def turning(cfg: ManagerBasedRLEnvCfg, tolerance: float = 2.2) -> ManagerBasedRLEnvCfg:
    """The terms of handling objects, of which a cube in the air is enough to reach goals."""
    goal = {"command_name": "goal", "asset_cfg": CUBE}
    cfg.actions = {
        "arm": mdp.EMAJointPositionToLimitsActionCfg(joint_names=("shoulder", "wrist"), alpha={"wrist": 0.3})
    }
    cfg.commands = {"goal": mdp.OrientationGoalCommandCfg(asset_name="cube", tolerance=tolerance)}
    cfg.observations["policy"].terms |= {
        "goal": ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "goal"}),
        "to_goal": ObservationTermCfg(func=mdp.goal_quat_diff, params=goal),
        "body_pos": ObservationTermCfg(func=mdp.body_pos_w),
        "body_quat": ObservationTermCfg(func=mdp.body_quat_w),
        "body_vel": ObservationTermCfg(func=mdp.body_vel_w, params={"asset_cfg": CUBE}),
    }
    cfg.rewards = {
        "track_orientation": RewardTermCfg(func=mdp.track_orientation_inv_l2, weight=1.0, params=goal),
        "success": RewardTermCfg(func=mdp.success_bonus, weight=250.0, params=goal),
        "track_pos": RewardTermCfg(func=mdp.track_pos_l2, weight=-10.0, params=goal),
    }
    cfg.terminations["lost"] = TerminationTermCfg(
        func=mdp.object_away_from_goal, params={"threshold": 0.5, "command_name": "goal", "asset_cfg": CUBE}
    )
    cfg.events = {
        "joints": EventTermCfg(func=mdp.reset_joints_within_limits, mode="reset"),
        "place": event(
            mdp.reset_root_state_with_random_orientation, pose_range={"x": (-0.01, 0.01)}, velocity_range={}
        ),
    }
    return cfg


def test_the_terms_of_handling_objects_run_in_one_graph_that_equals_eager_steps(make_cfg, build, monkeypatch):
    captured = build(turning(make_cfg()), "warp")
    captured.reset(seed=0)
    results = rollout(captured, 40)
    assert step_report(captured).num_graphs == 1 and not step_report(captured).islands
    assert len(captured.command_manager.get_term("goal").ghosts()) == 1
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = build(turning(make_cfg()), "warp")
    eager.reset(seed=0)
    assert_same_results(results, rollout(eager, 40))


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_goals_are_counted_once_each_and_drawn_where_they_are_reached(make_cfg, build, frontend):
    """What the metrics say at the end of an episode is what its rewards paid for; nothing is paid behind a reset."""
    env = build(turning(make_cfg()), frontend)
    env.reset(seed=1)
    goals, episodes = torch.zeros(N), 0
    name = "Metrics/goal/consecutive_success"
    paid_for = 0.0
    for _ in range(60):
        before = env.command_manager.get_command("goal").clone()
        *_, extras = env.step(torch.zeros(N, 2))
        rewards = env.reward_manager
        reached = rewards.step_reward[:, rewards.term_names.index("success")] > 0.0
        goals += reached
        ended = env.reset_buf.clone()
        new = (env.command_manager.get_command("goal") != before).any(dim=1)
        assert new[reached | ended].all()
        if ended.any():
            expected = float(goals[ended].mean())
            assert float(extras["log"][name]) == pytest.approx(expected, abs=1e-5)
            paid_for += float(goals[ended].sum())
            goals[ended] = 0.0
            episodes += int(ended.sum())
    assert episodes >= N and paid_for > 0.0


def test_both_front_ends_agree_on_what_handling_objects_is_worth(make_cfg, build):
    """From equal states and goals, with no draw between them."""
    cfg = turning(make_cfg(), tolerance=0.0)
    cfg.events, cfg.terminations = {}, {}
    envs = [build(cfg, frontend) for frontend in ("torch", "warp")]
    for env in envs:
        env.reset(seed=0)
    envs[1].command_manager.get_term("goal").command.copy_(envs[0].command_manager.get_term("goal").command)
    for one, other in zip(*(rollout(env, 15) for env in envs), strict=True):
        torch.testing.assert_close(one["obs.policy"], other["obs.policy"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(one["reward"], other["reward"], atol=1e-5, rtol=1e-5)
