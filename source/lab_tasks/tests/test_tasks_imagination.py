"""The terms of whole tasks on recorded ends of steps, imagined and by the managers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg, make_env
from lab_core.imagination import ArticulationState, Imagination, ImaginationError
from lab_core.managers import RewardTermCfg, SceneEntityCfg, declare
from lab_core.scene import Role
from lab_tasks.cartpole.cartpole_env_cfg import cartpole_env_cfg
from lab_tasks.velocity.anymal_c import anymal_c_flat_env_cfg
from lab_tasks.velocity.go2 import go2_flat_env_cfg

N = 16
FIELDS = tuple(ArticulationState.__dataclass_fields__)
TASKS = {
    "cartpole": (cartpole_env_cfg, (), ()),
    "go2": (go2_flat_env_cfg, ("dof_torques_l2", "feet_air_time"), ("base_contact",)),
    "anymal_c": (anymal_c_flat_env_cfg, ("dof_torques_l2", "feet_air_time", "undesired_contacts"), ("base_contact",)),
}


@declare(differentiable=True)
def body_speeds(env, asset_cfg: SceneEntityCfg = SceneEntityCfg("robot")) -> torch.Tensor:  # noqa: B008
    """Reads bodies, which no term of these tasks does without a sensor."""
    data = env.scene[asset_cfg.name].data
    return data.body_com_vel_w.square().mean(dim=(1, 2)) + data.body_link_pose_w[..., 2].mean(dim=1)


def read(env: ManagerBasedRLEnv, dtype: torch.dtype = torch.float32) -> dict[str, ArticulationState]:
    state = ArticulationState.read(env.scene["robot"].data)
    return {"robot": ArticulationState(*(getattr(state, name).to(dtype) for name in FIELDS))}


@pytest.fixture(scope="module", params=TASKS)
def task(request) -> tuple[ManagerBasedRLEnv, tuple[str, ...], tuple[str, ...]]:
    make, rewards, terminations = TASKS[request.param]
    cfg: ManagerBasedRLEnvCfg = make()
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = N, 1, 0.4  # several resets
    cfg.rewards["body_speeds"] = RewardTermCfg(func=body_speeds, weight=0.1)
    env = cfg.build()
    env.reset()
    return env, rewards, terminations


def at_step_ends(env: ManagerBasedRLEnv, steps: int, check: Callable[[dict[str, ArticulationState]], None]) -> None:
    """Calls ``check`` with the states before each of some random steps, when its rewards are there."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        before = read(env)

        def mark(stage: str, before=before) -> None:
            if stage == "rewards":
                check(before)

        with env.mark_stages(mark):
            env.step(0.5 * torch.randn(N, env.action_manager.total_action_dim, generator=generator))


def test_what_needs_contacts_or_efforts_is_refused(task):
    env, rewards, terminations = task
    if not rewards:
        Imagination(env)
        return
    with pytest.raises(ImaginationError, match="does not declare that it is differentiable") as error:
        Imagination(env)
    expected = {f"reward term {name!r}" for name in rewards} | {f"termination term {name!r}" for name in terminations}
    assert set(error.value.reasons) == expected


def test_values_are_those_of_the_managers(task):
    env, rewards, terminations = task
    imagination = Imagination(env, without_rewards=rewards, without_terminations=terminations)
    everywhere, names = torch.arange(N), env.reward_manager.term_names
    commands = env.command_manager
    ended = [0]

    def check(before: dict[str, ArticulationState]) -> None:
        actions = env.action_manager
        view = imagination.view(
            read(env), everywhere, action=actions.action, prev_action=actions.prev_action, before=before,
            commands={name: commands.get_command(name).clone() for name in commands.term_names},
            episode_length=env.episode_length_buf,
        )  # fmt: skip
        for name, value in imagination.reward_terms(view).items():
            own = env.reward_manager.step_reward[:, names.index(name)]
            torch.testing.assert_close(value, own, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
        for name in imagination.termination_names:
            assert torch.equal(view.termination_manager.get_term(name), env.termination_manager.get_term(name)), name
        own = torch.cat(
            [env.observation_manager.call_for(name, env) for name in env.observation_manager.group_terms("policy")], -1
        )
        torch.testing.assert_close(imagination.observe(view, "policy"), own, atol=1e-5, rtol=0.0)
        data, imagined = env.scene["robot"].data, view.scene["robot"].data
        for name in data.buffers(Role.STATE, Role.DEFAULT, Role.LIMIT, Role.PROPERTY):
            assert torch.equal(getattr(imagined, name), getattr(data, name)), name
        for name in data.buffers(Role.DERIVED):
            if name not in ("applied_effort", "joint_acc", "body_link_pose_w"):
                found, own = getattr(imagined, name), getattr(data, name)
                torch.testing.assert_close(
                    found, own, atol=1e-4, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
                )
        ended[0] += int(env.reset_buf.sum())

    at_step_ends(env, 64, check)
    assert ended[0] > N


def test_gradients_are_right_and_finite(task):
    env, rewards, terminations = task
    imagination = Imagination(env, without_rewards=rewards, without_terminations=terminations)
    rows, recorded = torch.arange(0, N, 8), []

    def record(before: dict[str, ArticulationState]) -> None:
        actions, commands = env.action_manager, env.command_manager
        recorded.append(
            (
                before["robot"],
                [getattr(read(env)["robot"], name) for name in FIELDS],
                [actions.action.clone(), actions.prev_action.clone()],
                {name: commands.get_command(name).clone() for name in commands.term_names},
            )
        )

    at_step_ends(env, 24, record)
    for before, state, actions, commands in recorded[::8]:
        started = {"robot": ArticulationState(*(getattr(before, name)[rows].double() for name in FIELDS))}
        told = {name: value[rows].double() for name, value in commands.items()}
        inputs = [value[rows].double().requires_grad_() for value in (*state, *actions)]

        def evaluate(*values: torch.Tensor, started=started, told=told) -> tuple[torch.Tensor, torch.Tensor]:
            view = imagination.view(
                {"robot": ArticulationState(*values[:4])}, rows, action=values[4], prev_action=values[5],
                commands=told, before=started, episode_length=env.episode_length_buf[rows],
            )  # fmt: skip
            observed = imagination.observe(view, "policy")
            assert isinstance(observed, torch.Tensor)
            return imagination.reward(view), observed

        reward, observed = evaluate(*inputs)
        for gradient in torch.autograd.grad((reward.sum(), observed.sum()), inputs, allow_unused=True):
            assert gradient is None or gradient.isfinite().all()
        assert torch.autograd.gradcheck(evaluate, inputs, atol=1e-4, rtol=1e-3)


def test_every_front_end_has_the_same_terms():
    cfg = cartpole_env_cfg()
    cfg.scene.num_envs, cfg.seed = N, 1
    values, states = {}, {}
    for frontend in ("torch", "warp"):
        env = make_env(cfg, frontend=frontend)
        assert isinstance(env, ManagerBasedRLEnv)
        env.reset()
        states = states or read(env)  # their random draws differ
        imagination, action = Imagination(env), torch.full((N, 1), 0.5)
        view = imagination.view(
            states, torch.arange(N), action=action, prev_action=action, episode_length=env.episode_length_buf
        )
        values[frontend] = (imagination.reward(view), imagination.observe(view, "policy"), imagination.terminated(view))
        env.close()
    torch.testing.assert_close(values["warp"], values["torch"], atol=1e-6, rtol=0.0)
