"""External forces and torques on the bodies of an entity."""

from __future__ import annotations

import newton
import warp as wp

from lab_newton.state import wrench_kernels as kernels
from lab_newton.state.entity import NewtonEntity


class ExternalWrench:
    """Hands ``body_wrench_w`` to Newton, whose convention it shares: world frame, about the centre of mass."""

    def __init__(self, entity: NewtonEntity, model: newton.Model) -> None:
        self._wrench = entity.data.warp.body_wrench_w
        self._places = wp.array(entity.layout.body, dtype=wp.int32, device=entity.device)
        self._bodies_per_world = model.body_count // entity.num_envs

    def write(self, state: newton.State) -> None:
        """Sets the forces of the coming physics steps."""
        wp.launch(
            kernels.write,
            dim=self._wrench.shape,
            inputs=[self._places, self._bodies_per_world, self._wrench],
            outputs=[state.body_f],
            device=self._wrench.device,
        )

    def find(self, worlds: wp.array) -> None:
        """Marks in ``worlds`` (N,) bool those with a force or torque."""
        wp.launch(
            kernels.find,
            dim=self._wrench.shape,
            inputs=[self._wrench],
            outputs=[worlds],
            device=self._wrench.device,
        )

    def clear(self, mask: wp.array) -> None:
        """Ends the forces on the worlds of ``mask`` (N,) bool."""
        wp.launch(
            kernels.clear,
            dim=self._wrench.shape,
            inputs=[mask],
            outputs=[self._wrench],
            device=self._wrench.device,
        )
