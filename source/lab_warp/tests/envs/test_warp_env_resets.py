"""Resets and random streams of Warp environments."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.managers import EventTermCfg, ManagerTermBase, RewardTermCfg
from lab_core.signals import NoiseWithBiasCfg, UniformNoiseCfg
from lab_core.state import named_tensors
from lab_core.testing import analytic_cartpole_env_cfg, check_masked_reset
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, same_bits

N = 7


def push(env: Any, mask: torch.Tensor) -> None:
    """Does nothing, so that only its timer matters."""


def random_cfg(num_envs: int = N) -> ManagerBasedRLEnvCfg:
    """All that has a memory or draws: noise, bias, delay, history, timers of both kinds, metrics."""
    cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s=0.4)
    group = cfg.observations["policy"]
    group.enable_corruption = True
    group.terms["joint_pos_rel"].noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    group.terms["joint_vel_rel"].noise = NoiseWithBiasCfg(
        noise=UniformNoiseCfg(n_min=-0.1, n_max=0.1), bias=UniformNoiseCfg(n_min=-0.5, n_max=0.5)
    )
    group.terms["joint_vel_rel"].delay_max_lag = 2
    group.terms["joint_vel_rel"].history_length = 2
    for name, is_global in (("own", False), ("shared", True)):
        cfg.events[name] = EventTermCfg(
            func=push, mode="interval", interval_range_s=(0.05, 0.3), is_global_time=is_global
        )
    return cfg


def make(cfg: ManagerBasedRLEnvCfg | None = None, device: str = "cpu") -> ManagerBasedRLEnvWarp:
    return ManagerBasedRLEnvWarp(random_cfg() if cfg is None else cfg, device)


def rows(env: ManagerBasedRLEnvWarp) -> dict[str, torch.Tensor]:
    """Every buffer with a row per environment, that of the scene included."""
    found = named_tensors({"env": env, "robot": env.scene["robot"].data.__dict__})
    return {name: tensor for name, tensor in found.items() if tensor.ndim and tensor.shape[0] == env.num_envs}


def test_a_partial_reset_resets_its_environments_alone(device):
    env = make(device=device)
    rollout(env, 5)
    env.episode_length_buf.copy_(torch.arange(1, N + 1, device=device))
    mask = torch.arange(N, device=device) % 3 == 0
    before = {name: tensor.clone() for name, tensor in rows(env).items()}
    env.reset(mask=mask)
    for name, tensor in rows(env).items():
        assert same_bits(tensor[~mask], before[name][~mask]), name
    assert torch.equal(env.episode_length_buf, torch.where(mask, 0, torch.arange(1, N + 1, device=device)))
    assert (env.scene["robot"].data.joint_pos[mask] != before["robot.joint_pos"][mask]).all()


@pytest.mark.parametrize(
    "selection",
    [[0, 3], (3, 0, 0), torch.tensor([0, 3]), torch.tensor([3, 0], dtype=torch.int32), slice(0, 4, 3)],
    ids=["list", "tuple", "int64", "int32", "slice"],
)
def test_every_kind_of_selection_resets_the_same(selection):
    """Warp arrays come in through ``wp.to_torch``, which shares their memory."""
    states = []
    for chosen in (selection, torch.tensor([True, False, False, True, False, False, False])):
        env = make()
        rollout(env, 3)
        env.reset(mask=chosen)
        states.append(rows(env))
    assert all(same_bits(value, states[1][name]) for name, value in states[0].items())


def test_none_is_everything_and_an_empty_selection_nothing():
    env = make()
    rollout(env, 3)
    before = {name: tensor.clone() for name, tensor in rows(env).items()}
    log = {name: value.clone() for name, value in env.extras["log"].items()}
    _, extras = env.reset(mask=[])
    assert all(same_bits(tensor, before[name]) for name, tensor in rows(env).items())
    assert all(same_bits(value, log[name]) for name, value in extras["log"].items())
    env.reset()
    assert not env.episode_length_buf.any()
    assert (env.scene["robot"].data.joint_pos != before["robot.joint_pos"]).all()


def test_an_environment_is_built_again_after_another_was_closed():
    """Twice in a process, from the same configuration, which stays as it is; closing again does no harm."""
    cfg = random_cfg()
    first = make(cfg)
    expected = rollout(first, 30)
    first.close()
    first.close()
    second = make(cfg)
    assert_same_results(rollout(second, 30), expected)
    second.close()


@pytest.mark.parametrize("frontend", ["torch", "warp"])
@pytest.mark.parametrize(
    ("resample", "expected"), [(False, {6: [0, 1, 2, 3, 4, 5, 6]}), (True, {6: [1, 2, 4, 5, 6], 9: [0, 3]})]
)
def test_whether_a_partial_reset_draws_timers_anew_is_a_choice(frontend, resample, expected):
    """A timer of 6 steps; two environments are reset after 3."""
    fired: dict[int, list[int]] = {}

    def note(env: Any, mask: torch.Tensor) -> None:
        if mask.any():
            fired[step] = mask.nonzero().flatten().tolist()

    cfg = analytic_cartpole_env_cfg(N)
    cfg.events["note"] = EventTermCfg(
        func=note, mode="interval", interval_range_s=(0.1, 0.1), resample_interval_on_reset=resample
    )
    env = make_env(cfg, frontend=frontend)
    for step in range(1, 11):
        env.step(torch.zeros(N, 1))
        if step == 3:
            env.reset(mask=[0, 3])
    assert fired == expected


class remembered(ManagerTermBase):
    """A term of torch code, without a twin."""

    masks: list[torch.Tensor]

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.masks = []

    def __call__(self, env: Any) -> torch.Tensor:
        return torch.zeros(env.num_envs, device=env.device)

    def reset(self, mask: torch.Tensor) -> None:
        self.masks.append(mask.clone())


def test_what_has_no_twin_is_reset_by_the_same_mask():
    """Entities without mask support do not exist here; terms of torch code are what could be reset too widely."""
    cfg = analytic_cartpole_env_cfg(N)
    cfg.rewards["remembered"] = RewardTermCfg(func=remembered, weight=1.0)
    env = make(cfg)
    term = env.reward_manager._class_terms["remembered"]
    assert isinstance(term, remembered)
    term.masks.clear()
    env.reset(mask=[2])
    env.scene["robot"].data.joint_pos[4, 0] = 10.0
    env.step(torch.zeros(N, 1))
    assert [mask.nonzero().flatten().tolist() for mask in term.masks] == [[2], [4]]


def test_a_reset_touches_no_row_of_other_environments():
    """All buffers of environment, managers, noise, delays, timers, actuator targets and random streams."""
    env = make()
    rollout(env, 5)

    def reset(mask: torch.Tensor) -> None:
        env.reset(mask=mask)

    owners = {"env": env, "robot": _tensors(env.scene["robot"].data)}
    changed = check_masked_reset(owners, reset, N)
    assert {"env.episode_length_buf", "env.rng_state", "env.action_manager.action"} <= changed


def _tensors(data: Any) -> dict[str, torch.Tensor]:
    return {name: value for name, value in vars(data).items() if isinstance(value, torch.Tensor)}


def test_all_draws_of_an_environment_come_from_one_state(device):
    env = make(device=device)
    assert env.warp.rng.ptr == env.rng.state.ptr == env.rng_state.data_ptr()
    before = env.rng_state.clone()
    pointer = env.rng.state.ptr
    rollout(env, 1)
    assert (env.rng_state != before).all()
    rollout(env, 40)
    env.reset(seed=3)
    assert env.rng.state.ptr == pointer


@pytest.mark.parametrize("enabled", [True, False])
def test_a_seed_repeats_the_rollout(monkeypatch, enabled, device):
    """A seed is given to ``reset``; a state of one's own is then set by ``reset_to``."""
    monkeypatch.setenv("LAB_CAPTURE", str(int(enabled)))
    env = make(device=device)

    def run(seed: int, own_state: bool = False) -> list[dict[str, torch.Tensor]]:
        env.reset(seed=seed)
        if own_state:
            env.reset_to(state)
        return rollout(env, 30, scale=3.0)

    state = env.scene.get_state()
    first = run(1)
    # The log keeps what earlier episodes wrote until the first reset of these.
    assert_same_results(_without_log(run(1)), _without_log(first))
    assert not same_bits(run(2)[-1]["obs.policy"], first[-1]["obs.policy"])
    assert_same_results(_without_log(run(1, own_state=True)), _without_log(run(1, own_state=True)))


