"""Time passes before a reset, in every front end: ``final_obs`` shows all of it, and a fresh episode none."""

from __future__ import annotations

import math

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv, make_env
from lab_core.managers import EventTermCfg, ObservationTermCfg, SceneEntityCfg
from lab_core.testing import CartClipCommandCfg, clip_cartpole_env_cfg

N, DT, STEPS = 4, 1 / 60, 6
FRONTENDS = pytest.mark.parametrize("frontend", ["torch", "warp"])
CART = SceneEntityCfg(joint_names=("slider_to_cart",))


def kick(env, mask: torch.Tensor) -> None:
    """Moves the carts."""
    data = env.scene["robot"].data
    env.scene["robot"].write_joint_state(data.joint_pos + 0.25, data.joint_vel, mask)


def turn(env, mask: torch.Tensor) -> None:
    """Lets the robots look elsewhere."""
    env.scene["robot"].data.heading_w.masked_fill_(mask, 0.5)


def velocity(**settings) -> mdp.UniformVelocityCommandCfg:
    ranges = mdp.UniformVelocityRanges(
        lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-9.0, 9.0), heading=(-math.pi, math.pi)
    )
    return mdp.UniformVelocityCommandCfg(ranges=ranges, heading_command=True, **settings)


def task(steps: int, short: int = 90, **settings) -> ManagerBasedRLEnvCfg:
    """Episodes of ``steps`` steps with all that time moves: a clip, a velocity command, an event from time to time."""
    cfg = clip_cartpole_env_cfg(num_envs=N, episode_length_s=steps * DT)
    cfg.commands["motion"] = CartClipCommandCfg(clips={"short": short}, sampler=mdp.ClipSamplerCfg(tail_frames=50))
    cfg.commands["velocity"] = velocity(**{"resampling_time_range": (STEPS * DT, STEPS * DT), **settings})
    cfg.events["kick"] = EventTermCfg(func=kick, mode="interval", interval_range_s=(STEPS * DT, STEPS * DT))
    cfg.observations["policy"].terms["velocity"] = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}
    )
    return cfg


def make(cfg: ManagerBasedRLEnvCfg, frontend: str) -> RLEnv:
    cfg.seed = 3
    env = make_env(cfg, "cpu", frontend)
    env.reset()
    return env


def rollout(env: RLEnv, steps: int) -> None:
    for step in range(steps):
        env.step(torch.full((N, 1), 0.2 * math.cos(step)))


@FRONTENDS
def test_final_obs_is_the_next_observation_without_the_reset(frontend):
    """A command, an event and a frame fall into the step that ends the episodes; also under delay and history."""

    def richer(steps: int) -> ManagerBasedRLEnvCfg:
        cfg = task(steps)
        cfg.observations["policy"].terms["rich"] = ObservationTermCfg(
            func=mdp.joint_pos, history_length=3, delay_max_lag=2
        )
        return cfg

    ends, goes_on = (make(richer(steps), frontend) for steps in (STEPS, 2 * STEPS))
    for env in (ends, goes_on):
        rollout(env, STEPS)
    assert ends.reset_buf.all() and not goes_on.reset_buf.any()
    assert torch.equal(ends.extras["final_obs"]["policy"], goes_on.obs_buf["policy"])
    assert torch.equal(goes_on.extras["final_obs"]["policy"], goes_on.obs_buf["policy"])


@FRONTENDS
def test_final_obs_shows_the_next_frame(frontend):
    env = make(task(STEPS), frontend)
    motion = env.command_manager.get_term("motion")
    rollout(env, STEPS - 1)
    expected = motion.next_reference().command
    rollout(env, 1)
    assert env.reset_buf.all()
    torch.testing.assert_close(env.extras["final_obs"]["policy"][:, 4:6], expected)
    assert torch.equal(env.obs_buf["policy"][:, 4:6], motion.reference(motion.clip, motion.frame).command)


@FRONTENDS
def test_no_time_passes_in_rows_that_a_step_resets(frontend):
    """Half of the episodes end by time in a step; in the others it passes. Then a mask resets all from outside."""
    env = make(task(2 * STEPS, resampling_time_range=(1.0, 1.0)), frontend)
    env.event_manager.get_term_cfg("kick").interval_range_s = (1.5, 1.5)
    env.reset()
    env.episode_length_buf = torch.tensor([2 * STEPS - 1, 0, 2 * STEPS - 1, 0])
    velocity, motion = env.command_manager.get_term("velocity"), env.command_manager.get_term("motion")
    before = motion.frame.clone()
    rollout(env, 1)
    stays = torch.tensor([0.0, DT, 0.0, DT])
    assert env.reset_buf.tolist() == [True, False, True, False]
    torch.testing.assert_close(velocity.time_left, 1.0 - stays)
    torch.testing.assert_close(env.event_manager._time_left["kick"], 1.5 - stays)
    assert motion.frame[1::2].tolist() == (before[1::2] + 1).tolist()
    position = env.scene["robot"].data.joint_pos[:, 0]
    torch.testing.assert_close(position[::2], motion.position[::2])  # shown is the frame that the robot was put on
    env.reset(mask=[0, 1])
    torch.testing.assert_close(velocity.time_left, torch.tensor([1.0, 1.0, 1.0, 1.0 - DT]))
    torch.testing.assert_close(env.event_manager._time_left["kick"], torch.tensor([1.5, 1.5, 1.5, 1.5 - DT]))


@FRONTENDS
def test_no_interval_event_acts_on_a_fresh_state(frontend):
    """It is due in every step, also in that which ends the episodes, and there before the reset."""
    cfg = task(3)
    cfg.events["kick"].interval_range_s = (0.5 * DT, 0.5 * DT)
    env = make(cfg, frontend)
    motion = env.command_manager.get_term("motion")
    rollout(env, 2)
    position = env.scene["robot"].data.joint_pos[:, 0].clone()
    rollout(env, 1)
    assert env.reset_buf.all()
    torch.testing.assert_close(env.scene["robot"].data.joint_pos[:, 0], motion.position)
    assert (env.extras["final_obs"]["policy"][:, 0] - position).min() > 0.2


@FRONTENDS
def test_timers_that_resets_leave_alone_go_on(frontend):
    cfg = task(3)
    cfg.events["kick"].interval_range_s = (1.0, 1.0)
    cfg.events["kick"].resample_interval_on_reset = False
    cfg.events["shared"] = EventTermCfg(func=kick, mode="interval", interval_range_s=(1.0, 1.0), is_global_time=True)
    env = make(cfg, frontend)
    rollout(env, 7)
    for name in ("kick", "shared"):
        left = env.event_manager._time_left[name]
        torch.testing.assert_close(left, torch.full_like(left, 1.0 - 7 * DT))


@FRONTENDS
def test_commands_follow_the_state_that_a_row_is_reset_to(frontend):
    cfg = task(STEPS, resampling_time_range=(9.0, 9.0))
    cfg.events["turn"] = EventTermCfg(func=turn, mode="reset")
    env = make(cfg, frontend)
    env.scene["robot"].data.heading_w.zero_()
    env.episode_length_buf = torch.tensor([STEPS - 1, 0, STEPS - 1, 0])
    rollout(env, 1)
    term = env.command_manager.get_term("velocity")
    assert env.scene["robot"].data.heading_w.tolist() == [0.5, 0.0, 0.5, 0.0]
    error = term.heading_target - env.scene["robot"].data.heading_w
    expected = torch.atan2(error.sin(), error.cos())
    torch.testing.assert_close(term.command[:, 2], expected, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(env.obs_buf["policy"][:, -1], expected, atol=1e-5, rtol=0.0)
