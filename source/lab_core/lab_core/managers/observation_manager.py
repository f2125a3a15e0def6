"""Observations: groups of terms, each group one input of the learner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from lab_core.config import MISSING
from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import ManagerBase, check_tensor, function_name
from lab_core.managers.observation_term import ObservationPipeline, ObservationTermCfg, check_observation_cfg

if TYPE_CHECKING:
    from lab_core.envs import RLEnv


@dataclass(kw_only=True)
class ObservationGroupCfg:
    """Terms that are observed together."""

    terms: dict[str, ObservationTermCfg | None] = MISSING
    concatenate_terms: bool = True
    """One tensor for the group; False: a dict of one tensor per term."""
    concatenate_dim: int = -1
    """Axis of concatenation, not counting the environments' axis."""


class ObservationManager(ManagerBase[ObservationTermCfg]):
    """Computes the groups. Its terms are named ``group/term``."""

    kind = "observation"
    cfg_type = ObservationTermCfg

    def __init__(self, cfg: Mapping[str, ObservationGroupCfg | None], env: RLEnv) -> None:
        self._groups = {name: group for name, group in cfg.items() if group is not None}
        super().__init__(
            {f"{name}/{term}": value for name, group in self._groups.items() for term, value in group.terms.items()},
            env,
        )
        self._pipelines: dict[str, ObservationPipeline] = {}
        with self._undisturbed():
            for name, term in self._cfgs.items():
                self._pipelines[name] = ObservationPipeline(term, self._value(name), self._what(name), env)
        self.group_obs_term_dim: dict[str, dict[str, tuple[int, ...]]] = {}
        """Group -> term -> shape without the environments' axis."""
        self.group_obs_dim: dict[str, Any] = {}
        """Group -> shape without the environments' axis; term -> shape for a group that is not concatenated."""
        for name, group in self._groups.items():
            shapes = {term: self._pipelines[f"{name}/{term}"].shape for term in self._terms_of(name)}
            self.group_obs_term_dim[name] = shapes
            self.group_obs_dim[name] = self._joined_shape(name, group) if group.concatenate_terms else shapes

    def compute(self, update_history: bool = False) -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
        """Returns the observations, as owned copies."""
        if update_history:
            return {name: self._compute_group(name, group, True) for name, group in self._groups.items()}
        with self._undisturbed():
            return {name: self._compute_group(name, group, False) for name, group in self._groups.items()}

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        for pipeline in self._pipelines.values():
            pipeline.reset(mask)
        return {}

    def set_term_cfg(self, name: str, cfg: ObservationTermCfg) -> None:
        super().set_term_cfg(name, cfg)
        self._pipelines[name].cfg = self._cfgs[name]

    def _value(self, name: str) -> torch.Tensor:
        value = self._call(name)
        if not isinstance(value, torch.Tensor) or value.dim() < 2:
            check_tensor(value, (self.num_envs, -1), self._what(name))
        check_tensor(value, (self.num_envs, *value.shape[1:]), self._what(name))
        return value

    def _terms_of(self, group: str) -> list[str]:
        return [name.removeprefix(f"{group}/") for name in self._cfgs if name.startswith(f"{group}/")]

    def _compute_group(
        self, name: str, group: ObservationGroupCfg, update: bool
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        values = {}
        for term in self._terms_of(name):
            key = f"{name}/{term}"
            values[term] = self._pipelines[key](self._value(key), update)
        if not group.concatenate_terms:
            return {term: value.clone() for term, value in values.items()}
        dim = group.concatenate_dim
        return torch.cat(list(values.values()), dim=dim + 1 if dim >= 0 else dim)

    def _joined_shape(self, name: str, group: ObservationGroupCfg) -> tuple[int, ...]:
        shapes = self.group_obs_term_dim[name]
        try:
            joined = torch.cat([torch.empty(1, *s, device="meta") for s in shapes.values()], dim=group.concatenate_dim)
        except RuntimeError as error:
            raise TermError(f"observation group {name!r} cannot be concatenated: {shapes}.") from error
        return tuple(joined.shape[1:])

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Puts the random generator and all state of the terms back at the end."""
        generator = self._env.generator.get_state()
        state = self.state_dict()
        try:
            yield
        finally:
            self._env.generator.set_state(generator)
            self.load_state_dict(state)

    def _check_cfg(self, name: str, cfg: ObservationTermCfg) -> None:
        check_observation_cfg(cfg, self._what(name))

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [[name, function_name(cfg.func), self._pipelines[name].shape] for name, cfg in self._cfgs.items()]
        return ["name", "function", "shape"], rows
