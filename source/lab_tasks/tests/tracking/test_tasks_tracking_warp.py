"""The tracking task in the Warp front end: what the torch front end computes, from the same start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
import warp as wp
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core.envs import make_env
from lab_core.math import quat_apply, quat_box_plus
from lab_tasks.tracking import events, observations, rewards, terminations
from lab_tasks.tracking.g1 import g1_env_cfg
from lab_tasks.tracking.motion_command_warp import MotionCommandWarp
from lab_warp.testing import check_signature, twins_in
from lab_warp.twins import find_twin

N = 4


def make(frontend: str, play: bool):
    cfg = g1_env_cfg(play=play)
    cfg.scene.num_envs, cfg.seed = N, 5
    cfg.commands["motion"].clips = ("stand", "slow_walk")
    if play:
        cfg.events["reset_to_motion"].params["clips_in_turn"] = True
    return make_env(cfg, "cpu", frontend)


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[dict]:
    envs = {frontend: make(frontend, play=True) for frontend in ("torch", "warp")}
    yield envs
    for env in envs.values():
        env.close()


@pytest.mark.parametrize("around_default", [False, True])
def test_both_front_ends_do_the_same(undisturbed, around_default):
    for env in undisturbed.values():
        term = env.action_manager.get_term("joint_pos")
        cfg = env.action_manager.get_term_cfg("joint_pos")
        cfg.use_default_offset = around_default
        env.action_manager.set_term_cfg("joint_pos", cfg)
        assert term.cfg.use_default_offset == around_default
        env.reset()
    actions = 0.2 * torch.randn(80, N, 29, generator=torch.Generator().manual_seed(0))
    ended = 0
    for step, action in enumerate(actions):
        found = {name: env.step(action) for name, env in undisturbed.items()}
        wanted, warp = found["torch"], found["warp"]
        for group in ("policy", "critic"):
            torch.testing.assert_close(warp[0][group], wanted[0][group], atol=2e-3, rtol=1e-3)
        torch.testing.assert_close(warp[1], wanted[1], atol=1e-4, rtol=1e-3)
        assert torch.equal(warp[2], wanted[2]) and torch.equal(warp[3], wanted[3]), step
        ended += int(wanted[2].sum())
        if ended:
            break  # from here on small differences have grown
    assert ended
    commands = [env.command_manager.get_term("motion") for env in undisturbed.values()]
    assert torch.equal(commands[0].frame, commands[1].frame) and torch.equal(commands[0].clip, commands[1].clip)
    torch.testing.assert_close(commands[0].sampler.returns, commands[1].sampler.returns, atol=1e-4, rtol=1e-3)


def test_resets_draw_clips_and_frames_by_the_sampler():
    env = make("warp", play=False)
    command, robot = env.command_manager.get_term("motion"), env.scene["robot"].data
    assert isinstance(command, MotionCommandWarp)
    probabilities, drawn = command.sampler.probabilities(), torch.zeros(command.sampler.num_bins)
    for _ in range(150):
        env.reset()
        drawn += torch.bincount(command.sampler.bins(command.clip, command.frame), minlength=len(drawn))
        joints = (robot.joint_pos - command.target.joint_pos).abs()
        assert joints.max() <= 0.1001 and (joints > 0.01).any()
        offset = robot.root_link_pose_w[:, :3] - env.scene.env_origins - command.target.root_pose[:, :3]
        assert (offset.abs() <= torch.tensor([0.0501, 0.0501, 0.0101])).all()
        torch.testing.assert_close(robot.joint_vel, command.target.joint_vel)
    assert (drawn / drawn.sum() - probabilities).abs().max() < 0.05 and (drawn > 0).all()
    assert (command.frame < command.clip_lengths[command.clip] - 10).all()
    env.close()


def test_a_step_is_one_graph():
    env = make("warp", play=False)
    env.reset()
    for _ in range(30):
        env.step(torch.randn(N, 29))
    (report,) = (report for report in env.capture_report() if report.stage.endswith("._step"))
    assert (report.num_graphs, report.num_captures, report.islands) == (1, 1, ())
    env.close()


def own_terms(env) -> list[tuple[str, Callable, dict]]:
    managers = (env.reward_manager, env.termination_manager)
    terms = [(name, manager.get_term_cfg(name)) for manager in managers for name in manager.term_names]
    found = [(name, cfg.func, cfg.params) for name, cfg in terms if cfg.func.__module__.startswith("lab_tasks.")]
    return found


@pytest.mark.parametrize("scale", [0.0, 0.02, 0.6])
def test_rewards_and_terminations_are_those_of_torch(undisturbed, scale):
    """On the motion itself, near it and far from it, for the same buffers."""
    env = undisturbed["warp"]
    env.reset()
    robot, command = env.scene["robot"].data, env.command_manager.get_term("motion")
    generator = torch.Generator().manual_seed(1)
    seen = set()
    for _ in range(20):
        ids, origins = command.keys.ids, env.scene.env_origins[:, None]
        pos, quat = command.target.body_pos, command.target.body_quat
        quat = quat_box_plus(quat, scale * torch.randn(*quat.shape[:2], 3, generator=generator))
        pos = pos + origins + scale * torch.randn(pos.shape, generator=generator)
        robot.body_link_pose_w[:, ids] = torch.cat((pos, quat), dim=-1)
        com = quat_apply(quat, robot.body_com_pos_b[:, ids])
        ang = command.target.body_ang_vel + 10.0 * scale * torch.randn(pos.shape, generator=generator)
        lin = command.target.body_lin_vel + 3.0 * scale * torch.randn(pos.shape, generator=generator)
        robot.body_com_vel_w[:, ids] = torch.cat((lin + torch.linalg.cross(ang, com), ang), dim=-1)
        touch = env.scene.sensor("self_contact").force_matrix_w_history
        touch.copy_(3.0 * torch.randn(touch.shape, generator=generator))
        for name, func, params in own_terms(env):
            wanted = func(env, **params)
            found = torch.full_like(wanted, False if wanted.dtype == torch.bool else float("nan"))
            twin = find_twin(func)
            assert twin is not None, name
            twin(env, wp.from_torch(found), **params)
            torch.testing.assert_close(found, wanted, rtol=2e-6, atol=2e-6, msg=lambda text, at=name: f"{at}: {text}")
            seen.update((name, float(value)) for value in wanted)
            if scale == 0.0 and name.startswith("motion_"):
                torch.testing.assert_close(wanted, torch.ones(N), rtol=0.0, atol=1e-4)
    names = {name for name, _, _ in own_terms(env)}
    assert len(names) == 10
    if scale == 0.6:
        assert all(len([value for at, value in seen if at == name]) > 1 for name in names), seen


@pytest.mark.parametrize("module", [events, observations, rewards, terminations])
def test_every_term_has_a_twin_with_its_parameters(module):
    terms = [term for term in vars(module).values() if getattr(term, "capturable", False)]
    assert terms or module is events
    for term in [*terms, *twins_in(module).values()]:
        check_signature(term)


@pytest.mark.gpu
def test_a_step_is_one_graph_on_a_gpu():
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed = 64, 5
    env = make_env(cfg, "cuda:0", "warp")
    env.reset()
    for _ in range(60):
        _, reward, *_ = env.step(0.3 * torch.randn(64, 29, device=env.device))
        assert reward.isfinite().all()
    (report,) = (report for report in env.capture_report() if report.stage.endswith("._step"))
    assert (report.num_graphs, report.islands) == (1, ())
    env.close()


class RefuseSumsOverTime(TorchDispatchMode):
    """Raises where a deterministic run would on a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert func.overloadpacket is not torch.ops.aten.cumsum or not result.is_floating_point()
        return result


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_step_computes_nothing_that_torch_refuses_in_a_deterministic_run(frontend):
    env = make(frontend, play=False)
    with RefuseSumsOverTime():
        env.reset()
        for _ in range(30):
            env.step(torch.ones(N, 29))
    assert env.command_manager.get_term("motion").sampler.visits.sum() > 0.0
    env.close()


