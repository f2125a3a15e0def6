"""Which parts of a step are captured."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.capability import CAPABLE, Capability
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ManagerTermBase,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from lab_core.signals import UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.capture import CaptureError, not_capturable
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, same_bits, step_report
from lab_warp.twins import twin_of

N = 5
PHYSICS = "physics analytic: its steps are no kernels of Warp"
"""The analytic physics is torch code: an island."""
STEP_ISLANDS = (PHYSICS,) * 3
"""Step, reset, and kinematics after the reset."""

calls: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def constant(env: Any, value: float = 1.0) -> torch.Tensor:
    return torch.full((env.num_envs,), value, device=env.device)


@twin_of(constant)
def constant_warp(env: Any, out: wp.array, value: float = 1.0) -> None:
    calls["constant"] += 1
    out.fill_(value)


def counted(env: Any, value: float = 1.0) -> torch.Tensor:
    return torch.full((env.num_envs,), value, device=env.device)


@twin_of(counted)
@not_capturable("it counts on the host")
def counted_warp(env: Any, out: wp.array, value: float = 1.0) -> None:
    calls["counted"] += 1
    out.fill_(value)


def sometimes(env: Any, value: float = 1.0, on_host: bool = False) -> torch.Tensor:
    return torch.full((env.num_envs,), value, device=env.device)


@twin_of(sometimes)
@not_capturable("on_host is set", unless=lambda params: not params["on_host"])
def sometimes_warp(env: Any, out: wp.array, value: float = 1.0, on_host: bool = False) -> None:
    calls[f"on_host={on_host}"] += 1
    out.fill_(value)


class tallied(ManagerTermBase):
    def __call__(self, env: Any) -> torch.Tensor:
        return torch.ones(env.num_envs, device=env.device)


@twin_of(tallied)
@not_capturable("it counts on the host")
class tallied_warp(ManagerTermBase):
    """The mark is about the call: the reset is captured."""

    def __call__(self, env: Any, out: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        calls["call"] += 1
        out.fill_(1.0)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        calls["reset"] += 1


HOST_RESET = Capability(False, "reset of reward term 'term': it counts on the host")


class host_reset(ManagerTermBase):
    def __call__(self, env: Any) -> torch.Tensor:
        return torch.ones(env.num_envs, device=env.device)


@twin_of(host_reset)
class host_reset_warp(ManagerTermBase):
    def __call__(self, env: Any, out: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        calls["call"] += 1
        out.fill_(1.0)

    @not_capturable("it counts on the host")
    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        calls["reset"] += 1


def torch_only(env: Any) -> torch.Tensor:
    calls["torch_only"] += 1
    return env.scene["robot"].data.joint_pos[:, 1].abs()


def torch_event(env: Any, mask: torch.Tensor) -> None:
    calls["torch_event"] += 1


def cartpole(**rewards: RewardTermCfg) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=0.3)
    cfg.rewards |= rewards
    return cfg


def make(cfg: ManagerBasedRLEnvCfg, device: str = "cpu") -> ManagerBasedRLEnvWarp:
    return ManagerBasedRLEnvWarp(cfg, device)


def step(env: ManagerBasedRLEnvWarp, times: int = 1) -> torch.Tensor:
    """Returns the reward of the last of these steps."""
    return [env.step(torch.zeros(env.num_envs, 1, device=env.device)) for _ in range(times)][-1][1]


def test_captured_equals_eager_bitwise(monkeypatch, device):
    """With noise, delays, histories and ends of both kinds, and a rebuilt physics in the middle."""

    def run() -> tuple[ManagerBasedRLEnvWarp, list[dict[str, torch.Tensor]]]:
        cfg = cartpole()
        group = cfg.observations["policy"]
        group.enable_corruption = True
        group.terms["joint_pos_rel"].noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
        group.terms["joint_vel_rel"].delay_max_lag = 2
        group.terms["joint_vel_rel"].history_length = 2
        env = make(cfg, device)
        results = rollout(env, 60, scale=3.0)
        env.physics.rebuild()
        env.reset()
        return env, results + rollout(env, 60, seed=1, scale=3.0)

    captured, given = run()
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager, expected = run()
    assert_same_results(given, expected)
    assert sum(int(result["terminated"].sum()) for result in expected) > 0
    assert sum(int(result["truncated"].sum()) for result in expected) > 0
    assert step_report(captured).num_captures == 2  # the second after the rebuild
    assert (step_report(eager).num_graphs, step_report(eager).reason) == (0, "capture is switched off (LAB_CAPTURE=0)")


def test_every_stage_is_one_capture_split_by_the_physics_alone():
    env = make(cartpole())
    step(env, 20)
    report = step_report(env)
    assert (report.num_captures, report.islands, report.num_graphs) == (1, STEP_ISLANDS, len(STEP_ISLANDS) + 1)


def test_one_uncapturable_term_leaves_the_others_captured(device):
    cfg = cartpole(
        constant=RewardTermCfg(func=constant, weight=3.0, params={"value": 2.0}),
        counted=RewardTermCfg(func=counted, weight=0.5, params={"value": 4.0}),
    )
    env = make(cfg, device)
    step(env, 3)
    assert calls == {"constant": 1, "counted": 3}
    columns = [env.reward_manager.term_names.index(name) for name in ("constant", "counted")]
    assert (env.reward_manager.step_reward[:, columns] == torch.tensor([6.0, 2.0], device=device)).all()
    expected = env.reward_manager.step_reward.double().sum(1).float() * env.step_dt
    torch.testing.assert_close(env.reward_buf, expected)
    assert [island for island in step_report(env).islands if island != PHYSICS] == [
        "counted_warp (it counts on the host)"
    ]


def test_what_is_capturable_is_decided_per_configured_term():
    cfg = cartpole(
        device=RewardTermCfg(func=sometimes, weight=1.0),
        host=RewardTermCfg(func=sometimes, weight=1.0, params={"on_host": True}),
    )
    env = make(cfg)
    step(env, 3)
    assert calls == {"on_host=False": 1, "on_host=True": 3}


def test_the_mark_raises_if_it_is_captured_all_the_same(device):
    env = make(cartpole(), device)
    out = wp.zeros(N, dtype=wp.float32, device=env.wp_device)
    wp.capture_begin(env.wp_device)
    try:
        with pytest.raises(CaptureError, match="on_host is set"):
            sometimes_warp(env, out, on_host=True)
        sometimes_warp(env, out)
    finally:
        wp.capture_end(env.wp_device)
    assert calls == {"on_host=False": 1}


def test_a_torch_event_at_startup_leaves_the_reset_captured():
    cfg = cartpole()
    cfg.events["once"] = EventTermCfg(func=torch_event, mode="startup")
    env = make(cfg)
    step(env, 20)
    assert calls == {"torch_event": 1}
    assert env.event_manager.capturable
    assert step_report(env).islands == STEP_ISLANDS


def test_a_torch_event_at_resets_is_an_island_with_its_reason():
    cfg = cartpole()
    cfg.events["each"] = EventTermCfg(func=torch_event, mode="reset")
    env = make(cfg)
    calls.clear()
    step(env, 3)
    assert calls == {"torch_event": 3}
    assert env.event_manager.capturable.reason == "event term 'each': no Warp twin"
    assert env.event_manager.capturable.reason in " ".join(step_report(env).islands)


@pytest.mark.parametrize(
    ("term", "expected", "reset"),
    [
        pytest.param(tallied, {"call": 4, "reset": 1}, CAPABLE, id="class-marked"),
        pytest.param(host_reset, {"call": 1, "reset": 4}, HOST_RESET, id="reset-marked"),
    ],
)
def test_marks_of_a_class_and_of_its_reset_are_separate(term, expected, reset):
    env = make(cartpole(term=RewardTermCfg(func=term, weight=1.0)))
    calls.clear()  # the construction resets through another stage
    step(env, 4)
    assert calls == expected
    assert env.reward_manager.capturable == reset
    assert (reset.reason in step_report(env).islands) is not reset.ok


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_physics_and_actions_are_called_once_per_step(frontend, monkeypatch):
    """The physics owns the decimation."""
    env = make_env(cartpole(), frontend=frontend)
    counted: list[object] = []
    step_physics, apply_actions = env.physics.step, env.action_manager.apply_actions
    monkeypatch.setattr(env.physics, "step", lambda substeps: (counted.append(substeps), step_physics(substeps)))
    monkeypatch.setattr(env.action_manager, "apply_actions", lambda: (counted.append("action"), apply_actions()))
    for _ in range(4):
        env.step(torch.zeros(N, 1))
    # The action belongs to the graph: it is written in Python once, while that is captured.
    assert [item for item in counted if item != "action"] == [env.cfg.decimation] * 4
    assert counted.count("action") == (1 if frontend == "warp" else 4)


def test_a_full_log_is_said_to_be_full():
    cfg = cartpole()
    cfg.curriculum["many"] = CurriculumTermCfg(func=lambda env, mask: {f"value_{i}": 1.0 for i in range(600)})
    with pytest.raises(
        ValueError, match=r"No room to log Curriculum/many/value_\d+: at most 512 values, and there are"
    ):
        make(cfg)


def test_metrics_change_only_when_something_is_reset(device):
    env = make(cartpole(), device)
    logs = rollout(env, 60, scale=3.0)
    resets = 0
    for before, after in zip(logs, logs[1:], strict=False):
        names = [name for name in after if name.startswith("log.")]
        if after["reset_count"] == 0:
            assert all(same_bits(after[name], before[name]) for name in names)
        else:
            resets += 1
            assert any(not torch.equal(after[name], before[name]) for name in names)
    assert 0 < resets < 50


def test_a_step_does_not_wait_for_the_device(monkeypatch, device):
    """Delays and histories included. The analytic physics is the one island that is torch code."""
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")
    cfg = cartpole()
    cfg.observations["policy"].terms["joint_vel_rel"].history_length = 3
    cfg.observations["policy"].terms["joint_pos_rel"].delay_max_lag = 2
    cfg.events["each"] = EventTermCfg(func=torch_event, mode="reset")
    env = make(cfg, device)
    assert env.capture_context.sync_debug
    step(env, 30)
    assert calls["torch_event"] > 30


@pytest.mark.parametrize("func", [lambda env: torch.ones(N) * env.episode_length_buf.sum().item()])
def test_a_term_that_waits_for_the_device_raises_and_the_next_step_works(monkeypatch, func):
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")
    env = make(cartpole(waits=RewardTermCfg(func=func, weight=1.0)))
    with pytest.raises(Exception, match=r"item|host"):
        step(env)
    env.reward_manager.weights = {"waits": 0.0}
    env.request_capture("the term is gone")
    step(env)
    assert torch.ones(3).sum().item() == 3.0


def test_actions_of_any_form_make_no_new_capture(device):
    env = make(cartpole(), device)
    for i in range(60):
        value = torch.full((N, 2), float(i % 3), dtype=(torch.float32, torch.float64, torch.int64)[i % 3])
        env.step(value[:, :1].to(device) if i % 2 else value.T.contiguous().T[:, :1].to(device))
        kept = env.episode_length_buf > 0
        assert (env.action_manager.action[kept] == i % 3).all()
    assert step_report(env).num_captures == 1
    assert len(env.capture_report()) == 3


def test_indices_are_derived_once_and_only_where_asked_for(monkeypatch):
    nonzero, count = torch.Tensor.nonzero, Counter()

    def counted(self, *args, **kwargs):
        count["nonzero"] += 1
        return nonzero(self, *args, **kwargs)

    env = make(cartpole())
    monkeypatch.setattr(torch.Tensor, "nonzero", counted)
    step(env, 40)
    assert count["nonzero"] == 0

    def by_index(env: Any, mask: torch.Tensor) -> None:
        assert torch.equal(env.reset_ids(), env.reset_ids())
        assert torch.equal(mask, torch.zeros_like(mask).index_fill_(0, env.reset_ids(), True))

    cfg = cartpole()
    cfg.events["each"] = EventTermCfg(func=by_index, mode="reset")
    env = make(cfg)
    step(env)  # while it captures, the guard stands between and counts the call twice
    count.clear()
    step(env, 40)
    assert count["nonzero"] == 40


def test_managers_are_called_in_the_order_of_the_torch_front_end(monkeypatch):
    """Upstream's own call switch has no counterpart here: the step is one stage, whose order this is."""
    env = make(cartpole())
    order: list[str] = []
    watched = {
        "action_manager": ("process_actions", "apply_actions", "reset"),
        "termination_manager": ("compute", "reset"),
        "reward_manager": ("compute", "reset"),
        "command_manager": ("update_metrics", "reset", "refresh", "compute"),
        "metrics_manager": ("compute", "reset"),
        "observation_manager": ("compute_end", "reset", "compute"),
        "curriculum_manager": ("compute", "reset"),
        "event_manager": ("apply_reset", "reset"),
    }
    for owner, names in watched.items():
        for name in names:
            method = getattr(getattr(env, owner), name)
            monkeypatch.setattr(
                getattr(env, owner),
                name,
                lambda *args, what=f"{owner[:-8]}.{name}", method=method: (order.append(what), method(*args))[1],
            )
    step(env)
    assert order == [
        "action.process_actions",
        "action.apply_actions",
        "termination.compute",
        "reward.compute",
        "command.update_metrics",
        "metrics.compute",
        "command.compute",
        "observation.compute_end",
        "curriculum.compute",
        "event.apply_reset",
        "observation.reset",
        "action.reset",
        "reward.reset",
        "curriculum.reset",
        "command.reset",
        "event.reset",
        "termination.reset",
        "metrics.reset",
        "command.refresh",
        "observation.compute",
    ]


def test_terms_without_a_twin_are_islands_with_their_names():
    cfg = cartpole(torch_only=RewardTermCfg(func=torch_only, weight=1.0))
    cfg.observations["policy"].terms["angle"] = ObservationTermCfg(func=lambda env: torch_only(env)[:, None])
    cfg.terminations["far"] = TerminationTermCfg(func=lambda env: torch_only(env) > 1.0)
    cfg.curriculum["weight"] = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "alive", "weight": 2.0, "num_steps": 5}
    )
    env = make(cfg)
    step(env, 8)
    islands = " | ".join(step_report(env).islands)
    for name in (
        "reward term 'torch_only': no Warp twin",
        "observation term 'policy/angle': no Warp twin",
        "termination term 'far': no Warp twin",
        "curriculum term 'weight': no Warp twin",
    ):
        assert name in islands
    assert env.reward_manager.get_term_cfg("alive").weight == 2.0
    assert (env.reward_manager.step_reward[:, 0] == 2.0).all()
