"""Observations: groups of terms, each group one input of the learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch

from lab_core.config import MISSING, Settings
from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.checks import is_tensor, wrong_tensor
from lab_core.managers.errors import TermError, UnknownTermError
from lab_core.managers.function_terms import FunctionTerms, TorchTerms
from lab_core.managers.manager_base import function_name
from lab_core.managers.observation_term import ObservationPipeline, ObservationTermCfg, check_observation_cfg
from lab_core.masks import masked_copy_
from lab_core.signals import NoiseCfg
from lab_core.state import named_tensors

GroupObservation: TypeAlias = torch.Tensor | dict[str, torch.Tensor]


@dataclass(kw_only=True)
class ObservationGroupCfg(Settings):
    """Terms that are observed together."""

    terms: dict[str, ObservationTermCfg | None] = MISSING
    enable_corruption: bool = False
    """Whether the terms' noise is added."""
    concatenate_terms: bool = True
    """One tensor for the group; False: a dict of one tensor per term."""
    concatenate_dim: int = -1
    """Axis of concatenation, not counting the environments' axis."""
    history_length: int | None = None
    """Replaces the terms' own."""
    history_order: Literal["term", "time"] = "term"
    """Order of a concatenated history: term by term, each from the oldest value to the newest; or time by time, each
    with all terms, which needs ``history_length`` and flattened terms."""


