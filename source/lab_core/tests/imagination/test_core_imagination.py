"""Terms on states that nobody simulated: equal to the managers' own, with right gradients, or refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core import mdp
from lab_core.config import equal_values
from lab_core.envs import ManagerBasedRLEnv
from lab_core.imagination import ArticulationState, Imagination, ImaginationError, ImaginedEnv
from lab_core.managers import (
    ManagerTermBase,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardManager,
    RewardTermCfg,
    TermError,
    TerminationTermCfg,
    UnknownTermError,
    declare,
)
from lab_core.names import UnknownNameError
from lab_core.signals import GaussianNoiseCfg, NoiseWithBiasCfg, UniformNoiseCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 6


@pytest.fixture
def cfg():
    cfg = analytic_cartpole_env_cfg(num_envs=N)
    cfg.rewards["acc"] = RewardTermCfg(func=mdp.joint_acc_l2, weight=-1e-3)
    cfg.rewards["rate"] = RewardTermCfg(func=mdp.action_rate_l2, weight=-0.1)
    terms = cfg.observations["policy"].terms
    terms["actions"] = ObservationTermCfg(func=mdp.last_action, scale=0.5)
    terms["velocity"] = ObservationTermCfg(func=mdp.joint_vel, clip=(-0.5, 0.5), scale=(2.0, 3.0))
    return cfg


def states_of(env: ManagerBasedRLEnv, dtype: torch.dtype = torch.float32) -> dict[str, ArticulationState]:
    state = ArticulationState.read(env.scene["robot"].data)
    return {"robot": ArticulationState(*(getattr(state, name).to(dtype) for name in state.__dataclass_fields__))}


def test_values_at_the_ends_of_steps_are_those_of_the_managers(cfg):
    """Also where episodes end, on rows in another order than the environments'."""
    env = cfg.build()
    imagination, generator = Imagination(env), torch.Generator().manual_seed(0)
    ids = torch.tensor([4, 0, 0, 5, 2])
    ended = 0
    env.reset()
    for _ in range(300):
        before = states_of(env)
        found = {}

        def mark(stage: str, before=before, found=found) -> None:
            if stage != "rewards":
                return
            actions = env.action_manager
            rows = {
                name: {"robot": ArticulationState(*(getattr(state["robot"], key)[ids] for key in STATE))}
                for name, state in (("before", before), ("states", states_of(env)))
            }
            view = imagination.view(
                rows["states"], ids, action=actions.action[ids], prev_action=actions.prev_action[ids],
                before=rows["before"], episode_length=env.episode_length_buf[ids],
            )  # fmt: skip
            found["reward"], found["terms"] = imagination.reward(view), imagination.reward_terms(view)
            found["dones"] = {name: view.termination_manager.get_term(name) for name in imagination.termination_names}
            found["terminated"], found["time_outs"] = imagination.terminated(view), view.termination_manager.time_outs
            found["policy"] = imagination.observe(view, "policy")
            found["observed"] = env.observation_manager.compute()["policy"][ids]

        with env.mark_stages(mark):
            env.step(4.0 * torch.randn(N, 1, generator=generator))
        torch.testing.assert_close(found["reward"], env.reward_buf[ids], atol=1e-5, rtol=1e-5)
        steps = dict(zip(env.reward_manager.term_names, env.reward_manager.step_reward[ids].unbind(1), strict=True))
        torch.testing.assert_close(found["terms"], steps, atol=1e-5, rtol=1e-5)
        for name, value in found["dones"].items():
            assert torch.equal(value, env.termination_manager.get_term(name)[ids]), name
        assert torch.equal(found["terminated"], env.reset_terminated[ids])
        assert torch.equal(found["time_outs"], env.reset_time_outs[ids])
        torch.testing.assert_close(found["policy"], found["observed"], atol=1e-6, rtol=0.0)
        ended += int(env.reset_buf[ids].sum())
    assert ended > 10


STATE = tuple(ArticulationState.__dataclass_fields__)


