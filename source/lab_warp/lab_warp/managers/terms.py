"""What the Warp managers share: terms called by their twins, at their place in a recorded stage."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from lab_core.config import same_values
from lab_core.managers import ManagerBase, ManagerTermBase, check_tensor
from lab_warp.capture import capturability, capture_torch, eager
from lab_warp.twins import find_twin

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class Island:
    """A call between two graphs, with a name for the report."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__qualname__ = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


class WarpTerms(ManagerBase[Any]):
    """Mixin for the torch managers. A term that has a twin runs as Warp code; one that has none runs in torch.

    What a recording has fixed (functions and parameters) is remembered, so that a changed configuration asks for a new
    recording and an equal one does not.
    """

    _env: WarpEnv
    _state_exclude = ("_islands", "_live_params", "_fixed_by_recording", "_changes")

    def _term_class(self, cfg: Any) -> type[ManagerTermBase]:
        twin = find_twin(cfg.func)
        return twin if isinstance(twin, type) else cfg.func  # pyright: ignore[reportReturnType]

    def _fix_terms(self) -> None:
        """Remembers what recordings will fix; called when all terms exist."""
        self._fixed_by_recording: dict[str, Any] = {}
        self._live_params: dict[str, dict[str, Any]] = {}
        self._islands: dict[str, Island] = {}
        self._changes: dict[str, Any] = {}
        """Term -> configuration that it gets when the running stage is done."""
        for name in self._cfgs:
            self._fix(name)

    def _fix(self, name: str) -> None:
        cfg = self._cfgs[name]
        self._live_params[name] = cfg.params
        self._fixed_by_recording[name] = copy.deepcopy(self._recorded_settings(cfg), {id(cfg.func): cfg.func})
        self._islands[name] = Island(f"{self._what(name)}: no Warp twin", self._call_torch)

    def _recorded_settings(self, cfg: Any) -> tuple[Any, ...]:
        """What a recording of the term fixes."""
        return cfg.func, cfg.params, cfg.capturable

    def get_term_cfg(self, name: str) -> Any:
        return self._changes[name] if name in self._changes else super().get_term_cfg(name)

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        """As for torch managers. It acts on the next step, which records anew if a recording has fixed what changed.
        A term that changes another one, as curricula do, thus acts on the next step whether recorded or eager."""
        self._require(name)
        if self._env.capture_context.is_running:
            self._changes[name] = self._checked_copy(name, cfg)
            self._env.change_after_stages(partial(self._make_change, name))
            return
        replaced = self._live_params.get(name), self._class_terms.get(name)
        super().set_term_cfg(name, cfg)
        new = self._cfgs[name]
        if same_values(self._fixed_by_recording[name], self._recorded_settings(new)):
            new.params = self._live_params[name]  # the recording uses index tensors in there
        else:
            self._fix(name)
            self._env.request_capture(f"{self._what(name)} changed", replaced)

    def _make_change(self, name: str) -> None:
        if name in self._changes:  # else it was set twice in a step, and the last one has been made
            self.set_term_cfg(name, self._changes.pop(name))

    def _twin(self, name: str) -> Callable[..., Any] | None:
        term = self._class_terms.get(name)
        if term is None:
            return find_twin(self._cfgs[name].func)
        return term if type(term) is not self._cfgs[name].func else None

    def _is_recordable(self, name: str) -> bool:
        twin = self._twin(name)
        return twin is not None and capturability(twin, self._cfgs[name].params).capturable

    @property
    def resets_recordable(self) -> bool:
        """Whether the resets of all class terms can be recorded."""
        return all(self._class_reset(name)[1] is None for name in self._class_terms)

    def _evaluate(self, name: str, out: wp.array, out_torch: torch.Tensor) -> None:
        """Writes the value of a term into ``out``, which is ``out_torch`` in torch."""
        self._call_twin(name, (out,), (out_torch,))

    def _call_twin(self, name: str, args: tuple[Any, ...], torch_args: tuple[Any, ...]) -> None:
        cfg, twin = self._cfgs[name], self._twin(name)
        if twin is None:
            run = capture_torch if cfg.capturable else eager
            run(self._islands[name], name, *torch_args)
        elif capturability(twin, cfg.params).capturable:
            twin(self._env, *args, **cfg.params)
        else:
            eager(twin, self._env, *args, **cfg.params)

    def _call_torch(self, name: str, target: torch.Tensor, /) -> None:
        """Calls a term that has no twin and stores what it returns in ``target``."""
        value = self._call(name)
        check_tensor(value, tuple(target.shape), self._what(name), torch.bool if target.dtype == torch.bool else None)
        target.copy_(value)

    def _reset_class_terms(self) -> None:
        """Tells the class terms about the environments that are being reset."""
        for name in self._class_terms:
            reset, island = self._class_reset(name)
            if island is None:
                reset(self._env.warp.reset_mask)
            else:
                eager(island)

    def _class_reset(self, name: str) -> tuple[Callable[..., Any], Island | None]:
        """Returns the reset of a class term, and how to call it between two graphs, if it must be."""
        term = self._class_terms[name]
        if type(term) is not self._cfgs[name].func:
            if capturability(term.reset).capturable:
                return term.reset, None
            return term.reset, Island(f"reset of {self._what(name)}", partial(term.reset, self._env.warp.reset_mask))  # pyright: ignore[reportArgumentType]
        if type(term).reset is ManagerTermBase.reset:
            return _nothing, None
        what = f"reset of {self._what(name)}: no Warp twin"
        return term.reset, Island(what, partial(term.reset, self._env.reset_mask))


def _nothing(_: wp.array) -> None:
    """What a torch term does at a reset that it does not care about."""