class ObservationTerms(FunctionTerms[ObservationTermCfg]):
    """Holds groups, their shapes and what follows the functions of terms, in all front ends. In messages and look-ups a
    term is called ``group/term``.

    Raises:
        TermError: a term or group is wrong; every function is called once to know the shapes, without a trace in the
            random generator or in the state of class terms.
    """

    kind = "observation"
    cfg_type = ObservationTermCfg

    def __init__(self, cfg: Mapping[str, ObservationGroupCfg | None], env: Env) -> None:
        self._groups: dict[str, ObservationGroupCfg] = {}
        self._pipelines: dict[str, ObservationPipeline] = {}
        self._none = self.scratch(torch.zeros(env.num_envs, dtype=torch.bool, device=env.device))
        self._everyone = self.scratch(~self._none)
        terms: dict[str, ObservationTermCfg] = {}
        for name, group in cfg.items():
            if group is not None:
                terms |= _terms_of_group(name, group)
                self._groups[name] = replace(group)
        super().__init__(terms, env)
        self._group_terms = {
            name: {term: f"{name}/{term}" for term, term_cfg in group.terms.items() if term_cfg is not None}
            for name, group in self._groups.items()
        }
        self.group_obs_term_dim: dict[str, dict[str, tuple[int, ...]]] = {}
        """Group -> term -> shape without the environments' axis."""
        self.group_obs_dim: dict[str, Any] = {}
        """Group -> shape without the environments' axis; a dict of term -> shape if it is not concatenated."""
        with self._looking():
            for name, group in self._groups.items():
                self._measure_group(name, group)

    def set_term_cfg(self, name: str, cfg: ObservationTermCfg) -> None:
        """As for every manager; what decides shapes and memory is fixed."""
        super().set_term_cfg(name, cfg)
        self._pipelines[name].set_cfg(self._cfgs[name])

    def group_terms(self, group: str) -> list[str]:
        """Returns the terms of a group in order, as ``group/term``.

        Raises:
            UnknownTermError: there is no such group.
        """
        if group not in self._group_terms:
            raise UnknownTermError(unknown_name_message("observation group", group, self._group_terms))
        return list(self._group_terms[group].values())

    def memories(self, name: str) -> list[str]:
        """Returns the settings of term ``group/term`` by which its values depend on those of the steps before."""
        self._require(name)
        return self._pipelines[name].memories

    def compute_for(
        self, env: Any, group: str, add_noise: Callable[[NoiseCfg, torch.Tensor], torch.Tensor] | None = None
    ) -> GroupObservation:
        """Returns a group as seen in another environment than the manager's, such as an imagined one of any batch.

        Functions, clips, scales and the way they are joined are the group's own. Memories are not used: see
        :meth:`memories`.

        Args:
            env: What the functions read.
            group: Name of the group.
            add_noise: Called with the noise of a term and its values (K, ...), where the group is corrupted; None:
                no noise.
        """
        values: dict[str, torch.Tensor] = {}
        for term, name in self._group_terms[group].items():
            value, noise = self.call_for(name, env), self._cfgs[name].noise
            if add_noise is not None and noise is not None and self._groups[group].enable_corruption:
                value = add_noise(noise, value)
            values[term] = self._pipelines[name].clip_and_scale(value)
        return _join(self._groups[group], values) if self._groups[group].concatenate_terms else values

    def _value(self, name: str) -> torch.Tensor:
        """Calls a term's function."""
        value = self._call(name)
        if name in self._pipelines:
            shape = self._pipelines[name].value_shape
            if not is_tensor(value, shape):
                raise wrong_tensor(value, shape, self._what(name))
        elif not isinstance(value, torch.Tensor) or value.dim() < 2 or value.shape[0] != self.num_envs:
            given = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise TermError(f"{self._what(name)} must return a tensor ({self.num_envs}, D, ...), got {given}.")
        return value

    def _compute_terms(self, group: str, advance: torch.Tensor | None) -> dict[str, torch.Tensor]:
        corrupt = self._groups[group].enable_corruption
        return {
            term: self._pipelines[name](self._value(name), corrupt, advance)
            for term, name in self._group_terms[group].items()
        }

    def _compute_group(self, name: str, advance: torch.Tensor | None) -> GroupObservation:
        group = self._groups[name]
        values = self._compute_terms(name, advance)
        return _join(group, values) if group.concatenate_terms else {k: value.clone() for k, value in values.items()}

    def _measure_group(self, name: str, group: ObservationGroupCfg) -> None:
        """Builds the pipelines of a group and finds its shapes."""
        for term in self._group_terms[name].values():
            value = self._value(term)
            time_major = group.history_order == "time"
            self._pipelines[term] = ObservationPipeline(
                self._cfgs[term], value, self._what(term), self._env, time_major
            )
        values = self._compute_terms(name, self._none)
        shapes = {term: tuple(value.shape[1:]) for term, value in values.items()}
        self.group_obs_term_dim[name] = self.group_obs_dim[name] = shapes
        if group.concatenate_terms:
            try:
                self.group_obs_dim[name] = tuple(_join(group, values).shape[1:])
            except (RuntimeError, IndexError) as error:
                raise TermError(
                    f"observation group {name!r} cannot be concatenated along axis {group.concatenate_dim}: {shapes}."
                ) from error

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Puts the random generator and the state of class terms back at the end."""
        generator = self._env.generator.get_state()
        try:
            with self._rows_kept(self._everyone):
                yield
        finally:
            self._env.generator.set_state(generator)

    @contextmanager
    def _rows_kept(self, mask: torch.Tensor) -> Iterator[None]:
        """Puts the rows of ``mask`` (N,) bool of the state of class terms back at the end."""
        if not self._class_terms:
            yield
            return
        tensors = named_tensors(self._class_terms)
        saved = {path: tensor.clone() for path, tensor in tensors.items()}
        try:
            yield
        finally:
            for path, tensor in tensors.items():
                if tensor.dim() and tensor.shape[0] == self.num_envs:
                    masked_copy_(tensor, saved[path], mask)
                else:
                    tensor.copy_(saved[path])

    def _check_cfg(self, name: str, cfg: ObservationTermCfg) -> None:
        check_observation_cfg(cfg, self._what(name))
        if name in self._pipelines:
            self._pipelines[name].check_change(cfg)

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [
            [f"{group}/{term}", function_name(self._cfgs[f"{group}/{term}"].func), shape]
            for group, shapes in self.group_obs_term_dim.items()
            for term, shape in shapes.items()
        ]
        return ["name", "function", "shape"], rows


class ObservationManager(ObservationTerms, TorchTerms[ObservationTermCfg]):
    """Computes the groups."""

    def compute(self, update_history: bool | torch.Tensor = False) -> dict[str, GroupObservation]:
        """Returns the observations: group -> (N, D), or term -> (N, ...) for a group that is not concatenated.

        They are owned copies.

        Args:
            update_history: True: a step has been made, and delays, histories and modifiers take its values in.
                False: only look, with the present values as the newest; nothing changes, nor does the random
                generator. Mask (N,) bool: take values in only there, as after a reset of these environments.
        """
        if update_history is True:
            return {name: self._compute_group(name, None) for name in self._groups}
        if update_history is False:
            with self._looking():
                return {name: self._compute_group(name, self._none) for name in self._groups}
        with self._rows_kept(~update_history):
            return {name: self._compute_group(name, update_history) for name in self._groups}

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        for pipeline in self._pipelines.values():
            pipeline.reset(mask)
        return {}


def _terms_of_group(name: str, group: ObservationGroupCfg) -> dict[str, ObservationTermCfg]:
    """Checks a group and returns its terms by full name, with the group's history length."""
    what = f"observation group {name!r}"
    if not isinstance(group, ObservationGroupCfg):
        raise TermError(f"{what}: expected ObservationGroupCfg, got {type(group).__name__}.")
    terms = {f"{name}/{term}": cfg for term, cfg in group.terms.items() if cfg is not None}
    if not terms:
        raise TermError(f"{what} has no terms; set the group to None instead.")
    if group.history_length is not None:
        terms = {term: replace(cfg, history_length=group.history_length) for term, cfg in terms.items()}
    if group.history_order not in ("term", "time"):
        raise TermError(f"{what}: history_order must be 'term' or 'time', got {group.history_order!r}.")
    if group.history_order == "time":
        flat = all(cfg.flatten_history for cfg in terms.values())
        if not (group.history_length and group.concatenate_terms and group.concatenate_dim == -1 and flat):
            raise TermError(
                f"{what}: history_order='time' needs a history_length of the group, concatenate_terms, "
                "concatenate_dim=-1 and flatten_history in every term."
            )
    return terms


def _join(group: ObservationGroupCfg, values: dict[str, torch.Tensor]) -> torch.Tensor:
    dim = group.concatenate_dim
    joined = torch.cat(list(values.values()), dim=dim + 1 if dim >= 0 else dim)
    return joined.flatten(start_dim=1) if group.history_order == "time" else joined
