"""Marks between the stages of a step, for whoever measures how long each takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

MarkStage = Callable[[str], object]
"""Called with the name of the stage that ends; with ``""`` where a step begins."""


@dataclass(frozen=True)
class StageHook:
    """A method that an environment calls in its step, and the stage that it ends."""

    method: str
    """Path from the environment, for example ``"physics.step"``."""
    stage: str
    when: Callable[..., bool] = lambda *args, **kwargs: True
    """Whether a call with these arguments is one of the step."""


TORCH_STEP = (
    StageHook("_process_action", "action"),
    StageHook("recorder_manager.record_pre_step", "recorder"),
    StageHook("_apply_action", "action"),
    StageHook("recorder_manager.record_pre_physics", "recorder"),
    StageHook("physics.step", "physics"),
    StageHook("recorder_manager.record_post_physics", "recorder"),
    StageHook("_compute_dones", "terminations"),
    StageHook("_compute_reward", "rewards"),
    StageHook("_compute_observations", "final observations", when=lambda update_history: update_history is False),
    StageHook("recorder_manager.record_post_step", "recorder"),
    StageHook("recorder_manager.record_pre_reset", "recorder"),
    StageHook("_reset_worlds", "reset"),
    StageHook("recorder_manager.record_post_reset", "recorder"),
    StageHook("_compute_commands", "commands"),
    StageHook("_apply_interval_events", "interval events"),
    StageHook("_compute_observations", "observations", when=lambda update_history: update_history is True),
    StageHook("recorder_manager.finish_step", "recorder"),
)
"""The step of :class:`lab_core.envs.RLEnv`."""


@contextmanager
def marked_stages(env: object, hooks: Sequence[StageHook], mark: MarkStage) -> Iterator[None]:
    """Inside, ``env`` calls ``mark`` before the first of ``hooks``, where a step begins, and after each of them."""
    with ExitStack() as stack:
        for i, hook in enumerate(hooks):
            path, _, name = hook.method.rpartition(".")
            owner = attrgetter(path)(env) if path else env
            _replace(stack, owner, name, _marking(getattr(owner, name), hook, mark, is_first=i == 0))
        yield


def _marking(method: Callable[..., Any], hook: StageHook, mark: MarkStage, is_first: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    def marking(*args: Any, **kwargs: Any) -> Any:
        if not hook.when(*args, **kwargs):
            return method(*args, **kwargs)
        if is_first:
            mark("")
        result = method(*args, **kwargs)
        mark(hook.stage)
        return result

    return marking


def _replace(stack: ExitStack, owner: object, name: str, method: Callable[..., Any]) -> None:
    """Gives ``owner`` a method of its own, until the stack is closed."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, method)
