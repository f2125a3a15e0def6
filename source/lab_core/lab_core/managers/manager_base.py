"""What all managers share: checking terms when they are built, finding them, and printing them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import torch

from lab_core.config import MISSING, equal_values, load_yaml, same_values
from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.changed_settings import settings_as_text
from lab_core.managers.errors import TermError, UnknownTermError
from lab_core.managers.scene_entity_cfg import resolve_scene_entities
from lab_core.managers.signature import complete_params
from lab_core.names import match_names
from lab_core.state import Stateful, lasting_tensors


@dataclass(kw_only=True)
class TermCfg:
    """A term: a function, or a class derived from :class:`ManagerTermBase`, and its keyword parameters."""

    func: Callable[..., Any] = MISSING
    params: dict[str, Any] = field(default_factory=dict)
    capturable: bool = False
    """Whether a graph may hold the function: torch work on a GPU that draws no random numbers, never waits for the
    device, and takes the same path whatever the values. Front ends that record graphs ask."""


class ManagerTermBase(Stateful):
    """A term with state: built once, called like a function, told about resets.

    Subclasses define ``__call__(self, env, **params)`` (event and curriculum terms: ``(self, env, mask, **params)``).
    Their tensors are saved with the environment.
    """

    def __init__(self, cfg: Any, env: Env) -> None:
        self.cfg = cfg
        self._env = env

    def reset(self, mask: torch.Tensor) -> None:
        """Forgets the episodes of the environments in ``mask`` (N,) bool; other rows stay bitwise unchanged."""

    def __call__(self, env: Env, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__.")


CfgT = TypeVar("CfgT", bound=TermCfg)


class ManagerBase(Stateful, Generic[CfgT]):
    """Holds the terms of one kind in the order of their dict.

    The configurations are copied: what a manager reads, and what :meth:`get_term_cfg` returns, is its own.

    Raises:
        TermError: a term's configuration is wrong; the message names the manager and the term.
    """

    kind: ClassVar[str]
    """What its terms are called in messages, for example ``"reward"``."""
    leading: ClassVar[tuple[str, ...]] = ("env",)
    """Arguments that the manager passes to a term by position."""
    cfg_type: ClassVar[type[TermCfg]] = TermCfg
    _state_fields = ("changed_settings",)

    def __init__(self, cfg: Mapping[str, CfgT | None], env: Env) -> None:
        self._env = env
        self._cfgs: dict[str, CfgT] = {}
        self._initial_cfgs: dict[str, CfgT] = {}
        self._class_terms: dict[str, ManagerTermBase] = {}
        self._built_from: dict[str, tuple[Any, dict[str, Any]]] = {}
        """Class term -> class and parameters that it was built from."""
        for name, term in cfg.items():
            if term is not None:
                self._add_term(name, term)

    @property
    def num_envs(self) -> int:
        return self._env.num_envs

    @property
    def device(self) -> torch.device:
        return self._env.device

    @property
    def term_names(self) -> list[str]:
        """Names of the terms, in order of evaluation."""
        return list(self._cfgs)

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
        return self._cfgs[name]

    def set_term_cfg(self, name: str, cfg: CfgT) -> None:
        """Replaces the configuration of a term.

        Called in the middle of a step, as by a curriculum, it acts on what of the step is still to come; with the Warp
        front end, whose steps are recorded, on the next step. A class term is built anew if its class or parameters
        changed; else it keeps its state.

        Raises:
            UnknownTermError: there is no such term.
            TermError: the configuration is wrong or changes what is fixed; nothing has been changed.
        """
        self._require(name)
        cfg = self._checked_copy(name, cfg)
        if isinstance(cfg.func, type):
            old = self._class_terms.get(name)
            if old is not None and same_values(self._built_from[name], (cfg.func, cfg.params)):
                old.cfg = cfg
            else:
                self._build_class_term(name, cfg)
        else:
            self._class_terms.pop(name, None)
        self._cfgs[name] = cfg

    @property
    def changed_settings(self) -> dict[str, str]:
        """Term -> settings that differ from the configuration that it was built from, as YAML.

        Only these are saved, so that an edited configuration counts. Assigning them changes the settings in use.
        """
        texts = {name: settings_as_text(self._changed_fields(name), self._what(name)) for name in self._cfgs}
        return {name: text for name, text in texts.items() if text}

    @changed_settings.setter
    def changed_settings(self, changes: Mapping[str, str]) -> None:
        for name in changes:
            self._require(name)
        for name, initial in self._initial_cfgs.items():
            if name in changes or self._changed_fields(name):
                values = load_yaml(changes[name]) if name in changes else {}
                if "func" not in values:
                    values["params"] = initial.params | values.get("params", {})
                self.set_term_cfg(name, replace(initial, **values))

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Starts a new episode in the environments of ``mask`` (N,) bool; other rows stay bitwise unchanged.

        Returns:
            Log of the episodes that ended: name -> number or owned 0-d tensor; 0 where the mask is empty.
        """
        for term in self._class_terms.values():
            term.reset(mask)
        return {}

    def __str__(self) -> str:
        columns, rows = self._table()
        return format_table(f"{self.kind.capitalize()} terms", columns, rows)

    # What subclasses extend.

    def _check_cfg(self, name: str, cfg: CfgT) -> None:
        """Raises :class:`TermError` for wrong settings of a term. ``self._cfgs`` still holds the old one, if any."""

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        """Returns column titles and rows for printing."""
        return ["name", "function"], [[name, function_name(cfg.func)] for name, cfg in self._cfgs.items()]

    # What subclasses use.

    def _what(self, name: str) -> str:
        return f"{self.kind} term {name!r}"

    def _changed_fields(self, name: str) -> dict[str, Any]:
        """Fields of a term's configuration that differ from what it was built from; of ``params`` those that do."""
        initial, cfg = self._initial_cfgs[name], self._cfgs[name]
        changes = {
            field.name: getattr(cfg, field.name)
            for field in fields(cfg)
            if not equal_values(getattr(initial, field.name), getattr(cfg, field.name))
        }
        if "func" in changes:  # the other function has other parameters
            changes["params"] = cfg.params
        elif "params" in changes:
            params = changes["params"]
            changes["params"] = {
                key: params[key] for key in params if not equal_values(initial.params[key], params[key])
            }
        return changes

    def _call(self, name: str, *args: Any) -> Any:
        cfg = self._cfgs[name]
        func = self._class_terms.get(name, cfg.func)
        return func(self._env, *args, **cfg.params)

    def _call_checked(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Calls a term that returns one number per environment."""
        value = self._call(name)
        check_tensor(value, (self.num_envs,), self._what(name), dtype)
        return value

    def _require(self, name: str) -> None:
        if name not in self._cfgs:
            raise UnknownTermError(unknown_name_message(f"{self.kind} term", name, self._cfgs))

    def _add_term(self, name: str, cfg: CfgT) -> None:
        cfg = self._checked_copy(name, cfg)
        if isinstance(cfg.func, type):
            self._build_class_term(name, cfg)
        self._cfgs[name] = cfg
        self._initial_cfgs[name] = copy.deepcopy(cfg, {id(cfg.func): cfg.func})

    def _checked_copy(self, name: str, cfg: CfgT) -> CfgT:
        what = self._what(name)
        if not isinstance(cfg, self.cfg_type):
            raise TermError(f"{what}: expected {self.cfg_type.__name__}, got {type(cfg).__name__}.")
        if cfg.func is MISSING:
            raise TermError(f"{what} has no func.")
        if not callable(cfg.func):
            raise TermError(f"{what}: func must be a function or class, got {cfg.func!r}.")
        if isinstance(cfg.func, type) and not issubclass(cfg.func, ManagerTermBase):
            raise TermError(f"{what}: the class {cfg.func.__name__} must derive from ManagerTermBase.")
        # A bound method must not take a copy of its object along.
        cfg = copy.deepcopy(cfg, {id(cfg.func): cfg.func})
        cfg.params = complete_params(cfg.func, cfg.params, self.leading, what)
        try:
            resolve_scene_entities(cfg.params, self._env.scene)
        except ValueError as error:
            raise TermError(f"{what}: {error}") from error
        self._check_cfg(name, cfg)
        return cfg

    def _term_class(self, cfg: CfgT) -> type[ManagerTermBase]:
        """Returns the class to build for a class term."""
        return cfg.func  # pyright: ignore[reportReturnType]

    @lasting_tensors()
    def _build_class_term(self, name: str, cfg: CfgT) -> None:
        try:
            self._class_terms[name] = self._term_class(cfg)(cfg, self._env)
        except ValueError as error:
            raise TermError(f"{self._what(name)}: {error}") from error
        self._built_from[name] = (cfg.func, copy.deepcopy(cfg.params))


def check_tensor(value: Any, shape: tuple[int, ...], what: str, dtype: torch.dtype | None = None) -> None:
    """Raises :class:`TermError` unless ``value`` is a tensor of this shape (and type). Costs no device time."""
    if isinstance(value, torch.Tensor) and value.shape == shape and (dtype is None or value.dtype == dtype):
        return
    given = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
    raise TermError(f"{what} must return a {dtype or 'number'} tensor {shape}, got {given}.")


def check_number(value: Any, what: str) -> None:
    """Raises :class:`TermError` unless ``value`` is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TermError(f"{what} must be a finite number, got {value!r}.")


def check_range(value: Any, what: str) -> None:
    """Raises :class:`TermError` unless ``value`` is ``(low, high)`` with ``low <= high``."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TermError(f"{what} must be (low, high), got {value!r}.")
    if not value[0] <= value[1]:
        raise TermError(f"{what} must have low <= high, got {value!r}.")


def function_name(func: Any) -> str:
    return getattr(func, "__name__", None) or type(func).__name__


def format_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a plain-text table."""
    lines = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"{title} ({len(lines) - 1})", text[0], "  ".join("-" * width for width in widths), *text[1:]])
