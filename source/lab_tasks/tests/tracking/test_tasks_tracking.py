"""The tracking task in Newton: what it shows, how it pairs frames with states, where episodes begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv, make_env
from lab_core.imagination import ArticulationState, Imagination
from lab_core.math import com_lin_vel_from_link, quat_apply, quat_box_plus, quat_from_euler_xyz, quat_mul
from lab_core.names import UnknownNameError
from lab_tasks.motions import MotionError
from lab_tasks.tracking import rewards
from lab_tasks.tracking.g1 import KEY_BODIES, g1_env_cfg
from lab_tasks.tracking.motion_command import MotionCommand, load_clips

N = 8
STAND, WALK = range(2)
FIELDS = tuple(ArticulationState.__dataclass_fields__)


@pytest.fixture(scope="module")
def env() -> Iterator[ManagerBasedRLEnv]:
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = N, 1, 0.6
    cfg.commands["motion"].clips = ("stand", "slow_walk")
    cfg.events["push_robot"].interval_range_s = (0.1, 0.3)
    env = cfg.build()
    env.reset()
    yield env
    env.close()


def command_of(env: ManagerBasedRLEnv) -> MotionCommand:
    command = env.command_manager.get_term("motion")
    assert isinstance(command, MotionCommand)
    return command


def put_on_motion(env: ManagerBasedRLEnv, clip: int, frame: int) -> None:
    """Shows a frame, and puts all robots exactly where the motion has them in it."""
    command, robot = command_of(env), env.scene["robot"]
    command.start_at(torch.ones(N, dtype=torch.bool), clip, frame)
    root, (lin, ang) = command.target.root_pose.clone(), command.target.root_vel.split(3, dim=1)
    lin = com_lin_vel_from_link(lin, ang, root[:, 3:], robot.data.body_com_pos_b[:, 0])
    root[:, :3] += env.scene.env_origins
    robot.write_root_link_pose(root)
    robot.write_root_com_velocity(torch.cat((lin, ang), dim=1))
    robot.write_joint_state(command.target.joint_pos, command.target.joint_vel)
    env.physics.forward()


def walk_randomly(env: ManagerBasedRLEnv, steps: int, at_end: Callable[[], None], std: float = 0.5) -> None:
    """Makes random steps and calls ``at_end`` when the rewards of each are there, before any reset."""
    generator = torch.Generator().manual_seed(0)

    def mark(stage: str) -> None:
        if stage == "rewards":
            at_end()

    for _ in range(steps):
        with env.mark_stages(mark):
            env.step(std * torch.randn(N, 29, generator=generator))


def test_a_robot_on_the_motion_gets_the_whole_reward_and_none_fails(env):
    for clip, frame in ((STAND, 0), (WALK, 123), (WALK, 300)):
        put_on_motion(env, clip, frame)
        for name in env.reward_manager.term_names:
            if name.startswith("motion_"):
                value = env.reward_manager.call_for(name, env)
                torch.testing.assert_close(value, torch.ones(N), atol=1e-5, rtol=0.0, msg=lambda text, n=name: n + text)
        for name in ("anchor_height", "anchor_tilt", "body_heights"):
            assert not env.termination_manager.call_for(name, env).any(), name


def test_bodies_of_the_motion_are_those_of_the_simulation(env):
    put_on_motion(env, WALK, 200)
    command, data = command_of(env), env.scene["robot"].data
    assert command.keys.names == KEY_BODIES
    pose = data.body_link_pose_w[:, command.keys.ids]
    torch.testing.assert_close(
        command.target.body_pos, pose[..., :3] - env.scene.env_origins[:, None], atol=1e-5, rtol=0
    )
    turn = (command.target.body_quat * pose[..., 3:]).sum(dim=-1).abs()
    torch.testing.assert_close(turn, torch.ones_like(turn), atol=1e-5, rtol=0.0)


def test_observations_in_their_order(env):
    put_on_motion(env, WALK, 50)
    manager, target = env.observation_manager, command_of(env).target
    policy = torch.cat([manager.call_for(name, env) for name in manager.group_terms("policy")], dim=1)
    assert env.observation_manager.group_obs_dim == {"policy": (160,), "critic": (286,)}
    torch.testing.assert_close(policy[:, :58], torch.cat((target.joint_pos, target.joint_vel), dim=1))
    torch.testing.assert_close(policy[:, 58:61], torch.zeros(N, 3), atol=1e-5, rtol=0.0)
    unturned = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]).expand(N, 6)  # row by row of a 3 x 2 matrix
    torch.testing.assert_close(policy[:, 61:67], unturned, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(policy[:, 67:70], env.scene["robot"].data.root_link_lin_vel_b)
    critic = torch.cat([manager.call_for(name, env) for name in manager.group_terms("critic")], dim=1)
    torch.testing.assert_close(critic[:, :67], policy[:, :67])
    torch.testing.assert_close(critic[:, 67 + 126 :], policy[:, 67:])
    anchor = 7
    torch.testing.assert_close(critic[:, 67 + 3 * anchor : 70 + 3 * anchor], torch.zeros(N, 3), atol=1e-6, rtol=0.0)


def test_observations_do_not_depend_on_place_and_heading(env):
    """S6: the robot and the motion moved and turned together; a robot alone that moves does show."""
    manager, robot, target = env.observation_manager, env.scene["robot"], command_of(env).target
    turn = quat_from_euler_xyz(*torch.tensor([0.0, 0.0, 2.0]).expand(N, 3).unbind(dim=1))
    shift = torch.tensor([3.0, -2.0, 0.0])

    def observed() -> torch.Tensor:
        return torch.cat([manager.call_for(name, env) for name in manager.group_terms("critic")], dim=1)

    def move_robot() -> None:
        pose, velocity, origins = robot.data.root_link_pose_w, robot.data.root_com_vel_w, env.scene.env_origins
        pos = quat_apply(turn, pose[:, :3] - origins) + shift + origins
        robot.write_root_link_pose(torch.cat((pos, quat_mul(turn, pose[:, 3:])), dim=1))
        robot.write_root_com_velocity(quat_apply(turn.unsqueeze(1), velocity.unflatten(1, (2, 3))).flatten(1))
        env.physics.forward()

    put_on_motion(env, WALK, 50)
    robot.write_joint_state(robot.data.joint_pos + 0.1, robot.data.joint_vel + 0.2)
    env.physics.forward()
    first = observed()
    move_robot()
    moved = (observed() - first).abs().amax(dim=0) > 1e-3
    assert moved[58:67].all() and not moved[:58].any() and not moved[67:].any()
    turns = turn.unsqueeze(1).expand_as(target.body_quat)
    target.body_pos.copy_(quat_apply(turns, target.body_pos) + shift)
    target.body_quat.copy_(quat_mul(turns, target.body_quat))
    torch.testing.assert_close(observed(), first, atol=1e-5, rtol=1e-5)
    env.reset()


def test_imagined_values_are_those_of_the_managers(env):
    """S1, on the ends of random steps with resets, disturbances and randomised properties in between."""
    imagination = Imagination(env, without_rewards="self_collision")
    manager, ended = env.reward_manager, [0]

    def compare() -> None:
        command, actions = command_of(env), env.action_manager
        view = imagination.view(
            {"robot": ArticulationState.read(env.scene["robot"].data)}, torch.arange(N), action=actions.action,
            prev_action=actions.prev_action, commands={"motion": command.reference(command.clip, command.frame)},
            episode_length=env.episode_length_buf,
        )  # fmt: skip
        for name, value in imagination.reward_terms(view).items():
            own = manager.step_reward[:, manager.term_names.index(name)]
            torch.testing.assert_close(value, own, atol=1e-4, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
        for name in imagination.termination_names:
            assert torch.equal(view.termination_manager.get_term(name), env.termination_manager.get_term(name)), name
        terms = env.observation_manager.group_terms("critic")
        own = torch.cat([env.observation_manager.call_for(name, env) for name in terms], dim=-1)
        torch.testing.assert_close(imagination.observe(view, "critic"), own, atol=1e-4, rtol=0.0)
        made = env.action_manager.get_term("joint_pos").processed_for(view, actions.action)
        torch.testing.assert_close(made, env.action_manager.get_term("joint_pos").processed_actions)
        ended[0] += int(env.reset_buf.sum())

    walk_randomly(env, 125, compare)
    assert ended[0] > 2 * N


def test_gradients_are_finite_and_nothing_pulls_on_the_motion(env):
    """S5: on the motion itself, where the usual formulas of angles give NaN."""
    imagination = Imagination(env, without_rewards="self_collision")
    names = [name for name in imagination.reward_names if name.startswith("motion_")]
    put_on_motion(env, WALK, 200)
    command, rows = command_of(env), torch.arange(N)
    state = ArticulationState.read(env.scene["robot"].data)

    def gradients(moved: float) -> dict[str, float]:
        values = {name: getattr(state, name).double() for name in FIELDS}
        values["joint_pos"] = values["joint_pos"] + moved
        inputs = {name: value.requires_grad_() for name, value in values.items()}
        zeros = torch.zeros(N, 29, dtype=torch.float64)
        view = imagination.view(
            {"robot": ArticulationState(**inputs)}, rows, action=zeros, prev_action=zeros,
            commands={"motion": command.reference(command.clip, command.frame)},
        )  # fmt: skip
        terms, sizes = imagination.reward_terms(view), {}
        for name in names:
            found = torch.autograd.grad(terms[name].sum(), list(inputs.values()), retain_graph=True, allow_unused=True)
            given = [gradient for gradient in found if gradient is not None]
            assert all(gradient.isfinite().all() for gradient in given), name
            sizes[name] = max(float(gradient.abs().max()) for gradient in given)
        return sizes

    still, moved = gradients(0.0), gradients(0.1)
    for name in names:
        assert still[name] <= 1e-3 * moved[name], (name, still[name], moved[name])


@pytest.mark.parametrize("turned", [0.0, 1e-8, 0.1, 3.1])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_of_rewards_are_those_of_their_values(env, turned, sign):
    """S4: against central differences, along a direction of all parts of the state."""
    imagination = Imagination(env, without_rewards="self_collision")
    names = [name for name in imagination.reward_names if name.startswith("motion_")]
    put_on_motion(env, WALK, 200)
    command, rows, zeros = command_of(env), torch.arange(N), torch.zeros(N, 29, dtype=torch.float64)
    state, generator = ArticulationState.read(env.scene["robot"].data), torch.Generator().manual_seed(0)
    start = {name: getattr(state, name).double() for name in FIELDS}
    axis = torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64).expand(N, 3)
    quat = quat_box_plus(start["root_link_pose_w"][:, 3:], turned * axis)
    start["root_link_pose_w"] = torch.cat((start["root_link_pose_w"][:, :3], sign * quat), dim=1)
    ways = {name: torch.randn(part.shape, generator=generator, dtype=torch.float64) for name, part in start.items()}
    spin = ways["root_link_pose_w"][:, 3:6]

    def rewards_at(step: torch.Tensor) -> torch.Tensor:
        moved = {name: start[name] + step * ways[name] for name in FIELDS}
        pose = start["root_link_pose_w"]
        turn = quat_box_plus(pose[:, 3:], step * spin)
        moved["root_link_pose_w"] = torch.cat((moved["root_link_pose_w"][:, :3], turn), dim=1)
        view = imagination.view(
            {"robot": ArticulationState(**moved)}, rows, action=zeros, prev_action=zeros,
            commands={"motion": command.reference(command.clip, command.frame)},
        )  # fmt: skip
        terms = imagination.reward_terms(view)
        return torch.stack([terms[name].sum() for name in names])

    at = torch.zeros((), dtype=torch.float64)
    found = torch.autograd.functional.jacobian(rewards_at, at)
    size = torch.tensor(1e-5, dtype=torch.float64)
    wanted = (rewards_at(at + size) - rewards_at(at - size)) / (2.0 * size)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_step_is_rewarded_by_the_frame_that_was_shown(env):
    """S2: after automatic and explicit resets alike."""
    command = command_of(env)
    env.reset()
    stamps: list[torch.Tensor] = []
    walk_randomly(env, 40, lambda: stamps.append(command.target.joint_pos.clone()))
    env.reset()
    shown = env.observation_manager.call_for("policy/motion_joints", env)[:, :29].clone()
    for action in torch.zeros(40, N, 29):
        used: list[torch.Tensor] = []
        with env.mark_stages(
            lambda stage, used=used: used.append(command.target.joint_pos.clone()) if stage == "rewards" else None
        ):
            env.step(action)
        assert torch.equal(used[0], shown)
        shown = env.observation_manager.call_for("policy/motion_joints", env)[:, :29].clone()


def test_resets_put_the_robot_where_the_command_starts(env):
    env.reset()
    command, data = command_of(env), env.scene["robot"].data
    joints = (data.joint_pos - command.target.joint_pos).abs()
    assert joints.max() <= 0.1001 and joints.max() > 0.01
    torch.testing.assert_close(data.joint_vel, command.target.joint_vel)
    offset = data.root_link_pose_w[:, :3] - env.scene.env_origins - command.target.root_pose[:, :3]
    assert (offset.abs() <= torch.tensor([0.0501, 0.0501, 0.0101])).all()
    assert len(command.frame.unique()) > 2


def test_a_given_state_stays(env):
    env.reset()
    state = env.scene.get_state()
    state = {kind: {name: {k: v.clone() for k, v in s.items()} for name, s in of.items()} for kind, of in state.items()}
    env.step(torch.zeros(N, 29))
    env.reset_to(state)
    data = env.scene["robot"].data
    torch.testing.assert_close(data.joint_pos, state["articulation"]["robot"]["joint_position"])
    torch.testing.assert_close(data.root_link_pose_w, state["articulation"]["robot"]["root_pose"])


def test_a_clip_ends_as_a_time_out_and_nothing_jumps(env):
    """D8, and frames of the other clip are never read (D7)."""
    command = command_of(env)
    last = int(command.clip_lengths[STAND]) - 1
    rows = command._rows.clone()
    command._rows[last + 1 :] = torch.nan
    try:
        env.reset()
        put_on_motion(env, STAND, last - 1)
        assert torch.equal(command.next_reference().command, command._rows[last, :58].expand(N, 58))
        env.step(torch.zeros(N, 29))
        assert not env.reset_buf.any() and (command.frame == last).all()
        assert not command.next_reference().command.isnan().any()
        seen: list[torch.Tensor] = []
        with env.mark_stages(lambda stage: seen.append(command.frame.clone()) if stage == "rewards" else None):
            _, reward, terminated, truncated, extras = env.step(torch.zeros(N, 29))
        assert truncated.all() and not terminated.any() and (seen[0] == last).all()
        assert torch.equal(extras["final_obs"]["policy"][:, :58], command._rows[last, :58].expand(N, 58))
        assert reward.isfinite().all()
    finally:
        command._rows.copy_(rows)
        env.reset()


def test_default_positions_move_actions_and_observations_alike(env):
    """T4; what is exported starts from the configuration, as the draws do."""
    data, term = env.scene["robot"].data, env.action_manager.get_term("joint_pos")
    put_on_motion(env, STAND, 0)
    nominal = term._nominal
    shift = data.default_joint_pos - nominal
    assert 0.005 < shift.abs().max() <= 0.0101
    term.process_actions(torch.zeros(N, 29))
    torch.testing.assert_close(term.processed_actions, command_of(env).target.joint_pos + shift)
    seen = env.observation_manager.call_for("policy/joint_pos", env)
    torch.testing.assert_close(seen, data.joint_pos - nominal - shift)
    cfg = term.cfg
    try:
        term.set_cfg(replace(cfg, use_default_offset=True))
        term.process_actions(torch.zeros(N, 29))
        torch.testing.assert_close(term.processed_actions, data.default_joint_pos)
    finally:
        term.set_cfg(cfg)


def test_pushes_add_to_the_velocity(env):
    """T3."""
    put_on_motion(env, WALK, 100)
    robot = env.scene["robot"]
    before = robot.data.root_com_vel_w.clone()
    mdp.push_by_setting_velocity(env, torch.ones(N, dtype=torch.bool), {"x": (0.3, 0.3), "yaw": (-0.2, -0.2)})
    added = torch.tensor([0.3, 0.0, 0.0, 0.0, 0.0, -0.2])
    torch.testing.assert_close(robot.data.root_com_vel_w, before + added)
    env.reset()


def test_touching_oneself_costs_and_standing_does_not(env):
    put_on_motion(env, STAND, 0)
    column = env.reward_manager.term_names.index("self_collision")
    env.step(torch.zeros(N, 29))
    assert not env.reward_manager.step_reward[:, column].any()
    put_on_motion(env, STAND, 0)
    robot = env.scene["robot"]
    joints = robot.data.joint_pos.clone()
    joints[:4, robot.find_joints("left_shoulder_roll_joint")] = -1.0  # the arm is in the trunk
    robot.write_joint_state(joints, torch.zeros(N, 29))
    env.physics.forward()
    env.step(torch.zeros(N, 29))
    assert env.reward_manager.step_reward[:, column].tolist() == [-40.0] * 4 + [0.0] * 4
    env.reset()


def test_touches_of_every_physics_step_count(env):
    """Also those that are over before the step ends; several bodies at once count as one."""
    params = env.reward_manager.get_term_cfg("self_collision").params
    history = env.scene.sensor("self_contact").force_matrix_w_history
    kept, history[:] = history.clone(), 0.0
    assert history.shape == (N, env.cfg.decimation, 30, 1, 3)
    history[1, 3, 5, 0, 2] = 11.0
    history[2, 1:3, 7:9, 0, 0] = -20.0
    history[3, :, 4, 0] = 5.0  # below the threshold
    assert rewards.self_collision(env, **params).tolist() == [0.0, 0.25, 0.5] + [0.0] * (N - 3)
    history.copy_(kept)


def test_the_sampler_hears_of_every_step(env):
    command = command_of(env)
    before = float(command.sampler.visits.sum())
    walk_randomly(env, 10, lambda: None)
    assert float(command.sampler.visits.sum()) - before == pytest.approx(10 * N / 50)
    assert (command.score() <= 1.0).all()


def test_clips_that_are_not_there_are_named():
    with pytest.raises(MotionError, match="fly"):
        load_clips(("fly",))
    with pytest.raises(MotionError, match="nowhere.npz"):
        load_clips(("nowhere.npz",))
    cfg = g1_env_cfg()
    cfg.commands["motion"].body_names = ("pelvis", "torso_link", "tail")
    with pytest.raises((UnknownNameError, ValueError), match="tail"):
        cfg.scene.num_envs = 1
        cfg.commands["motion"].clips = ("stand",)
        cfg.build()


def test_robots_that_fall_leave_half_of_the_solver_empty():
    """Also where no episode ends early."""
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.terminations = N, 2, {"time_out": cfg.terminations["time_out"]}
    falling = make_env(cfg, "cpu", "warp")
    solved = falling.physics.solver.inner.mjw_data
    generator, rows, contacts = torch.Generator().manual_seed(0), 0, 0
    for _ in range(100):
        falling.step(2.0 * torch.randn(N, 29, generator=generator))
        rows, contacts = max(rows, solved.nefc.numpy().max()), max(contacts, solved.nacon.numpy()[0] / N)
    assert (falling.scene["robot"].data.root_link_pose_w[:, 2] < 0.5).any()
    assert falling.health().ok
    assert 25 < rows <= cfg.physics.solver.njmax / 2 and contacts <= cfg.physics.solver.nconmax / 2
    falling.close()
