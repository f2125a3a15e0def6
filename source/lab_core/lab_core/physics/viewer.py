"""A live view of the scene, and what it needs of the commands that it controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class CommandComponent:
    """One number of a command."""

    name: str
    unit: str
    low: float
    """Least value that is drawn [unit]."""
    high: float
    """Greatest value that is drawn [unit]."""

    @property
    def label(self) -> str:
        """Name and unit, as in ``lin_vel_x [m/s]``."""
        return f"{self.name} [{self.unit}]"


class SettableCommand(Protocol):
    """A command (N, D) that can be fixed for all environments; :class:`lab_core.mdp.SettableCommandTerm` is one."""

    @property
    def command(self) -> torch.Tensor:
        """(N, D) what the environments are to do."""
        ...

    @property
    def components(self) -> Sequence[CommandComponent]:
        """The D numbers, in order."""
        ...

    @property
    def fixed_command(self) -> Sequence[float] | None:
        """The D numbers that all environments follow; None where each follows its own."""
        ...

    def set_command(self, values: Sequence[float] | None) -> None:
        """Fixes the command of all environments, or with None, lets each follow its own again."""


class Viewer(Protocol):
    """A live view of the scene, with controls."""

    url: str

    def should_step(self) -> bool:
        """Whether to make the next step: not while the view says pause, except when it asks for a single step."""
        ...

    def update(self, status: str = "") -> None:
        """Does what people asked for in the view, and shows the current state and ``status``, a short text."""

    def close(self) -> None:
        """Stops serving."""
