"""Terms that are functions, or classes that are called like functions, with keyword parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import torch

from lab_core.config import MISSING, Settings, check_kinds, equal_values, same_values
from lab_core.env import Env
from lab_core.managers.checks import is_tensor, wrong_tensor
from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import ManagerBase, function_name
from lab_core.managers.raised import raise_named
from lab_core.managers.selections import resolve_selections
from lab_core.managers.signature import complete_params, param_types
from lab_core.state import Stateful, lasting_tensors


@dataclass(kw_only=True)
class TermCfg(Settings):
    """A term: a function, or a class derived from :class:`ManagerTermBase`, and its keyword parameters."""

    func: Callable[..., Any] = MISSING
    params: dict[str, Any] = field(default_factory=dict)
    capturable: bool = False
    """Whether a graph may hold the function: torch work on a GPU that draws no random numbers, never waits for the
    device, and takes the same path whatever the values. Front ends that record graphs ask."""

    def narrowed_types(self) -> dict[str, Any]:
        """Returns that ``params`` have the types that the function's signature declares."""
        return {"params": param_types(self.func)} if callable(self.func) else {}


class ManagerTermBase(Stateful):
    """A term with state: built once, called like a function, told about resets.

    Subclasses define ``__call__(self, env, **params)`` (event and curriculum terms: ``(self, env, mask, **params)``);
    one with a method ``markers`` draws into pictures, see :class:`~lab_core.markers.Drawing`. Their tensors are saved
    with the environment.
    """

    def __init__(self, cfg: Any, env: Env) -> None:
        self.cfg = cfg
        self._env = env

    def reset(self, mask: torch.Tensor) -> None:
        """Forgets the episodes of the environments in ``mask`` (N,) bool; other rows stay bitwise unchanged."""

    def __call__(self, env: Env, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__.")


CfgT = TypeVar("CfgT", bound=TermCfg)


class FunctionTerms(ManagerBase[CfgT]):
    """What managers of functions share in all front ends: checked configurations, and the class terms.

    Raises:
        TermError: a term's configuration is wrong; the message names the manager and the term.
    """

    leading: ClassVar[tuple[str, ...]] = ("env",)
    """Arguments that the manager passes to a term by position."""
    cfg_type: ClassVar[type[TermCfg]] = TermCfg

    def __init__(self, cfg: Mapping[str, CfgT | None], env: Env) -> None:
        super().__init__(env)
        self._cfgs: dict[str, CfgT] = {}
        self._class_terms: dict[str, ManagerTermBase] = {}
        self._built_from: dict[str, tuple[Any, dict[str, Any]]] = {}
        """Class term -> class and parameters that it was built from."""
        for name, term in cfg.items():
            if term is not None:
                self._add_term(name, term)

    def set_term_cfg(self, name: str, cfg: CfgT) -> None:
        """Replaces the configuration of a term.

        Called in the middle of a step, as by a curriculum, it acts on what of the step is still to come; with the Warp
        front end, whose steps are captured, on the next step. A class term is built anew if its class or parameters
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

    def call_for(self, name: str, env: Any) -> Any:
        """Calls the torch function of a term for another environment than the manager's, such as an imagined one.

        Raises:
            UnknownTermError: there is no such term.
            TermError: what is called here is no torch function.
        """
        self._require(name)
        cfg = self._cfgs[name]
        func = self._class_terms.get(name, cfg.func)
        if isinstance(cfg.func, type) and type(func) is not cfg.func:
            raise TermError(f"{self._what(name)}: {type(func).__name__} runs here, in place of {cfg.func.__name__}.")
        return func(env, **cfg.params)

    # What subclasses extend.

    def _check_cfg(self, name: str, cfg: CfgT) -> None:
        """Raises :class:`TermError` for wrong settings of a term. ``self._cfgs`` still holds the old one, if any."""

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        return ["name", "function"], [[name, function_name(cfg.func)] for name, cfg in self._cfgs.items()]

    def _term_class(self, cfg: CfgT) -> type[ManagerTermBase]:
        """Returns the class to build for a class term."""
        return cfg.func  # pyright: ignore[reportReturnType]

    # What subclasses use.

    def _call(self, name: str, *args: Any) -> Any:
        """Calls a term in torch."""
        cfg = self._cfgs[name]
        func = self._class_terms.get(name, cfg.func)
        try:
            return func(self._env, *args, **cfg.params)
        except Exception as error:
            raise_named(error, self._what(name), cfg.params)

    def _term_object(self, name: str) -> ManagerTermBase | None:
        return self._class_terms.get(name)

    def _cfg(self, name: str) -> CfgT:
        return self._cfgs[name]

    def _changes(self, name: str) -> dict[str, Any]:
        """Returns the fields that differ; of ``params`` those that do."""
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

    def _with_changes(self, name: str, changes: Mapping[str, Any]) -> CfgT:
        initial, values = self._initial_cfgs[name], dict(changes)
        if "func" not in values:
            values["params"] = initial.params | values.get("params", {})
        return replace(initial, **values)

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
            check_kinds(cfg.params, "params", param_types(cfg.func))
            resolve_selections(cfg.params, self._env.scene)
        except ValueError as error:
            raise TermError(f"{what}: {error}") from error
        self._check_cfg(name, cfg)
        return cfg

    def _build_class_term(self, name: str, cfg: CfgT) -> None:
        self._class_terms[name] = self._build(self._term_class(cfg), name, cfg)
        self._built_from[name] = (cfg.func, copy.deepcopy(cfg.params))

    @lasting_tensors()
    def _build(self, cls: type[ManagerTermBase], name: str, cfg: CfgT) -> ManagerTermBase:
        try:
            return cls(cfg, self._env)
        except ValueError as error:
            raise TermError(f"{self._what(name)}: {error}") from error
        except Exception as error:
            raise_named(error, self._what(name), cfg.params)


class TorchTerms(FunctionTerms[CfgT]):
    """What managers of functions share in torch."""

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Starts a new episode in the environments of ``mask`` (N,) bool; other rows stay bitwise unchanged.

        Returns:
            Log of the episodes that ended: name -> number or owned 0-d tensor; 0 where the mask is empty.
        """
        for term in self._class_terms.values():
            term.reset(mask)
        return {}

    def _call_checked(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Calls a term that returns one number per environment."""
        value = self._call(name)
        if not is_tensor(value, (self.num_envs,), dtype):
            raise wrong_tensor(value, (self.num_envs,), self._what(name), dtype)
        return value
