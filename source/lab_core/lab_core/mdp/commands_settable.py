"""Commands that a person can set in place of the drawn ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from lab_core.env import Env
from lab_core.errors import LabError
from lab_core.managers import CommandTerm, CommandTermCfg
from lab_core.physics import CommandComponent


class SettableCommandTerm(CommandTerm):
    """A command (N, D) of numbers that :meth:`set_command` can fix for all environments.

    While it is fixed, the term goes on underneath: timers run, commands are drawn and adapted to the state, so that
    the random stream of everything else stays the same. A fixed command comes from outside, like an action: it is no
    part of the state, ``state_dict`` holds the drawn commands, and ``load_state_dict`` leaves a fixed command fixed.

    Subclasses draw into ``_command`` and name its components.
    """

    def __init__(self, cfg: CommandTermCfg, env: Env, num_components: int) -> None:
        super().__init__(cfg, env)
        self._command = torch.zeros(env.num_envs, num_components, device=env.device)
        self._drawn = self.scratch(torch.zeros_like(self._command))  # in use while a command is fixed
        self._fixed_row = self.scratch(torch.zeros(num_components, device=env.device))
        self._fixed: tuple[float, ...] | None = None

    @property
    def command(self) -> torch.Tensor:
        return self._command

    @property
    @abstractmethod
    def components(self) -> tuple[CommandComponent, ...]:
        """The D numbers of the command, in order."""

    @property
    def fixed_command(self) -> tuple[float, ...] | None:
        """The D numbers that all environments follow; None where each follows what was drawn for it."""
        return self._fixed

    def set_command(self, values: Sequence[float] | None) -> None:
        """Fixes the command of all environments, or with None, hands it back to the draws.

        Args:
            values: One number per component; they may be beyond the bounds of the draws.

        Raises:
            LabError: The count is wrong, or a number is not finite.
        """
        if values is not None:
            self._check(values)
            if self._fixed is None:
                self._drawn.copy_(self._command)
            self._fixed_row.copy_(torch.tensor(values, dtype=torch.float32))
            self._command.copy_(self._fixed_row)
        elif self._fixed is not None:
            self._command.copy_(self._drawn)
        self._fixed = None if values is None else tuple(float(value) for value in values)

    def compute(self, dt: float) -> None:
        with self._drawing():
            super().compute(dt)

    def refresh(self, mask: torch.Tensor) -> None:
        with self._drawing():
            super().refresh(mask)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        with self._drawing():
            return super().reset(mask)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Lets the term work on the drawn commands also while another command is followed."""
        if self._fixed is None:
            yield
            return
        self._command.copy_(self._drawn)
        try:
            yield
        finally:
            self._drawn.copy_(self._command)
            self._command.copy_(self._fixed_row)

    def _check(self, values: Sequence[float]) -> None:
        labels = ", ".join(component.label for component in self.components)
        if len(values) != len(self.components):
            raise LabError(f"The command ({labels}) takes {len(self.components)} numbers, got {len(values)}.")
        if not all(math.isfinite(value) for value in values):
            raise LabError(f"The command ({labels}) takes finite numbers, got {list(values)}.")

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        items = dict(super()._state_items())
        if self._fixed is not None:
            items["_command"] = self._drawn
        return items.items()


def settable_commands(env: Env) -> dict[str, SettableCommandTerm]:
    """The commands of ``env`` that can be set, by the names of their terms."""
    manager = getattr(env, "command_manager", None)  # environments without managers have none
    if manager is None:
        return {}
    terms = {name: manager.get_term(name) for name in manager.term_names}
    return {name: term for name, term in terms.items() if isinstance(term, SettableCommandTerm)}
