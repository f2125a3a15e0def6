"""The terms of a recorder: what each records, under which key, and into which buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from lab_core.capability import Capability
from lab_core.datasets.errors import RecorderError
from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.errors import TermError
from lab_core.managers.function_terms import ManagerTermBase, TorchTerms
from lab_core.recorder.config import PHASES, Phase, RecorderTermCfg
from lab_core.recorder.hooks import HookPart
from lab_core.recorder.transition import TransitionBuffers


class RecorderTermManager(TorchTerms[RecorderTermCfg]):
    """Copies what terms return into buffers.

    A recorder decides nothing about the future, so that nobody asks it for a state: recorders may differ between a run
    and its continuation.

    Args:
        cfg: Name -> term.
        env: The environment, built and reset.
        changed: Called when a term has been replaced.

    Raises:
        TermError: a term is wrong; the message names it.
    """

    kind = "recorder"
    cfg_type = RecorderTermCfg

    def __init__(self, cfg: Mapping[str, RecorderTermCfg | None], env: Env, changed: Callable[[], None]) -> None:
        super().__init__(cfg, env)
        self._changed = changed
        self.buffers = TransitionBuffers(env.num_envs, env.device)
        """What the present step of every environment holds."""
        self._keys = {name: term.key or name for name, term in self._cfgs.items()}
        self._replaced: list[ManagerTermBase | None] = []
        """Terms that a graph of the present step may still use; a graph does not keep their tensors."""
        self._measure()

    def parts(self, phase: Phase) -> list[HookPart]:
        """Returns what records the terms of a phase: those that a graph can hold together, then the others."""
        names = [
            name for name, cfg in self._cfgs.items() if cfg.phase == phase and self.buffers.fields_of(self._keys[name])
        ]
        together = [name for name in names if self._capturable(name)]
        parts = [HookPart(f"{phase} terms", partial(self._record, together))] if together else []
        for name in names:
            if not (capturable := self._capturable(name)):
                parts.append(HookPart(self._what(name), partial(self._record, [name]), capturable))
        return parts

    def reset_parts(self) -> list[HookPart]:
        """Returns what tells terms of a reset."""
        return [
            HookPart(f"reset of {self._what(name)}", term.reset, self._capturable(name))
            for name, term in self._class_terms.items()
            if type(term).reset is not ManagerTermBase.reset
        ]

    def set_term_cfg(self, name: str, cfg: RecorderTermCfg) -> None:
        self._replaced.append(self._class_terms.get(name))
        super().set_term_cfg(name, cfg)
        self._changed()

    def forget_replaced(self) -> None:
        """Frees the terms that have been replaced, once no graph uses them."""
        self._replaced.clear()

    def _capturable(self, name: str) -> Capability:
        cfg = self._cfgs[name]
        known = cfg.capturable or getattr(cfg.func, "capturable", False)
        return Capability(known, "" if known else "capturable is not set")

    def _record(self, names: Sequence[str], _: torch.Tensor | None = None) -> None:
        leaves: dict[str, Any] = {}
        for name in names:
            with self._named(name):
                leaves |= self.buffers.checked(self._keys[name], self._call(name))
        self.buffers.write(leaves)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Says in errors which term is meant."""
        try:
            yield
        except RecorderError as error:
            raise TermError(f"{self._what(name)}: {error}") from error

    def _measure(self) -> None:
        """Calls every term once, to know its shapes, without a trace in the random generator."""
        generator = self._env.generator.get_state()
        for name, cfg in self._cfgs.items():
            with self._named(name):
                self.buffers.declare(self._keys[name], self._call(name), cfg.phase)
        self._env.generator.set_state(generator)
        self.buffers.allocate()

    def _check_cfg(self, name: str, cfg: RecorderTermCfg) -> None:
        if cfg.phase not in PHASES:
            raise TermError(f"{self._what(name)}: {unknown_name_message('phase', str(cfg.phase), PHASES)}")
        if name in self._cfgs and (cfg.phase, cfg.key) != (self._cfgs[name].phase, self._cfgs[name].key):
            raise TermError(f"{self._what(name)}: phase and key cannot change while the recorder runs.")

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [
            [field.key, field.shape, str(field.dtype).removeprefix("torch."), name, cfg.phase]
            for name, cfg in self._cfgs.items()
            for field in self.buffers.fields_of(self._keys[name])
        ]
        return ["key", "shape", "type", "term", "phase"], rows
