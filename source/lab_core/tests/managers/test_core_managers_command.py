"""Commands: timers, draws under a mask, metrics."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import (
    CommandManager,
    CommandTerm,
    CommandTermCfg,
    CurriculumTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TermError,
    UnknownTermError,
)
from lab_core.state import named_tensors
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)
FIRST = torch.tensor([True, False, False, False, False])


@dataclass(kw_only=True)
class CountingCfg(CommandTermCfg):
    width: int = 2

    def build(self, env):
        return Counting(self, env)


class Counting(CommandTerm):
    """Its command is the number of draws; it writes down the order of the hooks."""

    def __init__(self, cfg, env):
        super().__init__(cfg, env)
        self._command = torch.zeros(env.num_envs, cfg.width)
        self.metrics["steps"] = torch.zeros(env.num_envs)
        self.calls = []

    @property
    def command(self):
        return self._command

    def _resample(self, mask):
        self.calls.append("resample")
        self._command.add_(mask.unsqueeze(1))

    def _update_command(self, mask):
        self.calls.append(("update_command", mask.tolist()))

    def update_metrics(self):
        self.metrics["steps"] += 1.0


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def counting(env, low=0.3, high=0.3) -> tuple[CommandManager, Counting]:
    manager = CommandManager({"c": CountingCfg(resampling_time_range=(low, high)), "off": None}, env)
    return manager, manager.get_term("c")


def test_order_of_the_hooks(env):
    manager, term = counting(env)
    manager.compute(0.1)
    assert term.calls == ["resample", ("update_command", [True] * N)]


def test_a_time_of_whole_steps_does_not_miss_its_step(env):
    manager, term = counting(env, 5.0, 5.0)
    manager.reset(ALL)
    for _ in range(500):
        manager.compute(0.02)
    steps = [call for call in term.calls if call != "resample"]
    assert term.command_counter.tolist() == [3] * N and len(steps) == 500
    assert term.time_left.tolist() == [5.0] * N


def test_refresh_adapts_its_rows_and_moves_nothing_on(env):
    manager, term = counting(env)
    manager.reset(ALL)
    term.calls.clear()
    before = {name: tensor.clone() for name, tensor in named_tensors(manager).items()}
    manager.refresh(FIRST)
    assert term.calls == [("update_command", FIRST.tolist())]
    assert before and all(torch.equal(before[name], tensor) for name, tensor in named_tensors(manager).items())


def test_first_command_after_a_reset_from_outside_is_adapted_to_the_state(env):
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(1.0, 1.0), lin_vel_y=(1.0, 1.0), ang_vel_z=(-9.0, 9.0))
    ranges.heading = (0.5, 0.5)
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(
        resampling_time_range=(9.0, 9.0), ranges=ranges, heading_command=True, heading_control_stiffness=2.0
    )
    cfg.observations["policy"].terms["command"] = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}
    )
    observed = cfg.build().get_observations()["policy"][:, 4:]
    assert torch.allclose(observed, torch.tensor([1.0, 1.0, 1.0]).expand(N, 3))
    cfg.commands["velocity"].rel_standing_envs = 1.0
    env = cfg.build()
    assert not env.get_observations()["policy"][:, 4:].any()
    env.command_manager.get_command("velocity").fill_(7.0)
    observed = env.reset(mask=FIRST)[0]["policy"][:, 4:]
    assert not observed.any()
    assert (env.command_manager.get_command("velocity") == 7.0).all(dim=1).tolist() == (~FIRST).tolist()


def test_velocities_are_drawn_in_the_heading_of_the_robot_asked_and_reached():
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(1.0, 1.0), lin_vel_y=(0.0, 0.0), ang_vel_z=(2.0, 2.0))
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(9.0, 9.0), ranges=ranges)
    env = cfg.build()
    data = env.scene["robot"].data
    data.heading_w.fill_(math.pi / 2)
    data.root_com_lin_vel_b.copy_(torch.tensor([0.0, 2.0, 7.0]))
    data.root_ang_vel_b.copy_(torch.tensor([7.0, 7.0, -1.0]))
    asked, reached = env.physics.marker_sources["commands/velocity"]()
    torch.testing.assert_close(asked.vector_w[1], torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.5]]))
    torch.testing.assert_close(reached.vector_w[1], torch.tensor([[-1.0, 0.0, 0.0], [0.0, 0.0, -0.25]]))
    start = data.root_link_pose_w[:, None, :3].expand(-1, 2, -1) + torch.tensor([0.0, 0.0, 0.5])
    torch.testing.assert_close(asked.start_w, start)


def test_metrics_of_an_episode_end_with_its_last_step():
    cfg = analytic_cartpole_env_cfg(num_envs=N, episode_length_s=0.05)  # 3 steps
    cfg.commands["c"] = CountingCfg(resampling_time_range=(9.0, 9.0))
    env = cfg.build()
    steps = env.command_manager.get_term("c").metrics["steps"]
    assert [(env.step(torch.zeros(N, 1)), steps.tolist())[1] for _ in range(4)] == [[k] * N for k in (1, 2, 0, 1)]
    assert env.extras["log"]["Metrics/c/steps"] == 3.0


def test_command_is_drawn_when_the_time_is_up(env):
    manager, term = counting(env)
    manager.reset(ALL)
    drawn = []
    for _ in range(8):
        manager.compute(0.125)
        drawn.append(term.command_counter.tolist())
    assert drawn == [[count] * N for count in (1, 1, 2, 2, 2, 3, 3, 3)]
    assert torch.equal(manager.get_command("c")[:, 0], term.command_counter.float())


def test_reset_draws_for_its_rows_and_logs_their_metrics(env):
    manager, term = counting(env)
    manager.reset(ALL)
    for _ in range(4):
        manager.update_metrics()
        manager.compute(0.1)
    log = manager.reset(FIRST)
    assert log == {"Metrics/c/steps": torch.tensor(4.0)}
    assert term.metrics["steps"].tolist() == [0.0, 4.0, 4.0, 4.0, 4.0]
    assert term.command_counter.tolist() == [1, 2, 2, 2, 2]
    assert manager.reset(~ALL)["Metrics/c/steps"].item() == 0.0
    assert term.calls[-2:] == ["resample", "resample"]


def test_reset_touches_the_masked_rows_only(env):
    manager, _ = counting(env, 1.0, 2.0)
    changed = check_masked_reset(manager, manager.reset, N)
    assert changed >= {"_terms.c.time_left", "_terms.c.command_counter", "_terms.c.metrics.steps", "_terms.c._command"}


def test_look_ups_and_run_time_change(env):
    manager, term = counting(env)
    with pytest.raises(UnknownTermError, match="unknown command term 'x'. Available: c"):
        manager.get_command("x")
    manager.set_term_cfg("c", CountingCfg(resampling_time_range=(5.0, 5.0)))
    manager.reset(ALL)
    assert term.time_left.tolist() == [5.0] * N
    with pytest.raises(TermError, match="command term 'c': resampling_time_range must have low <= high"):
        manager.set_term_cfg("c", CountingCfg(resampling_time_range=(5.0, 4.0)))
    with pytest.raises(TermError, match="'c' is a CountingCfg and cannot become a NullCommandCfg"):
        manager.set_term_cfg("c", mdp.NullCommandCfg())
    assert "(2,)" in str(manager)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (3, "command term 'c': expected CommandTermCfg, got int"),
        (CountingCfg(), r"command term 'c': resampling_time_range must be \(low, high\), got MISSING"),
        (
            mdp.UniformVelocityCommandCfg(asset_name="x", resampling_time_range=(1.0, 1.0)),
            "command term 'c': unknown entity 'x'",
        ),
    ],
)
def test_bad_configuration_names_the_term(env, cfg, message):
    with pytest.raises(TermError, match=message):
        CommandManager({"c": cfg}, env)


def test_reward_uses_the_command_that_the_policy_saw():
    """Although every step, and every reset, draws another one."""
    cfg = analytic_cartpole_env_cfg(num_envs=N, episode_length_s=3 / 60)
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(-1.0, 1.0), lin_vel_y=(0.0, 0.0), ang_vel_z=(0.0, 0.0))
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(0.01, 0.01), ranges=ranges)
    command = {"command_name": "velocity"}
    cfg.observations["policy"].terms = {"command": ObservationTermCfg(func=mdp.generated_commands, params=command)}
    cfg.rewards = {"asked": RewardTermCfg(func=lambda env: env.command_manager.get_command("velocity")[:, 0])}
    env = cfg.build()
    seen = env.get_observations()["policy"][:, 0]
    for _ in range(8):
        observations, reward, *_, extras = env.step(torch.zeros(N, 1))
        torch.testing.assert_close(reward, seen * env.step_dt)
        following = extras["final_obs"]["policy"][:, 0]  # what would have been asked next
        assert not torch.equal(following, seen)
        seen = observations["policy"][:, 0]
        assert torch.equal(following, seen) is not bool(extras["reset_count"])


def test_settings_that_a_curriculum_changed_are_resumed():
    """Only these: what was not changed comes from the configuration, which may have been edited."""

    def widen(env, mask):
        if env.step_count == 3:
            cfg = copy.deepcopy(env.command_manager.get_term_cfg("velocity"))
            cfg.ranges.lin_vel_x = (-3.0, 3.0)
            env.command_manager.set_term_cfg("velocity", cfg)

    def build(lin_vel_y: float) -> ManagerBasedRLEnv:
        cfg = analytic_cartpole_env_cfg(num_envs=N)
        ranges = mdp.UniformVelocityRanges(lin_vel_x=(0.0, 0.1), lin_vel_y=(0.0, lin_vel_y), ang_vel_z=(0.0, 1.0))
        cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(0.05, 0.05), ranges=ranges)
        cfg.curriculum["widen"] = CurriculumTermCfg(func=widen)
        return cfg.build()

    env, same, edited = build(1.0), build(1.0), build(2.0)
    fresh = env.state_dict()
    for _ in range(5):
        env.step(torch.zeros(N, 1))
    same.load_state_dict(env.state_dict())
    edited.load_state_dict(env.state_dict())
    ranges = edited.command_manager.get_term_cfg("velocity").ranges
    assert ranges.lin_vel_x == (-3.0, 3.0) and ranges.lin_vel_y == (0.0, 2.0)
    for _ in range(10):
        for each in (env, same):
            each.step(torch.zeros(N, 1))
        commands = [each.command_manager.get_command("velocity") for each in (env, same)]
        assert torch.equal(*commands)
    assert commands[0][:, 0].abs().max() > 0.1
    same.load_state_dict(fresh)
    assert same.command_manager.get_term_cfg("velocity").ranges.lin_vel_x == (0.0, 0.1)
