"""Terms that are objects: actions and commands, as twins or in torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import torch
import warp as wp

from lab_core.managers import BuiltTerm, BuiltTermManager
from lab_warp.capture import eager
from lab_warp.env import WarpEnv
from lab_warp.managers.terms import Island
from lab_warp.twins import find_twin

TermT = TypeVar("TermT", bound=BuiltTerm)


class WarpBuiltTerms(BuiltTermManager[TermT]):
    """Mixin for the torch managers: builds the twin of a term's configuration where there is one.

    A term without a twin runs in torch, between two graphs. What twins of other terms read of it, as they read it of a
    twin, is ``term.warp.<property>``: a copy at one address, since torch code may make a new tensor in every call.
    """

    _env: WarpEnv
    _shared: ClassVar[str]
    """The property of a term that twins of other terms read, as float32."""
    _state_exclude = ("_copies",)

    def __init__(self, cfg: Mapping[str, Any], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._copies: dict[str, torch.Tensor] = {}
        for name, term in self._terms.items():
            if not self._is_twin(name) and not hasattr(term, "warp"):
                values = torch.zeros(self._shared_shape(term), device=env.device)
                self._copies[name] = values
                vars(term)["warp"] = SimpleNamespace(**{self._shared: wp.from_torch(values)})

    def copy_shared(self) -> None:
        """Shows to twins what terms in torch hold now; called between steps."""
        for name in self._copies:
            self._copy(name)

    @property
    def recordable(self) -> bool:
        """Whether all terms can be recorded."""
        return all(self._is_twin(name) for name in self._terms)

    def _shared_shape(self, term: Any) -> tuple[int, ...]:
        """Shape of the shared property."""
        raise NotImplementedError

    def _build(self, cfg: Any) -> TermT:
        twin = find_twin(type(cfg))
        cfg = copy.deepcopy(cfg)
        return cfg.build(self._env) if twin is None else twin(cfg, self._env)

    def _is_twin(self, name: str) -> bool:
        term = self._terms[name]
        return type(term) is find_twin(type(term.cfg))

    def _call_in_torch(self, name: str, function: Callable[..., object], *args: Any) -> None:
        """Calls what a term without a twin does, between two graphs."""
        eager(Island(f"{self._what(name)}: no Warp twin", self._call_and_copy), name, function, *args)

    def _call_and_copy(self, name: str, function: Callable[..., object], *args: Any) -> None:
        function(*args)
        if name in self._copies:
            self._copy(name)

    def _copy(self, name: str) -> None:
        self._copies[name].copy_(getattr(self._terms[name], self._shared))
