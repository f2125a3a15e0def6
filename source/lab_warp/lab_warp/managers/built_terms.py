"""Terms that are objects: actions and commands, as twins or in torch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import torch
import warp as wp

from lab_core.capability import Capability, all_capable
from lab_core.managers import BuiltTerm, BuiltTerms
from lab_warp.capture import eager
from lab_warp.env import WarpEnv
from lab_warp.managers.terms import Island
from lab_warp.twins import find_twin

TermT = TypeVar("TermT", bound=BuiltTerm)


class WarpBuiltTerms(BuiltTerms[TermT]):
    """Mixin: builds the twin of a term's configuration where there is one.

    A term without a twin runs in torch, between two graphs. What twins of other terms read of it, as they read it of a
    twin, is ``term.warp.<property>``: a copy at one address, since torch code may make a new tensor in every call.
    """

    _env: WarpEnv
    _shown: ClassVar[str]
    """The property of a term that twins of other terms read, as float32."""

    def _show_terms(self) -> None:
        """Gives terms in torch what twins of other terms read; called when all terms exist."""
        self._copies: dict[str, torch.Tensor] = self.scratch({})
        for name, term in self._terms.items():
            if not self._is_twin(name) and not hasattr(term, "warp"):
                shape = getattr(term, self._shown).shape
                self._copies[name] = torch.zeros(shape, device=self.device)
                shown: Any = term
                shown.warp = SimpleNamespace(**{self._shown: wp.from_torch(self._copies[name])})

    def copy_shared(self) -> None:
        """Shows to twins what terms in torch hold now; called between steps."""
        for name in self._copies:
            self._copy(name)

    @property
    def capturable(self) -> Capability:
        """Whether a graph can hold all terms."""
        return all_capable(self._no_twin(name) for name in self._terms if not self._is_twin(name))

    def _build(self, cfg: Any) -> TermT:
        twin = find_twin(type(cfg))
        return super()._build(cfg) if twin is None else twin(cfg, self._env)

    def _is_twin(self, name: str) -> bool:
        term = self._terms[name]
        return type(term) is find_twin(type(term.cfg))

    def _call(self, name: str, function: Callable[..., object], *args: Any) -> None:
        """Calls what a term does; of one without a twin, between two graphs."""
        if self._is_twin(name):
            function(*args)
        else:
            eager(Island(self._no_twin(name).reason, self._call_and_copy), name, function, *args)

    def _no_twin(self, name: str) -> Capability:
        return Capability(False, f"{self._what(name)}: no Warp twin")

    def _call_and_copy(self, name: str, function: Callable[..., object], *args: Any) -> None:
        function(*args)
        if name in self._copies:
            self._copy(name)

    def _copy(self, name: str) -> None:
        self._copies[name].copy_(getattr(self._terms[name], self._shown))
