"""Where joint positions put the bodies of chosen worlds."""

from __future__ import annotations

import newton
import warp as wp

from lab_newton import mask_kernels
from lab_newton.arrays import present


class BodyPoses:
    """Moves the bodies of some worlds of a model to where their joint positions put them."""

    def __init__(self, model: newton.Model, num_envs: int) -> None:
        self._model = model
        self._num_envs = num_envs
        with wp.ScopedDevice(model.device):
            self.world_mask = wp.zeros(num_envs + 1, dtype=wp.bool)
            """(N + 1,) worlds that were chosen last, in the form that Newton's solvers take."""
            self._articulation_mask = wp.zeros(model.articulation_count, dtype=wp.bool)

    def choose(self, mask: wp.array, count: wp.array | None = None) -> None:
        """Chooses the worlds of ``mask`` (N,) bool, and adds their number to ``count`` (1,) int32."""
        wp.launch(
            mask_kernels.spread_mask,
            dim=self._num_envs,
            inputs=[mask, self._model.articulation_count // self._num_envs],
            outputs=[self.world_mask, self._articulation_mask, count],
            device=self._model.device,
        )

    def refresh(self, mask: wp.array, state: newton.State, count: wp.array | None = None) -> None:
        """Chooses worlds as :meth:`choose` does, and moves their bodies in ``state``."""
        self.choose(mask, count)
        newton.eval_fk(
            self._model, present(state.joint_q), present(state.joint_qd), state, mask=self._articulation_mask
        )
