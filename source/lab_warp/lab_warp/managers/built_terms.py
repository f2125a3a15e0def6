"""Terms that are objects: actions and commands, as twins or in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lab_core.capability import Capability, all_capable
from lab_core.managers import BuiltTerm, BuiltTerms
from lab_warp.capture import Island, eager
from lab_warp.env import WarpEnv
from lab_warp.twins import find_twin

TermT = TypeVar("TermT", bound=BuiltTerm)


class WarpBuiltTerms(BuiltTerms[TermT]):
    """Mixin: builds the twin of a term's configuration where there is one.

    A term without a twin runs in torch, between two graphs.
    """

    _env: WarpEnv

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
            eager(Island(self._no_twin(name).reason, self._call_torch), name, function, *args)

    def _no_twin(self, name: str) -> Capability:
        return Capability(False, f"{self._what(name)}: no Warp twin")

    def _call_torch(self, name: str, function: Callable[..., object], *args: Any) -> None:
        function(*args)
