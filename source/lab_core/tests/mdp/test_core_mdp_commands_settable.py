"""Commands fixed from outside, over the draws of the term."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import ObservationTermCfg
from lab_core.state import named_tensors
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4
SOME = torch.tensor([True, False, True, False])
FIXED = (0.5, -0.25, 0.75)


def make_env(**settings) -> ManagerBasedRLEnv:
    """Episodes of 6 steps; commands that change every 2 to 4 of them, steer by heading and sometimes stand."""
    cfg = analytic_cartpole_env_cfg(num_envs=N, episode_length_s=0.1)
    step = cfg.physics.dt * cfg.decimation
    ranges = mdp.UniformVelocityRanges(
        lin_vel_x=(-1.0, 1.0), lin_vel_y=(-0.5, 0.5), ang_vel_z=(-2.0, 2.0), heading=(-math.pi, math.pi)
    )
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(
        resampling_time_range=(2 * step, 4 * step), ranges=ranges, heading_command=True, **settings
    )
    cfg.observations["policy"].terms["command"] = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}
    )
    return cfg.build()


def term_of(env) -> mdp.UniformVelocityCommand:
    return env.command_manager.get_term("velocity")


def rollout(env, steps: int) -> list[torch.Tensor]:
    return [env.step(torch.zeros(N, 1))[0]["policy"] for _ in range(steps)]


def test_every_observation_has_the_fixed_command_through_draws_and_resets():
    env = make_env(rel_standing_envs=0.5)
    term_of(env).set_command(FIXED)
    resets = draws = 0
    for _ in range(20):
        (observation,) = rollout(env, 1)
        assert torch.equal(observation[:, 4:], torch.tensor(FIXED).expand(N, 3))
        resets += int(env.extras["reset_count"])
        draws = max(draws, int(term_of(env).command_counter.max()))
    assert resets == 3 * N and draws > 1
    assert torch.equal(env.reset()[0]["policy"][:, 4:], torch.tensor(FIXED).expand(N, 3))
    assert torch.equal(env.reset(mask=SOME)[0]["policy"][:, 4:], torch.tensor(FIXED).expand(N, 3))


def test_draws_go_on_underneath():
    plain, fixed = make_env(rel_standing_envs=0.3), make_env(rel_standing_envs=0.3)
    term_of(fixed).set_command(FIXED)
    for now, then in zip(rollout(plain, 15), rollout(fixed, 15), strict=True):
        assert torch.equal(now[:, :4], then[:, :4])
    assert torch.equal(plain.generator.get_state(), fixed.generator.get_state())
    term_of(fixed).set_command(None)
    assert torch.equal(term_of(plain).command, term_of(fixed).command)
    for now, then in zip(rollout(plain, 15), rollout(fixed, 15), strict=True):
        assert torch.equal(now, then)


def test_a_fixed_command_is_no_part_of_the_state():
    plain, fixed = make_env(), make_env()
    term_of(fixed).set_command(FIXED)
    rollout(plain, 5)
    rollout(fixed, 5)
    state, saved_while_fixed = term_of(plain).state_dict(), term_of(fixed).state_dict()
    assert state.keys() == saved_while_fixed.keys()
    follows = ("metrics", "asked_displacement_w")  # what these say is of the command that was followed
    tensors = [key for key, value in state.items() if torch.is_tensor(value) and not key.startswith(follows)]
    assert "_command" in tensors and all(torch.equal(state[key], saved_while_fixed[key]) for key in tensors)

    other = make_env()  # loading leaves a fixed command fixed, and gives back what was drawn
    term_of(other).set_command(FIXED)
    term_of(other).load_state_dict(state)
    assert torch.equal(term_of(other).command, torch.tensor(FIXED).expand(N, 3))
    term_of(other).set_command(None)
    assert torch.equal(term_of(other).command, term_of(plain).command)

    term_of(other).load_state_dict(saved_while_fixed)  # where no command is fixed, the drawn one goes on
    assert torch.equal(term_of(other).command, term_of(plain).command)
    assert term_of(other).fixed_command is None


def test_changing_and_setting_the_same_command_again_keeps_the_draws():
    env = make_env()
    term = term_of(env)
    drawn, address = term.command.clone(), term.command.data_ptr()
    term.set_command(FIXED)
    term.set_command([0.0, 0.0, 0.0])
    assert not term.command.any() and term.fixed_command == (0.0, 0.0, 0.0)
    term.set_command(None)
    term.set_command(None)
    assert torch.equal(term.command, drawn) and term.command.data_ptr() == address


def test_setting_it_inside_inference_mode_does_not_bind_later_steps():
    env = make_env()
    with torch.inference_mode():
        term_of(env).set_command(FIXED)
        rollout(env, 2)
    rollout(env, 2)
    term_of(env).set_command(None)
    rollout(env, 2)
    assert not any(tensor.is_inference() for tensor in named_tensors(term_of(env)).values())


def test_metrics_compare_with_the_command_that_is_followed():
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(9.0, 9.0), lin_vel_y=(0.0, 0.0), ang_vel_z=(0.0, 0.0))
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(9.0, 9.0), ranges=ranges)
    env = cfg.build()
    term_of(env).set_command((0.3, 0.4, 0.0))  # the base of the cart-pole never moves
    rollout(env, 2)
    torch.testing.assert_close(term_of(env).metrics["error_vel_xy"], torch.full((N,), 0.5))


def test_a_partial_reset_leaves_the_other_rows_alone_also_underneath():
    term = term_of(make_env())
    term.set_command(FIXED)
    assert "_command" in check_masked_reset(term, term.reset, N)
    assert torch.equal(term.command, torch.tensor(FIXED).expand(N, 3))


def test_bounds_are_those_of_the_draws_in_use():
    env = make_env()
    components = term_of(env).components
    assert [component.label for component in components] == ["lin_vel_x [m/s]", "lin_vel_y [m/s]", "ang_vel_z [rad/s]"]
    assert [(component.low, component.high) for component in components] == [(-1.0, 1.0), (-0.5, 0.5), (-2.0, 2.0)]
    cfg = env.command_manager.get_term_cfg("velocity")
    cfg.ranges.lin_vel_x = (0.0, 3.0)
    env.command_manager.set_term_cfg("velocity", cfg)
    assert term_of(env).components[0].high == 3.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.5, 0.0), r"\(lin_vel_x \[m/s\], lin_vel_y \[m/s\], ang_vel_z \[rad/s\]\) takes 3 numbers, got 2"),
        ((0.5, math.nan, 0.0), r"takes finite numbers, got \[0.5, nan, 0.0\]"),
    ],
)
def test_impossible_commands_change_nothing(values, message):
    term = term_of(make_env())
    before = term.command.clone()
    with pytest.raises(LabError, match=message):
        term.set_command(values)
    assert torch.equal(term.command, before) and term.fixed_command is None


def test_settable_commands_are_found_by_name():
    env = make_env()
    assert mdp.settable_commands(env) == {"velocity": term_of(env)}
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.commands["nothing"] = mdp.NullCommandCfg()
    assert mdp.settable_commands(cfg.build()) == {}
    assert mdp.settable_commands(SimpleNamespace()) == {}  # an environment without managers
