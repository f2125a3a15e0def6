"""Building the twins of terms that are objects: actions and commands."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from lab_core.managers.built_term_manager import BuiltTerm, BuiltTermManager
from lab_warp.twins import find_twin

TermT = TypeVar("TermT", bound=BuiltTerm)


class WarpBuiltTerms(BuiltTermManager[TermT]):
    """Mixin for the torch managers: builds the twin of a term's configuration where there is one."""

    def _build(self, cfg: Any) -> TermT:
        twin = find_twin(type(cfg))
        cfg = copy.deepcopy(cfg)
        return cfg.build(self._env) if twin is None else twin(cfg, self._env)

    def _is_twin(self, name: str) -> bool:
        term = self._terms[name]
        return type(term) is find_twin(type(term.cfg))

    @property
    def recordable(self) -> bool:
        """Whether all terms can be recorded."""
        return all(self._is_twin(name) for name in self._terms)
