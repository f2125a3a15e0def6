"""What terms see of an environment that is not simulated: the attributes that they read, for any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import torch

from lab_core.env import Command
from lab_core.errors import unknown_name_message
from lab_core.imagination.data import ImaginedData
from lab_core.imagination.errors import ImaginationError
from lab_core.managers import UnknownTermError
from lab_core.names import UnknownNameError


@dataclass(frozen=True)
class ImaginedEntity:
    """One entity of the scene."""

    data: ImaginedData

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.data.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.data.body_names


class ImaginedScene(Mapping[str, ImaginedEntity]):
    """The entities by name."""

    def __init__(self, entities: Mapping[str, ImaginedEntity], env_origins: torch.Tensor) -> None:
        self._entities = entities
        self.env_origins = env_origins
        """(K, 3) origin of each row's environment in the world frame [m]."""

    def __getitem__(self, name: str) -> ImaginedEntity:
        if name not in self._entities:
            raise UnknownNameError(unknown_name_message("imagined entity", name, self._entities))
        return self._entities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entities)

    def __len__(self) -> int:
        return len(self._entities)

    def sensor(self, name: str) -> NoReturn:
        """Refuses: nothing is measured."""
        raise ImaginationError(f"Sensor {name!r} measures what the physics do, and imagination has root and joints.")


@dataclass(frozen=True)
class ImaginedAction:
    """Columns of the action that belong to one term."""

    raw_actions: torch.Tensor
    """(K, D)."""

    @property
    def processed_actions(self) -> NoReturn:
        raise ImaginationError("processed_actions: imagination has the actions as the policy gave them (raw_actions).")


@dataclass(frozen=True)
class ImaginedActions:
    """The action of the step, and the one before."""

    action: torch.Tensor
    """(K, A) as the policy gave it."""
    prev_action: torch.Tensor
    """(K, A) of the step before."""
    columns: Mapping[str, slice]
    """Term -> its part of the action."""

    def get_term(self, name: str) -> ImaginedAction:
        """Returns the part of a term."""
        if name not in self.columns:
            raise UnknownTermError(unknown_name_message("action term", name, self.columns))
        return ImaginedAction(self.action[:, self.columns[name]])


@dataclass
class ImaginedCommand:
    """A command that is numbers and nothing else."""

    command: torch.Tensor
    """(K, D)."""
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)


class ImaginedCommands:
    """The commands that were given."""

    def __init__(self, commands: Mapping[str, torch.Tensor | Command], rows: int) -> None:
        self._commands: dict[str, Command] = {
            name: ImaginedCommand(command) if isinstance(command, torch.Tensor) else command
            for name, command in commands.items()
        }
        for name, command in self._commands.items():
            if len(command.command) != rows:
                raise ImaginationError(f"Command {name!r} has {len(command.command)} rows, and there are {rows}.")

    def get_term(self, name: str) -> Command:
        """Returns what was given for a command term."""
        if name not in self._commands:
            raise ImaginationError(f"Command {name!r} was not given, only {sorted(self._commands) or 'none'}.")
        return self._commands[name]

    def get_command(self, name: str) -> torch.Tensor:
        """Returns the command (K, D) of a term."""
        return self.get_term(name).command


@dataclass(frozen=True)
class TerminationRules:
    """Which terminations there are, and how to ask one."""

    evaluate: Callable[[ImaginedEnv, str], torch.Tensor]
    """View and term -> what the term says (K,) bool."""
    ended: Sequence[str]
    """Terms by which episodes fail or succeed."""
    cut_off: Sequence[str]
    """Terms by which they run out of time."""


class ImaginedTerminations:
    """What the terminations of the environment say of a view, found when somebody asks. They have no gradients."""

    def __init__(self, view: ImaginedEnv) -> None:
        self._view = view

    def get_term(self, name: str) -> torch.Tensor:
        """Returns what a term says (K,) bool."""
        rules, found = self._view.rules, self._view.found
        if name not in found:
            if name not in (known := (*rules.ended, *rules.cut_off)):
                raise UnknownTermError(unknown_name_message("imagined termination term", name, known))
            with torch.no_grad():
                found[name] = rules.evaluate(self._view, name)
        return found[name]

    @property
    def terminated(self) -> torch.Tensor:
        """(K,) bool, episodes that fail or succeed here."""
        return self._any(self._view.rules.ended)

    @property
    def time_outs(self) -> torch.Tensor:
        """(K,) bool, episodes that are cut off here."""
        return self._any(self._view.rules.cut_off)

    def _any(self, names: Sequence[str]) -> torch.Tensor:
        nothing = torch.zeros(self._view.num_envs, dtype=torch.bool, device=self._view.device)
        return torch.stack([nothing, *map(self.get_term, names)]).any(dim=0)


@dataclass(kw_only=True)
class ImaginedEnv:
    """K environments that are not simulated, each one as after a step; :class:`Imagination` makes it.

    Raises:
        ImaginationError: something else of an environment is read.
    """

    num_envs: int
    """K."""
    device: torch.device
    scene: ImaginedScene
    action_manager: ImaginedActions
    command_manager: ImaginedCommands
    step_dt: float
    """Duration of an environment step [s]."""
    max_episode_length: int
    """Longest episode [steps]."""
    max_episode_length_s: float
    """Longest episode [s]."""
    episode_length: torch.Tensor | None
    """(K,) int64, steps that the episodes have lasted; None where nobody may ask."""
    rules: TerminationRules
    found: dict[str, torch.Tensor] = field(default_factory=dict)
    """Termination -> what it said (K,) bool, of those that were asked."""

    @property
    def termination_manager(self) -> ImaginedTerminations:
        return ImaginedTerminations(self)  # one of its own would hold the view, and all gradients, in a circle

    @property
    def episode_length_buf(self) -> torch.Tensor:
        if self.episode_length is None:
            raise ImaginationError("episode_length_buf was not given: give the view an episode_length.")
        return self.episode_length

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ImaginationError(f"An imagined environment has no {name!r}.")