def _without_log(results: list[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    return [{name: value for name, value in step.items() if not name.startswith("log.")} for step in results]


def test_without_a_seed_environments_differ():
    cfg = random_cfg()
    cfg.seed = -1
    assert not torch.equal(make(cfg).rng_state, make(cfg).rng_state)


def test_the_stream_of_an_environment_does_not_depend_on_how_many_there_are():
    results = []
    for num_envs in (4, 16):
        cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s=0.2)
        group = cfg.observations["policy"]
        group.enable_corruption = True
        for term in group.terms.values():
            term.noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
        cfg.events["own"] = EventTermCfg(func=push, mode="interval", interval_range_s=(0.05, 0.3))
        env = make(cfg)
        results.append([env.step(torch.ones(num_envs, 1))[0]["policy"][:4] for _ in range(20)])
    assert all(same_bits(a, b) for a, b in zip(*results, strict=True))


def test_shared_timers_leave_the_streams_of_environments_alone_and_are_reseeded():
    fired: dict[bool, list[bool]] = {}
    streams = {}
    for shared in (False, True):
        cfg = analytic_cartpole_env_cfg(N)
        if shared:
            cfg.events["shared"] = EventTermCfg(
                func=push, mode="interval", interval_range_s=(0.02, 0.2), is_global_time=True
            )
        env = make(cfg)
        rollout(env, 10)
        streams[shared] = env.rng_state.clone()
    assert torch.equal(streams[False], streams[True])

    timer = env.event_manager._time_left["shared"]
    for repeat in (False, True):
        env.reset(seed=5)
        timer.fill_(0.05)  # a reset leaves a shared timer alone
        fired[repeat] = []
        for _ in range(60):
            left = float(timer)
            rollout(env, 1)
            fired[repeat].append(float(timer) > left)
    assert fired[False] == fired[True]
    assert 3 < sum(fired[False]) < 40


def test_a_second_environment_in_the_process_is_independent():
    alone = make()
    expected = rollout(alone, 40, scale=3.0)
    first = make()
    given = rollout(first, 20, scale=3.0)
    cfg = random_cfg(3)
    cfg.seed = 7
    second = make(cfg)
    rollout(second, 20)
    generator = torch.Generator().manual_seed(0)
    actions = [3.0 * torch.randn(N, 1, generator=generator) for _ in range(40)]
    for step in range(20, 40):
        second.step(torch.ones(3, 1))
        obs, *_ = first.step(actions[step])
        assert same_bits(obs["policy"], expected[step]["obs.policy"])
    assert_same_results(given, expected[:20])
    second.close()
    first.step(actions[0])


def test_reset_to_sets_the_state_of_its_environments_and_relative_to_their_origins(device):
    env = make(analytic_cartpole_env_cfg(N), device)
    rollout(env, 3)
    state = env.scene.get_state()
    robot = state["articulation"]["robot"]
    robot["joint_position"][:, 0], robot["joint_position"][:, 1] = 0.7, -0.2
    robot["joint_velocity"].zero_()
    before = env.get_observations()["policy"]
    obs, _ = env.reset_to(state, mask=[1, 4])
    expected = before.clone()
    expected[[1, 4]] = torch.tensor([0.7, -0.2, 0.0, 0.0], device=device)
    torch.testing.assert_close(obs["policy"], expected)
    assert env.episode_length_buf.tolist() == [3, 0, 3, 3, 0, 3, 3]


def test_a_saved_state_continues_bit_for_bit_in_a_new_environment(device):
    whole = make(device=device)
    expected = rollout(whole, 10, seed=1, scale=3.0) + rollout(whole, 20, seed=2, scale=3.0)
    first = make(device=device)
    given = rollout(first, 10, seed=1, scale=3.0)
    state = first.state_dict()
    cfg = random_cfg()
    cfg.seed = 9
    second = make(cfg, device)
    rollout(second, 3)
    second.load_state_dict(state)
    assert_same_results(given + rollout(second, 20, seed=2, scale=3.0), expected)
    assert second.step_count == 30
    assert second.warp.step_count.numpy().item() == 30


def test_what_kernels_and_graphs_hold_beside_the_state_is_not_saved(device):
    env = make(device=device)
    env.step(torch.zeros(env.num_envs, 1, device=device))
    env.request_capture("a test", replaced=torch.zeros(3))
    own = {name for name in env.state_dict()["environment"] if "manager" not in name}
    assert own == {
        *("step_count", "generator", "rng_state", "rng_global_state", "episode_length_buf", "log.stored_values"),
        *("scene.env_origins", "reset_buf", "reset_terminated", "reset_time_outs", "_observations.policy"),
    }


def test_torch_and_warp_agree_where_nothing_is_left_to_chance():
    results = []
    for build in (lambda cfg: cfg.build(), make):
        cfg = analytic_cartpole_env_cfg(N, episode_length_s=0.4)
        for event in cfg.events.values():
            assert event is not None and event.func is mdp.reset_joints_by_offset
            event.params |= {"position_range": (0.3, 0.3), "velocity_range": (0.1, 0.1)}
        results.append(rollout(build(cfg), 60, scale=3.0))
    for expected, given in zip(*results, strict=True):
        for name, value in expected.items():
            torch.testing.assert_close(given[name].to(value.dtype), value, rtol=1e-5, atol=1e-6)
