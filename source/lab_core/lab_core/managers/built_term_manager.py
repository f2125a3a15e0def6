"""What managers share whose terms are objects that their configurations build: actions and commands."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.errors import TermError, UnknownTermError
from lab_core.names import match_names
from lab_core.state import Stateful


class BuiltTerm(Protocol):
    """A term that knows its configuration."""

    cfg: Any

    def set_cfg(self, cfg: Any) -> None:
        """Takes over a changed configuration; raises :class:`TermError` if it changes what is fixed."""


TermT = TypeVar("TermT", bound=BuiltTerm)


class BuiltTermManager(Stateful, Generic[TermT]):
    """Builds the terms in the order of their dict, from copies of their configurations.

    Raises:
        TermError: a term's configuration is wrong; the message names the manager and the term.
    """

    kind: ClassVar[str]
    """What its terms are called in messages."""
    cfg_type: ClassVar[type]

    def __init__(self, cfg: Mapping[str, Any], env: Env) -> None:
        self._env = env
        self._terms: dict[str, TermT] = {}
        for name, term in cfg.items():
            if term is None:
                continue
            if not isinstance(term, self.cfg_type):
                raise TermError(f"{self._what(name)}: expected {self.cfg_type.__name__}, got {type(term).__name__}.")
            try:
                self._terms[name] = self._build(term)
            except ValueError as error:
                raise TermError(f"{self._what(name)}: {error}") from error

    @property
    def term_names(self) -> list[str]:
        """Names of the terms, in order."""
        return list(self._terms)

    def find_terms(self, patterns: str | Sequence[str]) -> list[str]:
        """Returns the names that fully match one of the regular expressions.

        Raises:
            UnknownNameError: a pattern matches nothing, or two patterns match the same name.
        """
        names = self.term_names
        return [names[i] for i in match_names(patterns, names, what=f"{self.kind} term")]

    def get_term(self, name: str) -> TermT:
        """Returns a term.

        Raises:
            UnknownTermError: there is no such term.
        """
        if name not in self._terms:
            raise UnknownTermError(unknown_name_message(f"{self.kind} term", name, self._terms))
        return self._terms[name]

    def get_term_cfg(self, name: str) -> Any:
        """Returns the configuration in use; to change it, give it to :meth:`set_term_cfg`."""
        return self.get_term(name).cfg

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
            term.set_cfg(copy.deepcopy(cfg))
        except ValueError as error:
            raise TermError(f"{self._what(name)}: {error}") from error

    def _build(self, cfg: Any) -> TermT:
        """Returns the term of a copy of ``cfg``."""
        return copy.deepcopy(cfg).build(self._env)

    def _what(self, name: str) -> str:
        return f"{self.kind} term {name!r}"