def view_of(imagination: Imagination, *values: torch.Tensor, **more) -> ImaginedEnv:
    """A view of joints, velocities, action and previous action (K, ...)."""
    position, velocity, action, prev_action = values
    rows = len(position)
    root = torch.zeros(rows, 7, dtype=position.dtype)
    state = ArticulationState(root, torch.zeros(rows, 6, dtype=position.dtype), position, velocity)
    ids = torch.zeros(rows, dtype=torch.int64)
    return imagination.view({"robot": state}, ids, action=action, prev_action=prev_action, **more)


def random_values(rows: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(rows, n, generator=generator, dtype=torch.float64) for n in (2, 2, 1, 1)]


def test_gradients_are_those_of_the_values(cfg):
    cfg.rewards["acc"] = None
    imagination = Imagination(cfg.build())
    values = [value.requires_grad_() for value in random_values()]
    assert gradcheck(lambda *v: imagination.reward(view_of(imagination, *v)), values)
    assert gradcheck(lambda *v: imagination.observe(view_of(imagination, *v), "policy"), values)


def test_rewards_carry_gradients_to_action_and_state(cfg):
    cfg.rewards["acc"] = None
    imagination = Imagination(cfg.build())
    values = [value.requires_grad_() for value in random_values()]
    view = view_of(imagination, *values)
    assert not imagination.terminated(view).requires_grad
    for gradient in torch.autograd.grad(imagination.reward(view).sum(), values):
        assert gradient.isfinite().all() and gradient.abs().sum() > 0.0


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from leaves(child, f"{path}.{key}")
    else:
        yield path, value


def test_nothing_of_the_environment_changes(cfg):
    env = cfg.build()
    env.reset()
    before, stream = env.state_dict(), env.generator.get_state()
    imagination = Imagination(env)
    view = imagination.present()
    imagination.reward(view), imagination.terminated(view)
    imagination.observe(view, "policy", 0.5, torch.Generator().manual_seed(0))
    assert dict(leaves(env.state_dict())).keys() == dict(leaves(before)).keys()
    for (name, value), (_, old) in zip(leaves(env.state_dict()), leaves(before), strict=True):
        assert equal_values(value, old), name
    assert torch.equal(stream, env.generator.get_state())


def test_settings_of_this_moment_count(cfg):
    env = cfg.build()
    imagination = Imagination(env)
    view = imagination.present()
    env.reward_manager.weights = {"alive": 3.0, "cart_vel": 0.0}
    assert "cart_vel" not in imagination.reward_terms(view)
    torch.testing.assert_close(imagination.reward_terms(view)["alive"], torch.full((N,), 3.0))


def test_noise_is_drawn_for_each_row_with_a_scale(cfg):
    cfg.observations = {
        "policy": ObservationGroupCfg(
            enable_corruption=True,
            terms={
                "uniform": ObservationTermCfg(func=mdp.joint_pos, noise=UniformNoiseCfg(n_min=-1.0, n_max=3.0)),
                "biased": ObservationTermCfg(
                    func=mdp.joint_pos,
                    noise=NoiseWithBiasCfg(noise=GaussianNoiseCfg(std=0.0), bias=GaussianNoiseCfg(std=1.0)),
                ),
                "plain": ObservationTermCfg(func=mdp.joint_pos),
            },
        ),
        "critic": ObservationGroupCfg(
            terms={"clean": ObservationTermCfg(func=mdp.joint_pos, noise=UniformNoiseCfg(n_min=1.0, n_max=2.0))}
        ),
    }
    imagination = Imagination(cfg.build())
    generator = torch.Generator().manual_seed(5)
    values = [value.float().expand(4000, -1) for value in random_values(1)]
    view = view_of(imagination, *values)
    noisy = imagination.observe(view, "policy", 0.1, generator) - values[0].repeat(1, 3)
    assert -0.1 <= noisy[:, :2].min() < -0.09 and 0.29 < noisy[:, :2].max() <= 0.3
    assert noisy[:, 2:4].std() == pytest.approx(0.1, rel=0.05)
    assert torch.equal(noisy[:, 4:], torch.zeros(4000, 2))
    assert torch.equal(imagination.observe(view, "critic", 1.0, generator), values[0])
    assert torch.equal(imagination.observe(view, "policy"), values[0].repeat(1, 3))
    with pytest.raises(ImaginationError, match="'policy' needs a generator"):
        imagination.observe(view, "policy", 0.1)


