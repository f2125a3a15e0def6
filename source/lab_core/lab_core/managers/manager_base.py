"""The base of all managers of every front end: named configurations, which may change while an environment runs."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import torch

from lab_core.config import dump_yaml, load_yaml
from lab_core.env import Env
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.managers.errors import UnknownTermError
from lab_core.markers import Drawing, Markers, MarkerSource
from lab_core.names import match_names
from lab_core.state import Stateful

CfgT = TypeVar("CfgT")


class ManagerBase(Stateful, ABC, Generic[CfgT]):
    """Holds the terms of one kind, in the order of their dict, and the configuration of each.

    It says nothing of what happens in a step: the managers of a front end add that. The configurations are copies: what
    a manager reads, and what :meth:`get_term_cfg` returns, is its own.
    """

    kind: ClassVar[str]
    """What its terms are called in messages, for example ``"reward"``."""
    cfg_type: ClassVar[type]
    _state_fields = ("changed_settings",)

    def __init__(self, env: Env) -> None:
        self._env = env
        self._initial_cfgs: dict[str, CfgT] = {}
        """Term -> copy of the configuration that it was built from."""

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return self._env.num_envs

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self._env.device

    @property
    def term_names(self) -> list[str]:
        """Names of the terms, in order of evaluation."""
        return list(self._initial_cfgs)

    def find_terms(self, patterns: str | Sequence[str]) -> list[str]:
        """Returns the names that fully match one of the regular expressions.

        Raises:
            UnknownNameError: a pattern matches nothing, or two patterns match the same name.
        """
        names = self.term_names
        return [names[i] for i in match_names(patterns, names, what=f"{self.kind} term")]

    def get_term_cfg(self, name: str) -> CfgT:
        """Returns the configuration in use. Numbers changed in it act on the next step; for all else, and for a check
        of what was changed, give it to :meth:`set_term_cfg`.

        Raises:
            UnknownTermError: there is no such term.
        """
        self._require(name)
        return self._cfg(name)

    def marker_sources(self) -> dict[str, MarkerSource]:
        """Returns ``<kind>s/<term>`` -> what draws for that term, for the terms that draw."""
        drawing = [name for name in self.term_names if isinstance(self._term_object(name), Drawing)]
        return {f"{self.kind}s/{name}": partial(self._markers, name) for name in drawing}

    def _markers(self, name: str) -> Sequence[Markers]:
        term = self._term_object(name)  # the present one: a term can be replaced
        return term.markers() if isinstance(term, Drawing) else ()

    def _term_object(self, name: str) -> object:
        """Returns the object that a term is; None where it is a function."""
        return None

    @abstractmethod
    def set_term_cfg(self, name: str, cfg: CfgT) -> None:
        """Replaces the configuration of a term.

        Raises:
            UnknownTermError: there is no such term.
            TermError: the configuration is wrong or changes what is fixed; nothing has been changed.
        """

    @property
    def changed_settings(self) -> dict[str, str]:
        """Term -> settings that differ from the configuration that it was built from, as YAML.

        Only these are saved, so that an edited configuration counts. Assigning them changes the settings in use.
        """
        texts = {name: self._as_text(name) for name in self._initial_cfgs}
        return {name: text for name, text in texts.items() if text}

    @changed_settings.setter
    def changed_settings(self, changes: Mapping[str, str]) -> None:
        for name in changes:
            self._require(name)
        for name in self._initial_cfgs:
            if name in changes or self._changes(name):
                self.set_term_cfg(name, self._with_changes(name, load_yaml(changes[name]) if name in changes else {}))

    def __str__(self) -> str:
        columns, rows = self._table()
        return format_table(f"{self.kind.capitalize()} terms", columns, rows)

    # What subclasses define.

    @abstractmethod
    def _cfg(self, name: str) -> CfgT:
        """Returns the configuration in use of a term that exists."""

    @abstractmethod
    def _changes(self, name: str) -> dict[str, Any]:
        """Returns the settings of a term that differ from those that it was built from."""

    @abstractmethod
    def _with_changes(self, name: str, changes: Mapping[str, Any]) -> CfgT:
        """Returns the configuration that a term was built from, with these changes."""

    @abstractmethod
    def _table(self) -> tuple[list[str], list[list[Any]]]:
        """Returns column titles and rows for printing."""

    # What subclasses use.

    def _what(self, name: str) -> str:
        return f"{self.kind} term {name!r}"

    def _require(self, name: str) -> None:
        if name not in self._initial_cfgs:
            raise UnknownTermError(unknown_name_message(f"{self.kind} term", name, self._initial_cfgs))

    def _as_text(self, name: str) -> str:
        changes = self._changes(name)
        try:
            return dump_yaml(changes) if changes else ""
        except ConfigError as error:  # a lambda or a tensor has no text form
            warnings.warn(
                f"The changed settings of {self._what(name)} cannot be saved: {error}. A resumed run will begin again "
                "with those of the configuration.",
                stacklevel=2,
            )
            return ""


def function_name(func: Any) -> str:
    """Returns how a function or an object that is called like one is named in messages."""
    return getattr(func, "__name__", None) or type(func).__name__


def format_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a plain-text table."""
    lines = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"{title} ({len(lines) - 1})", text[0], "  ".join("-" * width for width in widths), *text[1:]])
