"""Actions: from the policy's output to joint targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.config import Settings
from lab_core.env import Env
from lab_core.managers.built_terms import BuiltTerm, BuiltTerms
from lab_core.managers.errors import TermError
from lab_core.managers.finite_action import FiniteActionCheck
from lab_core.masks import masked_copy_


@dataclass(kw_only=True)
class ActionTermCfg(Settings):
    """Base of the configurations of action terms; each builds its own class."""

    asset_name: str = "robot"
    """Entity of the scene that the term moves."""

    def build(self, env: Env) -> ActionTerm:
        """Returns the term of this configuration."""
        raise NotImplementedError(f"{type(self).__name__} does not say which action term it configures.")


class ActionTerm(BuiltTerm):
    """Turns some columns of the action into targets of one entity.

    Raises:
        UnknownNameError: the scene has no such entity.
    """

    raw_actions: torch.Tensor
    """(N, action_dim) columns as the policy gave them: part of the manager's action, which hands it over."""

    def __init__(self, cfg: ActionTermCfg, env: Env) -> None:
        super().__init__(cfg)
        self._env = env
        self._asset = env.scene[cfg.asset_name]

    @property
    @abstractmethod
    def action_dim(self) -> int:
        """Number of columns."""

    @property
    @abstractmethod
    def processed_actions(self) -> torch.Tensor:
        """(N, action_dim) targets."""

    @abstractmethod
    def process_actions(self, actions: torch.Tensor) -> None:
        """Makes targets of the columns (N, action_dim), once per environment step."""

    @abstractmethod
    def apply_actions(self) -> None:
        """Writes targets into the entity's data, before the physics step."""

    def processed_for(self, env: Any, actions: torch.Tensor) -> torch.Tensor:
        """Returns the targets (K, action_dim) that columns (K, action_dim) become in another environment, such as an
        imagined one, with gradients.

        Raises:
            TermError: the term does not say.
        """
        raise TermError(f"{type(self).__name__} does not say what actions become in an imagined environment.")

    @abstractmethod
    def reset(self, mask: torch.Tensor) -> None:
        """Zeroes the targets of the environments in ``mask`` (N,) bool."""

    def set_cfg(self, cfg: Any) -> None:
        """Takes over a changed configuration of the same class.

        Raises:
            TermError: it changes what is fixed.
        """
        raise TermError(f"{type(self).__name__} cannot change while the environment runs.")


class ActionTerms(BuiltTerms[ActionTerm]):
    """Holds the action (N, A) and the columns of its terms, in order, in all front ends."""

    kind = "action"
    cfg_type = ActionTermCfg

    def __init__(self, cfg: Mapping[str, ActionTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        widths = [term.action_dim for term in self._terms.values()]
        starts = [sum(widths[:i]) for i in range(len(widths))]
        self._columns = {
            name: slice(start, start + width) for name, start, width in zip(self._terms, starts, widths, strict=True)
        }
        self.total_action_dim = sum(widths)
        size = (env.num_envs, self.total_action_dim)
        self.action = torch.zeros(size, device=env.device)
        """(N, A) action of this step, as the policy gave it; zero after a reset."""
        self.prev_action = torch.zeros(size, device=env.device)
        """(N, A) action of the step before; zero after a reset."""
        for name, term in self._terms.items():
            term.raw_actions = term.scratch(self.action[:, self._columns[name]])
        self._check = FiniteActionCheck(env.num_envs, self._columns, self.total_action_dim, env.device)

    def raise_for_invalid(self) -> None:
        """Waits for the device and raises :class:`ActionError` if an action since the last call was not finite."""
        self._check.raise_for_invalid()

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows: list[list[Any]] = [
            [name, type(term).__name__, term.action_dim, f"{self._columns[name].start}:{self._columns[name].stop}"]
            for name, term in self._terms.items()
        ]
        return ["name", "class", "width", "columns"], rows


class ActionManager(ActionTerms):
    """Splits the action among its terms; see :class:`FiniteActionCheck` for numbers that are not finite."""

    def process_actions(self, action: torch.Tensor) -> None:
        """Takes over the policy's action (N, A), on any device and of any number type.

        Raises:
            ActionError: the shape is wrong, or (on a CPU) a number is not finite; nothing has been changed.
        """
        action = self._check(action)
        self.prev_action.copy_(self.action)
        self.action.copy_(action)
        for name, term in self._terms.items():
            term.process_actions(self.action[:, self._columns[name]])

    def apply_actions(self) -> None:
        """Writes the targets of all terms."""
        for term in self._terms.values():
            term.apply_actions()

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Zeroes both actions of the environments in ``mask`` (N,) bool. Logs nothing."""
        masked_copy_(self.action, 0.0, mask)
        masked_copy_(self.prev_action, 0.0, mask)
        for term in self._terms.values():
            term.reset(mask)
        return {}
