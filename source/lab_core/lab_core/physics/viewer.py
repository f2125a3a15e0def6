"""A live view of the scene, and what it needs of the commands that it controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch


class CommandComponent(Protocol):
    """One number of a command."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str:
        """Name and unit."""
        ...

    @property
    def low(self) -> float:
        """Least value that is drawn."""
        ...

    @property
    def high(self) -> float:
        """Greatest value that is drawn."""
        ...


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
