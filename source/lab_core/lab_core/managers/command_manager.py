"""Commands: what the policy is asked to do, drawn anew from time to time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.config import MISSING, Settings
from lab_core.env import Env
from lab_core.managers.built_terms import BuiltTerm, BuiltTerms
from lab_core.managers.checks import check_range, check_tensor
from lab_core.managers.timers import ran_out
from lab_core.masks import masked_copy_, masked_mean
from lab_core.physics import Ghost
from lab_core.sampling import uniform


@dataclass(kw_only=True)
class CommandTermCfg(Settings):
    """Base of the configurations of command terms; each builds its own class."""

    resampling_time_range: tuple[float, float] = MISSING
    """A command holds for a time drawn uniformly from this range [s]."""

    def build(self, env: Env) -> CommandTerm:
        """Returns the term of this configuration."""
        raise NotImplementedError(f"{type(self).__name__} does not say which command term it configures.")


class CommandTerm(BuiltTerm):
    """Draws and updates one command. Subclasses define :attr:`command` and the three hooks below it; those that show in
    pictures what they ask for define ``markers`` (:class:`~lab_core.markers.Drawing`) or :meth:`ghosts`."""

    def __init__(self, cfg: CommandTermCfg, env: Env) -> None:
        check_range(cfg.resampling_time_range, "resampling_time_range")
        super().__init__(cfg)
        self._env = env
        self.time_left = torch.zeros(env.num_envs, device=env.device)
        """(N,) time until the next command [s]."""
        self.command_counter = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        """(N,) commands drawn in this episode."""
        self.metrics: dict[str, torch.Tensor] = {}
        """Name -> (N,) value of the running episode; a reset logs and zeroes it."""

    @property
    @abstractmethod
    def command(self) -> torch.Tensor:
        """(N, D)."""

    @abstractmethod
    def _resample(self, mask: torch.Tensor) -> None:
        """Draws the commands of the environments in ``mask`` (N,) bool."""

    @abstractmethod
    def _update_command(self, mask: torch.Tensor) -> None:
        """Adapts the commands of the environments in ``mask`` (N,) bool to their state."""

    @abstractmethod
    def update_metrics(self) -> None:
        """Updates :attr:`metrics` with the step that was just made and the command that the policy followed in it."""

    def ghosts(self) -> Sequence[Ghost]:
        """Returns poses that show in pictures what the command asks for; by default none. Called where somebody looks,
        between steps, and never captured."""
        return ()

    def set_cfg(self, cfg: Any) -> None:
        """Takes over a changed configuration of the same class; ranges act on the next draw."""
        check_range(cfg.resampling_time_range, "resampling_time_range")
        self.cfg = cfg

    def compute(self, dt: float) -> None:
        """Moves on by ``dt`` seconds: timers, new commands where the time is up, and their adaptation to the state."""
        self.time_left.sub_(dt)
        self._renew(ran_out(self.time_left, dt))
        self._update_command(torch.ones_like(self.time_left, dtype=torch.bool))

    def refresh(self, mask: torch.Tensor) -> None:
        """Adapts the commands of the environments in ``mask`` (N,) bool to the state they were reset to; nothing moves
        on."""
        self._update_command(mask)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Draws new commands in the environments of ``mask`` (N,) bool; other rows stay bitwise unchanged.

        Returns:
            Mean of every metric over these environments.
        """
        log: dict[str, torch.Tensor | float] = {name: masked_mean(value, mask) for name, value in self.metrics.items()}
        for value in self.metrics.values():
            masked_copy_(value, 0.0, mask)
        masked_copy_(self.command_counter, 0, mask)
        self._renew(mask)
        return log

    def _renew(self, mask: torch.Tensor) -> None:
        low, high = self.cfg.resampling_time_range
        masked_copy_(self.time_left, uniform(low, high, self.time_left.shape, self._env.generator), mask)
        self._resample(mask)
        self.command_counter.add_(mask)


class CommandTerms(BuiltTerms[CommandTerm]):
    """Holds the commands, in all front ends."""

    kind = "command"
    cfg_type = CommandTermCfg

    def __init__(self, cfg: Mapping[str, CommandTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        for name, term in self._terms.items():
            check_tensor(term.command, (env.num_envs, *term.command.shape[1:]), self._what(name))

    def get_command(self, name: str) -> torch.Tensor:
        """Returns the command (N, D) of a term: the live buffer."""
        return self.get_term(name).command

    def ghosts(self) -> list[Ghost]:
        """Returns the ghosts of all terms."""
        return [ghost for term in self._terms.values() for ghost in term.ghosts()]

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows: list[list[Any]] = [
            [name, type(term).__name__, tuple(term.command.shape[1:]), term.cfg.resampling_time_range]
            for name, term in self._terms.items()
        ]
        return ["name", "class", "shape", "resampled [s]"], rows


class CommandManager(CommandTerms):
    """Holds the command terms. A reset logs ``Metrics/<term>/<metric>``."""

    def update_metrics(self) -> None:
        """Updates the metrics with the step that was just made, before any reset and any new command."""
        for term in self._terms.values():
            term.update_metrics()

    def compute(self, dt: float) -> None:
        """Moves all commands on by ``dt`` seconds."""
        for term in self._terms.values():
            term.compute(dt)

    def refresh(self, mask: torch.Tensor) -> None:
        """Adapts the commands of the environments in ``mask`` (N,) bool to the state they were reset to; nothing moves
        on."""
        for term in self._terms.values():
            term.refresh(mask)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Draws new commands in the environments of ``mask`` (N,) bool and returns the log of their episodes."""
        return {
            f"Metrics/{name}/{metric}": value
            for name, term in self._terms.items()
            for metric, value in term.reset(mask).items()
        }
