"""The state that pictures and pages show."""

from __future__ import annotations

from collections.abc import Mapping

import newton
import torch
import warp as wp

from lab_newton.body_poses import BodyPoses
from lab_newton.state import NewtonEntity


class ShownState:
    """Gives the present state; where some of it was authored and not taken over yet, a copy that has done so: a picture
    shows what was written, and changes nothing."""

    def __init__(
        self,
        model: newton.Model,
        state: newton.State,
        entities: Mapping[str, NewtonEntity],
        poses: BodyPoses,
        written: torch.Tensor,
    ) -> None:
        """Takes what there is to see.

        Args:
            model: The simulated model.
            state: Of all worlds.
            entities: Its entities, whose buffers are authored.
            poses: Moves bodies.
            written: (N,) bool, worlds whose buffers were written since the physics took them over.
        """
        self._model, self._state, self._entities, self._poses = model, state, entities, poses
        self._written = written
        self._copy: newton.State | None = None

    def __call__(self) -> newton.State:
        if not self._written.any():
            return self._state
        if self._copy is None:
            self._copy = self._model.state()
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            wp.copy(getattr(self._copy, name), getattr(self._state, name))
        mask = wp.from_torch(self._written)
        for entity in self._entities.values():
            entity.write_state(mask, self._copy)
        self._poses.refresh(mask, self._copy)
        return self._copy
