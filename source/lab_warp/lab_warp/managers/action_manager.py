"""Actions, from the policy's output to joint targets, as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import warp as wp

from lab_core.managers import ActionTerm, ActionTermCfg, ActionTerms
from lab_warp.env import ActionArrays, ActionTermArrays, WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.built_terms import WarpBuiltTerms
from lab_warp.views import Shared, shared


class ActionManagerWarp(WarpBuiltTerms[ActionTerm], ActionTerms):
    """Splits the action among its terms.

    :meth:`take_actions` hands over an action before the captured stage, to which the rest belongs.
    """

    def __init__(self, cfg: Mapping[str, ActionTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._given = self.scratch(shared(torch.zeros_like(self.action)))
        self._non_finite = wp.from_torch(self._check.non_finite_action)
        self.warp = ActionArrays(wp.from_torch(self.action), wp.from_torch(self.prev_action))
        self._parts = self.scratch({name: shared(self.action[:, part]) for name, part in self._columns.items()})
        """Term -> its columns of the action."""
        for name, term in self._terms.items():
            shown: Any = term
            shown.warp = ActionTermArrays(self._parts[name].warp)

    def take_actions(self, actions: torch.Tensor) -> None:
        """Takes over the policy's action (N, A), on any device, of any number type and layout.

        Raises:
            ActionError: the shape is wrong, or (on a CPU) a number is not finite; nothing has been changed.
        """
        self._given.torch.copy_(self._check.checked(actions))

    def process_actions(self) -> None:
        """Shifts the actions by a step and processes the one that was taken over."""
        wp.launch(
            kernels.take_action,
            dim=self.action.shape,
            inputs=[self._given.warp],
            outputs=[self.warp.action, self.warp.prev_action, self._non_finite],
            device=self._env.wp_device,
        )
        for name, term in self._terms.items():
            part = self._parts[name]
            self._call(name, term.process_actions, part.warp if self._is_twin(name) else part.torch)

    def apply_actions(self) -> None:
        """Writes the targets of all terms."""
        for name, term in self._terms.items():
            self._call(name, term.apply_actions)

    def reset(self, mask: Shared) -> None:
        """Zeroes the actions of the environments in ``mask``."""
        wp.launch(
            kernels.clear_actions,
            dim=self.action.shape,
            inputs=[mask.warp],
            outputs=[self.warp.action, self.warp.prev_action],
            device=self._env.wp_device,
        )
        for name, term in self._terms.items():
            self._call(name, term.reset, mask.warp if self._is_twin(name) else mask.torch)