def look_at(env, observations, reward) -> dict[str, torch.Tensor]:
    """What a step led to by name, causes before what they change."""
    robot, command = env.scene["robot"].data, env.command_manager.get_term("motion")
    shapes = env.observation_manager.group_obs_term_dim["policy"]
    parts = observations["policy"].split([math.prod(shape) for shape in shapes.values()], dim=1)
    terms = {f"observation {name}": part for name, part in zip(shapes, parts, strict=True)}
    forces = env.scene.sensor("self_contact").force_matrix_w_history
    state = {name: getattr(robot, name) for name in ("joint_pos", "joint_vel", "root_link_pose_w", "root_com_vel_w")}
    drawn = {"clip": command.clip, "frame": command.frame}
    seen = {**state, "touches": forces, **drawn, **terms, "reward": reward, "scores": command.sampler.returns}
    return {name: value.clone() for name, value in seen.items()}


def first_difference(runs: list[list[dict[str, torch.Tensor]]]) -> str:
    """Step, name and number of rows of what differs first between two runs; nothing where they are equal."""
    for step, (first, second) in enumerate(zip(*runs, strict=True)):
        for name, value in first.items():
            if not torch.equal(value, second[name]):
                rows = (value != second[name]).flatten(1).any(dim=1) if value.dim() > 1 else value != second[name]
                return f"step {step}: {name} in {int(rows.sum())} of {len(rows)} rows, first {int(rows.int().argmax())}"
    return ""