# Refused ----------------------------------------------------------------------------------------------------------


def undeclared(env) -> torch.Tensor:
    return torch.zeros(env.num_envs)


@declare(differentiable=True)
def reads_effort(env) -> torch.Tensor:
    return env.scene["robot"].data.applied_effort.sum(dim=1)


@declare(differentiable=True)
def reads_sensor(env) -> torch.Tensor:
    return env.scene.sensor("feet").forces


@declare(differentiable=True)
def reads_physics(env) -> torch.Tensor:
    return env.physics.non_finite.float()


@declare(differentiable=True)
def reads_target(env) -> torch.Tensor:
    return env.action_manager.get_term("cart_effort").processed_actions[:, 0]


@declare(differentiable=True)
def has_no_rows(env) -> torch.Tensor:
    return torch.zeros(())


class Memory(ManagerTermBase):
    def __call__(self, env) -> torch.Tensor:
        return torch.zeros(env.num_envs)


class Declared(ManagerTermBase):
    differentiable = True

    def __call__(self, env, factor: float) -> torch.Tensor:
        return factor * env.scene["robot"].data.joint_pos[:, 0]


def test_classes_that_declare_it_take_part(cfg):
    cfg.rewards = {"extra": RewardTermCfg(func=Declared, weight=2.0, params={"factor": 3.0})}
    imagination = Imagination(cfg.build())
    values = random_values()
    torch.testing.assert_close(imagination.reward_terms(view_of(imagination, *values))["extra"], 6.0 * values[0][:, 0])


def test_a_class_that_another_one_stands_for_is_refused(cfg):
    class Replacing(RewardManager):
        def _term_class(self, cfg):
            return Memory

    env = cfg.build()
    manager = Replacing({"extra": RewardTermCfg(func=Declared, params={"factor": 3.0})}, env)
    with pytest.raises(TermError, match="reward term 'extra': Memory runs here, in place of Declared"):
        manager.call_for("extra", env)


def test_groups_may_stay_apart(cfg):
    cfg.observations["policy"].concatenate_terms = False
    imagination = Imagination(cfg.build())
    values = random_values()
    observed = imagination.observe(view_of(imagination, *values), "policy")
    assert list(observed) == ["joint_pos_rel", "joint_vel_rel", "actions", "velocity"]
    torch.testing.assert_close(observed["actions"], 0.5 * values[2])


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (undeclared, "undeclared does not declare that it is differentiable"),
        (Memory, "Memory does not declare"),
        (reads_effort, "applied_effort of 'robot' does not follow from root and joints"),
        (reads_sensor, "Sensor 'feet' measures"),
        (reads_physics, "has no 'physics'"),
        (reads_target, "processed_actions"),
        (has_no_rows, r"must return \(6,\), got \(\)"),
        (mdp.joint_torques_l2, "joint_torques_l2 does not declare"),
    ],
)
def test_terms_that_need_more_are_refused_by_name(cfg, func, reason):
    cfg.rewards["extra"] = RewardTermCfg(func=func)
    env = cfg.build()
    with pytest.raises(ImaginationError, match=f"reward term 'extra': .*{reason}") as error:
        Imagination(env)
    assert list(error.value.reasons) == ["reward term 'extra'"]
    assert "extra" not in Imagination(env, without_rewards="extra").reward_names


def test_all_refusals_come_at_once_and_follow_from_each_other(cfg):
    cfg.terminations["effort"] = TerminationTermCfg(func=lambda env: torch.zeros(env.num_envs, dtype=torch.bool))
    cfg.observations["policy"].terms["effort"] = ObservationTermCfg(func=mdp.joint_effort)
    cfg.observations["policy"].terms["late"] = ObservationTermCfg(func=mdp.joint_pos, delay_max_lag=2, history_length=3)
    env = cfg.build()
    with pytest.raises(ImaginationError, match="delay_max_lag, history_length would need the steps before") as error:
        Imagination(env)
    assert list(error.value.reasons) == [
        "observation term 'policy/effort'",
        "observation term 'policy/late'",
        "termination term 'effort'",
    ]
    imagination = Imagination(env, groups=(), without_terminations="effort")
    assert imagination.termination_names == ("time_out", "cart_out_of_bounds")
    with pytest.raises(ImaginationError, match="'policy' is not imagined"):
        imagination.observe(imagination.present(), "policy")


