"""What to record, and how much of it to keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lab_core.config import MISSING, Settings
from lab_core.datasets.config import DatasetCfg
from lab_core.managers.function_terms import TermCfg

Phase = Literal["pre_step", "pre_physics", "post_physics", "post_step", "post_reset"]
"""When a term is read.

``pre_step``: the action is taken over, nothing has moved: the observation that the policy was given, the action, the
state before the step. ``pre_physics``: joint targets are written, the physics is about to run. ``post_physics``: it has
run, all substeps of it: the state that the step led to, also in environments that are done. ``post_step``: what ended,
rewards and final observations are known, interval events have acted and commands have moved on, nothing has been reset:
the state that the next step would begin with. ``post_reset``: once per episode, when it begins.
"""
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(kw_only=True)
class RecorderTermCfg(TermCfg):
    """``func(env, **params) -> value`` with value (N, ...), a nested dict of such, or :class:`MaskedRows`.

    The function is called once when the recorder is built; the shapes and types that it returns then are those of its
    buffers. It may return live buffers of the environment, which are copied, must draw nothing at random and change
    nothing. An empty dict records nothing.

    ``capturable`` lets the Warp front end take it into the graph of the step, a class with its ``reset``; it must
    then read buffers that keep their addresses. The terms of :mod:`lab_core.recorder.terms` need no such word.
    """

    phase: Phase = MISSING
    key: str | None = None
    """Where its values are stored; ``/`` nests. None: the name of the term."""


@dataclass(kw_only=True)
class RetentionCfg(Settings):
    """Keeps the running episode of every environment in a ring, until it has ended and been handed on."""

    max_episode_length: int | None = None
    """Steps that are kept of an episode. None: the environment's ``max_episode_length``."""
    on_overflow: Literal["error", "drop_oldest"] = "error"
    """What happens when an episode grows longer than this. ``drop_oldest`` keeps its latest steps; the episode says how
    many were dropped and has no initial state to replay from."""
    memory_limit_gib: float = 8.0
    """The recorder refuses to start when the ring would take more."""


@dataclass(kw_only=True)
class RecorderCfg(Settings):
    """A recorder; an environment whose configuration has one records from its first step on."""

    terms: dict[str, RecorderTermCfg | None] = MISSING
    """What to record; see :mod:`lab_core.recorder.presets`."""
    retention: RetentionCfg | None = field(default_factory=RetentionCfg)
    """None: nothing is kept, for consumers that take each step as it comes."""
    dataset: DatasetCfg | None = None
    """Files to write; needs ``retention``."""
    success: str | Callable[..., Any] | None = None
    """Which episodes succeed: those that end in a step in which this termination term, or ``func(env) -> (N,) bool``,
    is true. None: the termination term ``success`` if the task has one; else no episode does."""
    success_capturable: bool = False
    """Whether a graph may hold that function; see :attr:`TermCfg.capturable`."""
    poison_views: bool = False
    """Debugging: fill the buffers with NaN when a new step begins, so that a consumer that reads too late notices."""
