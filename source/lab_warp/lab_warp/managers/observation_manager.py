"""Observations as Warp code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
import warp as wp

from lab_core.capability import Capability, all_capable
from lab_core.managers import (
    GroupObservation,
    ManagerTermBase,
    ObservationGroupCfg,
    ObservationTermCfg,
    ObservationTerms,
)
from lab_core.state import named_tensors
from lab_warp.capture import Island, eager
from lab_warp.env import WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.noise import finish_columns, has_no_memory, noise_settings
from lab_warp.managers.terms import WarpTerms
from lab_warp.twins import find_twin
from lab_warp.views import Shared, shared

_SETTINGS = ("kind", "operation", "first", "second", "low", "high", "scale")
_WHOLE = ("kind", "operation")
"""Those that are whole numbers."""
_Side: TypeAlias = Literal["now", "end"]


class Group:
    """Buffers of one group: its columns now, those of the end of the step, and how each column is finished."""

    def __init__(
        self, cfg: ObservationGroupCfg, shapes: dict[str, tuple[int, ...]], num_envs: int, device: Any
    ) -> None:
        """``shapes``: term -> shape of what the policy sees of it, without the environments' axis."""
        self.cfg = cfg
        widths = [math.prod(shape) for shape in shapes.values()]
        self.columns = {name: slice(sum(widths[:i]), sum(widths[: i + 1])) for i, name in enumerate(shapes)}
        self.values = {side: torch.zeros(num_envs, sum(widths), device=device) for side in ("now", "end")}
        self.observations: dict[str, GroupObservation] = {
            side: values
            if cfg.concatenate_terms
            else {name: values[:, self.columns[name]].view(num_envs, *shape) for name, shape in shapes.items()}
            for side, values in self.values.items()
        }
        self.warp = {side: wp.from_torch(values) for side, values in self.values.items()}
        self.out = {
            side: {name: shared(values[:, columns]) for name, columns in self.columns.items()}
            for side, values in self.values.items()
        }
        """Side -> term -> its columns."""
        self._settings = [
            shared(torch.zeros(sum(widths), dtype=torch.int32 if name in _WHOLE else torch.float32, device=device))
            for name in _SETTINGS
        ]
        self.settings = [setting.warp for setting in self._settings]
        """(D,) each, as :func:`kernels.finish_observation` takes them."""
        self._copied: Any = None
        self.is_noisy = False
        """Whether a column draws at random."""

    def copy_settings(self, terms: dict[str, _Finish]) -> None:
        """Hands changed noise, clips and scales to the device."""
        if terms == self._copied:
            return
        for i in range(len(_SETTINGS)):
            numbers: list[float] = []
            for term, columns in self.columns.items():
                value = terms[term][i]
                width = columns.stop - columns.start
                numbers += list(value) if isinstance(value, tuple) else [value] * width
            buffer = self._settings[i].torch
            buffer.copy_(torch.tensor(numbers, dtype=buffer.dtype))
        self._copied = terms
        self.is_noisy = any(kind in (kernels.UNIFORM, kernels.GAUSSIAN) for kind, *_ in terms.values())


_Finish = tuple[int, int, float, float, float, float, float | tuple[float, ...]]
"""Values of ``_SETTINGS`` for the columns of one term."""
_NOTHING: _Finish = (kernels.NO_NOISE, kernels.ADD, 0.0, 0.0, -math.inf, math.inf, 1.0)


@dataclass
class _Kind:
    """How a term is computed."""

    is_plain: bool
    """Its twin writes into the group, whose last kernel adds noise, clips and scales."""
    value: Shared | None
    """Where the twin writes for a pipeline in torch; None: the function runs in torch too."""


