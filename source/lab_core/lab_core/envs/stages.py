"""The stages of a step: the one list that every front end runs, marks read, and the documents show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab_core.env import Env

MarkStage = Callable[[str], object]
"""Called with the name of the stage that ends; with ``""`` where a step begins."""


class StagedEnv(Env, Protocol):
    """What a step asks of the environment that makes it, beside the methods that its stages name."""

    @property
    def is_recorded(self) -> bool:
        """Whether a recorder is attached."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a step."""

    name: str
    """What marks call it; neighbours may share a name."""
    method: str
    """Method of the environment that does it."""
    hook: str = ""
    """Argument of the method, for those that call a hook of the recorder."""
    does: str = ""
    """What it does, for the documents."""
    when: Callable[[StagedEnv], bool] | None = None
    """Whether a step of this environment has it; None: every step."""
    on_host: bool = False
    """It needs the host: front ends that capture the step run it behind their graphs."""


def _recorder(hook: str, does: str = "", on_host: bool = False) -> Stage:
    return Stage(
        name="recorder",
        method="_record",
        hook=hook,
        does=does or f"Hook `{hook}`.",
        when=lambda env: env.is_recorded,
        on_host=on_host,
    )


STEP = (
    Stage(
        name="action",
        method="_process_actions",
        does="Checks the action and stores it; each action term takes its columns.",
    ),
    _recorder("record_pre_step"),
    Stage(name="action", method="_apply_actions", does="Action terms write joint targets."),
    _recorder("record_pre_physics"),
    Stage(
        name="physics",
        method="_step_physics",
        does="`physics.step(decimation)`: the backend owns the decimation. In every substep the actuators turn targets "
        "into efforts, the solver steps, and sensors that need every substep are read; at the end derived state is "
        "refreshed. An environment that became non-finite is put back to its default state here and counted, so that "
        "nothing non-finite leaves the physics; its episode ends as terminated.",
    ),
    _recorder("record_post_physics"),
    Stage(
        name="terminations",
        method="_update_terminations",
        does="Counts the step, and decides which episodes end. Up to the rewards, terms see the state that the step "
        "led to and the command that the policy followed in it.",
    ),
    Stage(name="rewards", method="_compute_reward", does="Rewards, then metrics."),
    Stage(
        name="interval events",
        method="_apply_interval_events",
        does="Applies the events that are due, also in environments whose episodes end.",
    ),
    Stage(
        name="commands",
        method="_compute_commands",
        does="Commands move on; those whose time is up are drawn anew. With that all time of the step has passed.",
    ),
    Stage(
        name="final observations",
        method="_observe_end",
        does="`final_obs`: what the next observation would have been without the reset. Delays and histories show it, "
        "and keep nothing of it.",
        when=lambda env: env.cfg.compute_final_obs,
    ),
    _recorder("record_post_step"),
    _recorder("record_pre_reset"),
    Stage(
        name="reset",
        method="_reset_done",
        does="Resets the environments whose episodes ended, by mask: curriculum, scene (default state), reset events, "
        "managers. Class terms are reset last, in the state that the episode starts from, and commands are adapted to "
        "it. No time passes.",
    ),
    _recorder("record_post_reset"),
    Stage(
        name="observations",
        method="_observe",
        does="Observes the state that the next action acts on; delays and histories advance.",
    ),
    _recorder("finish_step", "Hook `finish_step`: all that needs the host.", on_host=True),
)
"""One step, in order."""


def run_stages(env: StagedEnv, stages: Sequence[Stage], mark: MarkStage | None = None) -> None:
    """Runs ``stages`` of a step, with marks where somebody asks for them."""
    if mark is not None:
        mark("")
    for stage in stages:
        if stage.when is None or stage.when(env):
            method = getattr(env, stage.method)
            method(stage.hook) if stage.hook else method()
            if mark is not None:
                mark(stage.name)


def step_as_markdown() -> str:
    """Returns the table of a step that stands in the documents."""
    rows = [f"| {number} | {stage.name} | {stage.does} |" for number, stage in enumerate(STEP, start=1)]
    return "\n".join(["| | Stage | Does |", "| --- | --- | --- |", *rows])
