"""The order in which an environment calls its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv, stages
from lab_core.recorder import RecorderHooks
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

WATCHED = {
    "action_manager": ("process_actions", "apply_actions", "reset"),
    "observation_manager": ("compute", "reset"),
    "reward_manager": ("compute", "reset"),
    "termination_manager": ("compute", "reset"),
    "event_manager": ("apply", "reset"),
    "command_manager": ("update_metrics", "compute", "refresh", "reset"),
    "curriculum_manager": ("compute", "reset"),
    "metrics_manager": ("compute", "reset"),
    "recorder_manager": (
        *("record_pre_step", "record_pre_physics", "record_post_physics", "record_post_step"),
        *("record_pre_reset", "record_post_reset"),
        *("reset", "interrupt", "finish_step"),
    ),
    "physics": ("step", "reset", "forward"),
    "scene": ("set_state",),
}

RESET = [
    "curriculum_manager.compute",
    "physics.reset",
    "event_manager.apply(reset)",
    "observation_manager.reset",
    "action_manager.reset",
    "reward_manager.reset",
    "curriculum_manager.reset",
    "command_manager.reset",
    "event_manager.reset",
    "termination_manager.reset",
    "metrics_manager.reset",
    "recorder_manager.reset",
    "physics.forward",
    "command_manager.refresh",
]


class Watched(RecorderHooks):
    """Not the one that stands for no recorder."""


@pytest.fixture
def env() -> Iterator[ManagerBasedRLEnv]:
    env = ManagerBasedRLEnv(analytic_cartpole_env_cfg(num_envs=3))
    env.set_recorder(Watched())
    yield env
    env.close()


@pytest.fixture
def calls(env: ManagerBasedRLEnv, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    log: list[str] = []

    def watch(owner: str, method: str) -> None:
        original = getattr(getattr(env, owner), method)

        def wrapper(*args, **kwargs):
            detail = {"apply": lambda: f"({args[0]})", "compute": lambda: ""}.get(method, lambda: "")()
            if owner == "observation_manager" and method == "compute":
                history = kwargs["update_history"]
                detail = f"(update_history={history if isinstance(history, bool) else 'mask'})"
            log.append(f"{owner}.{method}{detail}")
            return original(*args, **kwargs)

        monkeypatch.setattr(getattr(env, owner), method, wrapper)

    for owner, methods in WATCHED.items():
        for method in methods:
            watch(owner, method)
    return log


CALLS = {
    "_process_actions": ["action_manager.process_actions"],
    "_apply_actions": ["action_manager.apply_actions"],
    "_step_physics": ["physics.step"],
    "_update_terminations": ["termination_manager.compute"],
    "_compute_reward": ["reward_manager.compute", "command_manager.update_metrics", "metrics_manager.compute"],
    "_observe_end": ["observation_manager.compute(update_history=False)"],
    "_reset_done": RESET,
    "_compute_commands": ["command_manager.compute"],
    "_apply_interval_events": [],
    "_observe": ["observation_manager.compute(update_history=True)"],
}
"""What each stage calls, but for hooks of the recorder."""

STEP = [call for stage in stages.STEP for call in CALLS.get(stage.method, [f"recorder_manager.{stage.hook}"])]


def test_the_stages_of_a_step():
    """The order that results, recordings and documents depend on."""
    assert [stage.hook or stage.name for stage in stages.STEP] == [
        "action",
        "record_pre_step",
        "action",
        "record_pre_physics",
        "physics",
        "record_post_physics",
        "terminations",
        "rewards",
        "interval events",
        "commands",
        "final observations",
        "record_post_step",
        "record_pre_reset",
        "reset",
        "record_post_reset",
        "observations",
        "finish_step",
    ]


def test_the_document_shows_the_stages():
    document = Path(__file__).parents[4] / "docs" / "environments.md"
    assert stages.step_as_markdown() in document.read_text(encoding="utf-8")


def test_step_order(env, calls):
    env.step(torch.zeros(3, 1))
    assert calls == STEP


def test_step_order_with_interval_events_and_without_final_obs(env, calls, monkeypatch):
    env.cfg.compute_final_obs = False
    monkeypatch.setattr(env.event_manager, "has_mode", lambda mode: True)
    env.step(torch.zeros(3, 1))
    expected = [call for call in STEP if call != "observation_manager.compute(update_history=False)"]
    place = expected.index("command_manager.compute")
    expected[place:place] = ["event_manager.apply(interval)", "physics.forward"]
    assert calls == expected


def test_reset_order(env, calls):
    env.reset()
    assert calls == [
        "recorder_manager.interrupt",
        "recorder_manager.record_pre_reset",
        *RESET,
        "recorder_manager.record_post_reset",
        "observation_manager.compute(update_history=mask)",
    ]


def test_reset_to_order(env, calls):
    """As a reset; the given state replaces the drawn one before any manager is reset."""
    env.reset_to(env.scene.get_state())
    drawn = RESET.index("event_manager.apply(reset)") + 1
    assert calls == [
        "recorder_manager.interrupt",
        "recorder_manager.record_pre_reset",
        *RESET[:drawn],
        "scene.set_state",
        *RESET[drawn:],
        "recorder_manager.record_post_reset",
        "observation_manager.compute(update_history=mask)",
    ]


def test_physics_owns_the_decimation(env, monkeypatch):
    substeps = []
    original = env.physics.step
    monkeypatch.setattr(env.physics, "step", lambda n: (substeps.append(n), original(n)))
    env.step(torch.zeros(3, 1))
    assert substeps == [2]