class ObservationManagerWarp(WarpTerms, ObservationTerms):
    """Computes the groups. Twins write into the columns of their group, and one kernel per group finishes them.

    Terms with modifiers, delays, histories or noise that has a memory go on in torch, between two graphs. So do classes
    with a memory, though they have a twin: the end of a step is observed without a trace in it.
    """

    def __init__(self, cfg: Mapping[str, ObservationGroupCfg | None], env: WarpEnv) -> None:
        self._kinds: dict[str, _Kind] = {}
        super().__init__(cfg, env)  # in torch, which finds the shapes and the memories
        self._group_buffers = {name: self._make_group(name, group) for name, group in self._groups.items()}
        for name in self._cfgs:
            self._choose(name, self._cfgs[name])
        self._fix_terms()
        self.copy_settings()

    @property
    def now(self) -> dict[str, GroupObservation]:
        """Group -> latest observation: live buffers."""
        return {name: group.observations["now"] for name, group in self._group_buffers.items()}

    @property
    def end(self) -> dict[str, GroupObservation]:
        """Group -> observation of the end of the latest step, before resets: live buffers."""
        return {name: group.observations["end"] for name, group in self._group_buffers.items()}

    @property
    def capturable(self) -> Capability:
        memories = [self._what(name) for name, kind in self._kinds.items() if not kind.is_plain]
        return all_capable([super().capturable, *(Capability(False, f"{what} has a memory") for what in memories)])

    def copy_settings(self) -> None:
        """Hands changed noise, clips and scales to the device; called between steps.

        Raises:
            TermError: a scale has another length than its term.
        """
        for name, kind in self._kinds.items():
            if kind.is_plain and not _is_plain(self._cfgs[name]):
                self._kinds[name] = self._with_memory(name)
                self._env.request_capture(f"{self._what(name)} has a memory now")
        for name, group in self._group_buffers.items():
            corrupt, was_noisy = self._groups[name].enable_corruption, group.is_noisy
            group.copy_settings(
                {
                    term: self._finish(full, corrupt) if self._kinds[full].is_plain else _NOTHING
                    for term, full in self._group_terms[name].items()
                    if term in group.columns
                }
                or {"": _NOTHING}
            )
            if group.is_noisy is not was_noisy:
                self._env.request_capture(f"noise of observation group {name!r} came or went")

    def compute(self, mask: Shared | None = None) -> None:
        """Computes the observations after a step. Delays, histories and random streams move on: in all environments,
        or in those of ``mask``."""
        self._compute_side("now", mask)

    def compute_end(self) -> None:
        """Computes the observations of the end of the step, without a trace in memories and random streams."""
        self._compute_side("end", None)

    def reset(self, mask: Shared) -> None:
        """Starts new episodes in the environments of ``mask``."""
        self._reset_class_terms(mask)
        pipelines = [self._pipelines[name] for name, kind in self._kinds.items() if not kind.is_plain]
        if pipelines:
            reset = [partial(pipeline.reset, mask.torch) for pipeline in pipelines]
            eager(Island("memory of observation terms", lambda: [each() for each in reset]))

    def _compute_side(self, side: _Side, mask: Shared | None) -> None:
        ahead = 0
        for name, group in self._group_buffers.items():
            if not _is_flat(group.cfg, self.group_obs_term_dim[name]):
                eager(Island(f"observation group {name!r}: its axes", self._compute_in_torch), name, side, mask)
                continue
            for term, full in self._group_terms[name].items():
                kind, out = self._kinds[full], group.out[side][term]
                if kind.is_plain:
                    self._evaluate(full, out)
                    continue
                if kind.value is not None:
                    self._evaluate(full, kind.value)
                what = f"{self._what(full)}: " + ("its memory" if find_twin(self._cfgs[full].func) else "no Warp twin")
                eager(Island(what, self._pipe), full, out.torch, side, mask)
            draws = group.is_noisy and side == "now"
            finish_columns(self._env, group.warp[side], group.settings, mask and mask.warp, draws, ahead)
            if group.is_noisy and not draws:
                ahead += 1

    def _pipe(self, name: str, out: torch.Tensor, side: _Side, mask: Shared | None) -> None:
        """Computes what follows the function of a term, and the function where it has no twin, in torch."""
        group, _, _ = name.partition("/")
        advance, context = self._advance(side, mask)
        with context:
            given = self._kinds[name].value
            value = self._value(name) if given is None else given.torch
            out.copy_(self._pipelines[name](value, self._groups[group].enable_corruption, advance).flatten(start_dim=1))

    def _compute_in_torch(self, name: str, side: _Side, mask: Shared | None) -> None:
        advance, context = self._advance(side, mask)
        with context:
            observation = self._compute_group(name, advance)
        assert isinstance(observation, torch.Tensor)
        self._group_buffers[name].values[side].copy_(observation.flatten(start_dim=1))

    def _advance(self, side: _Side, mask: Shared | None) -> tuple[torch.Tensor | None, AbstractContextManager[None]]:
        """Returns the environments (N,) bool whose memories in torch move on (None: all), and what keeps the others."""
        if side == "end":
            return self._none, self._looking()
        return (None, nullcontext()) if mask is None else (mask.torch, self._rows_kept(~mask.torch))

    def _finish(self, name: str, corrupt: bool) -> _Finish:
        cfg, pipeline = self._cfgs[name], self._pipelines[name]
        if isinstance(cfg.scale, Sequence) and len(cfg.scale) != pipeline.value_shape[-1]:
            pipeline.check_change(cfg)  # raises, as in torch
        return _finish(cfg, corrupt)

    def _choose(self, name: str, cfg: ObservationTermCfg) -> None:
        """Decides how a term is computed. A class, which exists in torch so far, becomes its twin where that may be."""
        self._kinds[name] = kind = self._kind(name, cfg)
        twin = find_twin(cfg.func)
        if isinstance(twin, type) and (kind.is_plain or kind.value is not None):
            self._class_terms[name] = self._build(twin, name, cfg)

    def _kind(self, name: str, cfg: ObservationTermCfg) -> _Kind:
        group, shape = name.partition("/")[0], self._pipelines[name].value_shape
        flat = _is_flat(self._groups[group], self.group_obs_term_dim[group])
        has_memory = bool(named_tensors(self._class_terms.get(name)))
        if not flat or find_twin(cfg.func) is None or len(shape) != 2 or has_memory:
            return _Kind(is_plain=False, value=None)
        if _is_plain(cfg):
            return _Kind(is_plain=True, value=None)
        return self._with_memory(name)

    def _with_memory(self, name: str) -> _Kind:
        value = torch.zeros(self._pipelines[name].value_shape, device=self.device)
        return _Kind(is_plain=False, value=shared(value))

    def _make_group(self, name: str, cfg: ObservationGroupCfg) -> Group:
        if _is_flat(cfg, self.group_obs_term_dim[name]):
            return Group(cfg, self.group_obs_term_dim[name], self.num_envs, self.device)
        shape = self.group_obs_dim[name]
        group = Group(cfg, {"": shape}, self.num_envs, self.device)
        group.observations = {side: values.view(self.num_envs, *shape) for side, values in group.values.items()}
        return group

    def _term_class(self, cfg: ObservationTermCfg) -> type[ManagerTermBase]:
        return cfg.func  # pyright: ignore[reportReturnType]

    def _build_class_term(self, name: str, cfg: ObservationTermCfg) -> None:
        super()._build_class_term(name, cfg)
        if name in self._kinds:  # else shapes are not known yet
            self._choose(name, cfg)

    def _fix(self, name: str) -> None:
        super()._fix(name)
        if name not in self._class_terms:
            self._kinds[name] = self._kind(name, self._cfgs[name])

    def _captured_settings(self, cfg: ObservationTermCfg) -> tuple[Any, ...]:
        return (*super()._captured_settings(cfg), _is_plain(cfg))


def _is_flat(cfg: ObservationGroupCfg, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether the terms of a group lie side by side in one row of columns."""
    if not cfg.concatenate_terms:
        return True
    return cfg.history_order == "term" and all(len(shape) == 1 for shape in shapes.values())


def _is_plain(cfg: ObservationTermCfg) -> bool:
    no_memory = cfg.delay_max_lag == 0 and cfg.delay_hold_prob == 0.0 and cfg.history_length == 0
    return no_memory and not cfg.modifiers and has_no_memory(cfg.noise)


def _finish(cfg: ObservationTermCfg, corrupt: bool) -> _Finish:
    low, high = (-math.inf, math.inf) if cfg.clip is None else cfg.clip
    scale = 1.0 if cfg.scale is None else tuple(cfg.scale) if isinstance(cfg.scale, Sequence) else cfg.scale
    return *noise_settings(cfg.noise if corrupt else None), low, high, scale