def test_wrong_names_are_refused(cfg):
    env = cfg.build()
    with pytest.raises(UnknownNameError, match="gone"):
        Imagination(env, without_rewards="gone")
    with pytest.raises(UnknownTermError, match="gone"):
        Imagination(env, groups=("gone",))


def test_what_was_not_given_is_named(cfg):
    imagination = Imagination(cfg.build())
    values = random_values()
    view = view_of(imagination, *values)
    with pytest.raises(ImaginationError, match="joint_acc of 'robot' needs the state at the beginning"):
        imagination.reward(view)
    with pytest.raises(ImaginationError, match="episode_length"):
        _ = view.termination_manager.time_outs
    with pytest.raises(ImaginationError, match="Command 'speed' was not given"):
        view.command_manager.get_command("speed")
    with pytest.raises(ImaginationError, match="'robot' was not given"):
        imagination.view({}, torch.zeros(1, dtype=torch.int64), action=values[2], prev_action=values[3])
    with pytest.raises(ImaginationError, match=r"joint_vel of 'robot' must be \(3, 2\), got \(3, 1\)"):
        view_of(imagination, values[0], values[1][:, :1], *values[2:])


def test_views_are_freed_with_their_last_name(cfg):
    """A circle would keep the gradients of a rollout until the garbage collector comes."""
    imagination = Imagination(cfg.build())
    gc.disable()
    try:
        view = imagination.present()
        imagination.reward(view)
        alive = weakref.ref(view)
        del view
        assert alive() is None
    finally:
        gc.enable()


class NoHost(TorchDispatchMode):
    """Refuses what waits for the device, or brings a number to it: neither can be part of a graph."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "lift_fresh"):
            raise AssertionError(f"{func} needs the host")
        return func(*args, **(kwargs or {}))


def test_a_rollout_needs_no_host(cfg):
    cfg.rewards["acc"] = None
    cfg.observations["policy"].enable_corruption = True
    noisy = ObservationTermCfg(func=mdp.joint_pos, noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0))
    cfg.observations["policy"].terms["noisy"] = noisy
    imagination, generator = Imagination(cfg.build()), torch.Generator()
    values = [value.float().requires_grad_() for value in random_values()]
    steps = torch.zeros(3, dtype=torch.int64)
    view_of(imagination, *values, episode_length=steps)
    with NoHost():
        view = view_of(imagination, *values, episode_length=steps)
        alive = (~imagination.terminated(view) & ~view.termination_manager.time_outs).float()
        loss = (alive * imagination.reward(view)).sum() + imagination.observe(view, "policy", 0.05, generator).sum()
        bodies = view.scene["robot"].data.body_com_vel_w.sum()
        torch.autograd.grad(loss + bodies, values)


def test_properties_are_those_of_the_rows(cfg):
    env = cfg.build()
    data = env.scene["robot"].data
    data.default_joint_pos.copy_(torch.arange(2 * N).view(N, 2))
    imagination = Imagination(env)
    state = ArticulationState.read(data)
    ids = torch.tensor([3, 3, 1])
    state = replace(state, **{name: getattr(state, name)[ids] for name in STATE})
    view = imagination.view({"robot": state}, ids, action=torch.zeros(3, 1), prev_action=torch.zeros(3, 1))
    assert torch.equal(view.scene["robot"].data.default_joint_pos, data.default_joint_pos[ids])


def test_the_pose_of_one_body_is_that_of_the_simulation_whether_or_not_all_are_known(cfg):
    env = cfg.build()
    env.reset()
    for _ in range(3):
        env.step(torch.ones(N, 1))
    data, imagined = env.scene["robot"].data, Imagination(env).present().scene["robot"].data
    last = data.num_bodies - 1
    alone = imagined.link_pose_w(last)
    torch.testing.assert_close(alone, data.link_pose_w(last))
    torch.testing.assert_close(imagined.body_link_pose_w[:, last], alone)
    assert torch.equal(imagined.link_pose_w(last), imagined.body_link_pose_w[:, last])
