"""What the Warp managers of functions share: terms called by their twins, at their place in a captured stage."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from lab_core.capability import CAPABLE, Capability, all_capable
from lab_core.config import same_values
from lab_core.managers import FunctionTerms, ManagerTermBase, check_tensor, raise_named
from lab_warp.capture import Island, capturable, capture_torch, eager
from lab_warp.env import WarpEnv
from lab_warp.twins import find_twin
from lab_warp.views import Shared


class WarpTerms(FunctionTerms[Any]):
    """Mixin. A term that has a twin runs as Warp code; one that has none runs in torch.

    What a graph has fixed (functions and parameters) is remembered, so that a changed configuration asks for a new
    capture and an equal one does not.
    """

    _env: WarpEnv

    def _term_class(self, cfg: Any) -> type[ManagerTermBase]:
        twin = find_twin(cfg.func)
        return twin if isinstance(twin, type) else cfg.func  # pyright: ignore[reportReturnType]

    def _fix_terms(self) -> None:
        """Remembers what graphs will fix; called when all terms exist."""
        self._fixed_by_graphs: dict[str, Any] = self.scratch({})
        self._live_params: dict[str, dict[str, Any]] = self.scratch({})
        self._islands: dict[str, Island] = {}
        self._later_cfgs: dict[str, Any] = {}
        """Term -> configuration that it gets when the running stage is done."""
        for name in self._cfgs:
            self._fix(name)

    def _fix(self, name: str) -> None:
        cfg = self._cfgs[name]
        self._live_params[name] = cfg.params
        self._fixed_by_graphs[name] = copy.deepcopy(self._captured_settings(cfg), {id(cfg.func): cfg.func})
        self._islands[name] = Island(self._no_twin(name).reason, self._call_torch)

    def _captured_settings(self, cfg: Any) -> tuple[Any, ...]:
        """What a graph fixes of a term."""
        return cfg.func, cfg.params, cfg.capturable

    def get_term_cfg(self, name: str) -> Any:
        return self._later_cfgs[name] if name in self._later_cfgs else super().get_term_cfg(name)

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        """As for torch managers. It acts on the next step, which is captured anew if a graph has fixed what changed.
        A term that changes another one, as curricula do, thus acts on the next step whether captured or eager."""
        self._require(name)
        if self._env.capture_context.is_running:
            self._later_cfgs[name] = self._checked_copy(name, cfg)
            self._env.change_after_stages(partial(self._make_change, name))
            return
        replaced = self._live_params.get(name), self._class_terms.get(name)
        super().set_term_cfg(name, cfg)
        new = self._cfgs[name]
        if same_values(self._fixed_by_graphs[name], self._captured_settings(new)):
            new.params = self._live_params[name]  # the graph uses index tensors in there
        else:
            self._fix(name)
            self._env.request_capture(f"{self._what(name)} changed", replaced)

    def _make_change(self, name: str) -> None:
        if name in self._later_cfgs:  # else it was set twice in a step, and the last one has been made
            self.set_term_cfg(name, self._later_cfgs.pop(name))

    def _twin(self, name: str) -> Callable[..., Any] | None:
        term = self._class_terms.get(name)
        if term is None:
            return find_twin(self._cfgs[name].func)
        return term if type(term) is not self._cfgs[name].func else None

    @property
    def capturable(self) -> Capability:
        """Whether a graph can hold all that the manager does in a reset."""
        return all_capable(self._reset_capability(name) for name in self._class_terms)

    def _capability(self, name: str) -> Capability:
        """Whether a graph can hold a term."""
        twin = self._twin(name)
        return self._no_twin(name) if twin is None else capturable(twin, self._cfgs[name].params)

    def _no_twin(self, name: str) -> Capability:
        return Capability(False, f"{self._what(name)}: no Warp twin")

    def _evaluate(self, name: str, out: Shared) -> None:
        """Writes the value of a term into ``out``."""
        self._call_twin(name, (out.warp,), (out.torch,))

    def _call_twin(self, name: str, args: tuple[Any, ...], torch_args: tuple[Any, ...]) -> None:
        cfg, twin = self._cfgs[name], self._twin(name)
        if twin is None:
            run = capture_torch if cfg.capturable or getattr(cfg.func, "capturable", False) else eager
            run(self._islands[name], name, *torch_args)
            return
        try:
            if capturable(twin, cfg.params):
                twin(self._env, *args, **cfg.params)
            else:
                eager(twin, self._env, *args, **cfg.params)
        except Exception as error:
            raise_named(error, self._what(name), cfg.params)

    def _call_torch(self, name: str, target: torch.Tensor, /) -> None:
        """Calls a term that has no twin and stores what it returns in ``target``."""
        value = self._call(name)
        check_tensor(value, tuple(target.shape), self._what(name), torch.bool if target.dtype == torch.bool else None)
        target.copy_(value)

    def _reset_class_terms(self, mask: Shared) -> None:
        """Tells the class terms about the environments that are being reset."""
        for name, term in self._class_terms.items():
            own: Any = mask.torch if self._twin(name) is None else mask.warp
            reset = partial(term.reset, own)
            fits = self._reset_capability(name)
            if fits:
                reset()
            else:
                eager(Island(fits.reason, reset))

    def _reset_capability(self, name: str) -> Capability:
        """Whether a graph can hold the reset of a class term."""
        reset = self._class_terms[name].reset
        if self._twin(name) is not None:
            fits = capturable(reset)
        elif type(self._class_terms[name]).reset is ManagerTermBase.reset:  # it does nothing
            return CAPABLE
        else:
            fits = Capability(False, "no Warp twin")
        return fits if fits else Capability(False, f"reset of {self._what(name)}: {fits.reason}")
