"""Actions, from the policy's output to joint targets, as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.managers import ActionManager, ActionTerm, ActionTermCfg
from lab_warp.managers import kernels
from lab_warp.managers.built_terms import WarpBuiltTerms
from lab_warp.views import share

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class ActionManagerWarp(WarpBuiltTerms[ActionTerm], ActionManager):
    """Splits the action (N, A) among its terms, in order.

    :meth:`take` hands over an action before the recorded stage; :meth:`process` and :meth:`apply_action` belong to it.
    """

    _env: WarpEnv
    _shared = "raw_actions"

    def __init__(self, cfg: Mapping[str, ActionTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._given = torch.zeros_like(self.action)
        self._non_finite = self._check.non_finite_action
        self.warp: SimpleNamespace = share(self, ("action", "prev_action", "_given", "_non_finite"))

    _state_exclude = ("_given", "_non_finite")

    def take(self, action: torch.Tensor) -> None:
        """Takes over the policy's action (N, A), on any device, of any number type and layout.

        Raises:
            ActionError: the shape is wrong, or (on a CPU) a number is not finite; nothing has been changed.
        """
        self._given.copy_(self._check.shaped(action))

    def process(self) -> None:
        """Shifts the actions by a step and processes the new one."""
        device = self._env.wp_device
        wp.launch(
            kernels.take_action,
            dim=self.action.shape,
            inputs=[self.warp.given],
            outputs=[self.warp.action, self.warp.prev_action, self.warp.non_finite],
            device=device,
        )
        for name, term in self._terms.items():
            columns = self._columns[name]
            if self._is_twin(name):
                term.process_actions(self.warp.action, columns.start)  # pyright: ignore[reportCallIssue]
            else:
                self._call_in_torch(name, term.process_actions, self.action[:, columns])

    def apply_action(self) -> None:
        for name, term in self._terms.items():
            if self._is_twin(name):
                term.apply_actions()
            else:
                self._call_in_torch(name, term.apply_actions)

    def reset_masked(self) -> None:
        """Zeroes the actions of the environments that are being reset."""
        mask = self._env.warp.reset_mask
        wp.launch(
            kernels.clear_actions,
            dim=self.action.shape,
            inputs=[mask],
            outputs=[self.warp.action, self.warp.prev_action],
            device=self._env.wp_device,
        )
        for name, term in self._terms.items():
            if self._is_twin(name):
                term.reset(mask)  # pyright: ignore[reportArgumentType]
            else:
                self._call_in_torch(name, term.reset, self._env.reset_mask)

    def _shared_shape(self, term: ActionTerm) -> tuple[int, ...]:
        return self._env.num_envs, term.action_dim