def deterministic_run(frontend: str, device: str, num_envs: int, steps: int) -> list[dict[str, torch.Tensor]]:
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.deterministic = num_envs, 5, True
    env = make_env(cfg, device, frontend)
    env.reset()
    generator, seen = torch.Generator(device).manual_seed(0), []
    for _ in range(steps):
        observations, reward, *_ = env.step(torch.randn(num_envs, 29, device=device, generator=generator))
        seen.append(look_at(env, observations, reward))
    env.close()
    return seen


@pytest.fixture
def strict_torch() -> Iterator[None]:
    yield
    torch.set_deterministic_debug_mode("default")


def test_what_differs_first_between_two_runs_is_named(undisturbed):
    env = undisturbed["torch"]
    observations, _ = env.reset()
    runs = [[look_at(env, observations, env.reward_buf) for _ in range(3)] for _ in range(2)]
    assert first_difference(runs) == ""
    runs[1][1]["observation joint_pos"][2, 0] += 1.0
    runs[1][2]["joint_pos"] += 1.0
    assert first_difference(runs) == f"step 1: observation joint_pos in 1 of {N} rows, first 2"


@pytest.mark.gpu
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_deterministic_runs_repeat_on_a_gpu(strict_torch, frontend):
    assert first_difference([deterministic_run(frontend, "cuda:0", 64, 60) for _ in range(2)]) == ""


def test_frames_follow_each_other_and_episodes_begin_where_an_event_says():
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = N, 1, 0.2
    cfg.commands["motion"].clips = ("stand", "slow_walk")
    env = make_env(cfg, "cpu", "warp")
    env.reset()
    command = env.command_manager.get_term("motion")
    assert isinstance(command, MotionCommandWarp)
    generator, resets = torch.Generator().manual_seed(0), 0
    for _ in range(15):
        following, clip = command.next_reference(), command.clip.clone()
        env.step(0.3 * torch.randn(N, 29, generator=generator))
        goes_on = ~env.reset_buf
        assert torch.equal(command.frame[goes_on], following.frame[goes_on])
        assert torch.equal(command.clip[goes_on], clip[goes_on])
        shown = command.reference(command.clip, command.frame)
        assert torch.equal(command.command, shown.command)
        assert torch.equal(command.target.body_pos, shown.target.body_pos)
        resets += int(env.reset_buf.sum())
    assert resets >= N
    assert command.sampler.visits.sum() > 0.0
    env.close()
