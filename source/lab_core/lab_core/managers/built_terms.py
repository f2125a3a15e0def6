"""Terms that are objects which their configurations build: actions and commands."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from lab_core.config import changes_between, check_kinds, update_from_dict
from lab_core.env import Env
from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import ManagerBase
from lab_core.state import Stateful


class BuiltTerm(Stateful, ABC):
    """A term that its configuration built, and that takes over changes of it."""

    cfg: Any
    """Configuration in use, of the class that built the term."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg

    @abstractmethod
    def set_cfg(self, cfg: Any) -> None:
        """Takes over a changed configuration of the same class; raises :class:`TermError` for what is fixed."""


TermT = TypeVar("TermT", bound=BuiltTerm)


class BuiltTerms(ManagerBase[Any], Generic[TermT]):
    """What managers of built terms share in all front ends.

    Raises:
        TermError: a term's configuration is wrong; the message names the manager and the term.
    """

    def __init__(self, cfg: Mapping[str, Any], env: Env) -> None:
        super().__init__(env)
        self._terms: dict[str, TermT] = {}
        for name, term in cfg.items():
            if term is None:
                continue
            if not isinstance(term, self.cfg_type):
                raise TermError(f"{self._what(name)}: expected {self.cfg_type.__name__}, got {type(term).__name__}.")
            try:
                check_kinds(term)
                self._terms[name] = self._build(copy.deepcopy(term))
            except ValueError as error:
                raise TermError(f"{self._what(name)}: {error}") from error
            self._initial_cfgs[name] = copy.deepcopy(self._terms[name].cfg)

    def get_term(self, name: str) -> TermT:
        """Returns a term.

        Raises:
            UnknownTermError: there is no such term.
        """
        self._require(name)
        return self._terms[name]

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        """Changes a term from the next step on.

        Raises:
            UnknownTermError: there is no such term.
            TermError: the configuration is wrong, of another class, or changes what is fixed.
        """
        term = self.get_term(name)
        if type(cfg) is not type(term.cfg):
            raise TermError(
                f"{self._what(name)} is a {type(term.cfg).__name__} and cannot become a {type(cfg).__name__}."
            )
        try:
            check_kinds(cfg)
            term.set_cfg(copy.deepcopy(cfg))
        except ValueError as error:
            raise TermError(f"{self._what(name)}: {error}") from error

    def _term_object(self, name: str) -> TermT:
        return self._terms[name]

    def _build(self, cfg: Any) -> TermT:
        """Returns the term of a configuration, which it may keep."""
        return cfg.build(self._env)

    def _cfg(self, name: str) -> Any:
        return self._terms[name].cfg

    def _changes(self, name: str) -> dict[str, Any]:
        return changes_between(self._initial_cfgs[name], self._terms[name].cfg)

    def _with_changes(self, name: str, changes: Mapping[str, Any]) -> Any:
        cfg = copy.deepcopy(self._initial_cfgs[name])
        update_from_dict(cfg, changes)
        return cfg
