"""Where some bodies were, and how they turned, when the solver computed forces and accelerations."""

from __future__ import annotations

import newton
import warp as wp

from lab_newton.sensors import body_kernels as kernels


class BodyMotions:
    """Orientations and angular velocities of bodies before a solver step.

    A solver's forces and accelerations belong to the state that it started from; after the step that state is gone.
    """

    def __init__(self, places: list[int], num_envs: int, device: wp.Device) -> None:
        """``places`` are the bodies' places in the slice of one world."""
        shape = (num_envs, len(places))
        self.places = wp.array(places, dtype=wp.int32, device=device)
        self.rotations = wp.zeros(shape, dtype=wp.quat, device=device)
        self.ang_vels = wp.zeros(shape, dtype=wp.vec3, device=device)
        self.bodies_per_world = 0
        self._device = device

    def bind(self, model: newton.Model, state: newton.State) -> None:
        """Connects to an engine."""
        self.bodies_per_world = model.body_count // self.rotations.shape[0]
        self._state = state

    def read(self) -> None:
        """Remembers the present state."""
        wp.launch(
            kernels.read_motions,
            dim=self.rotations.shape,
            inputs=[self.places, self.bodies_per_world, self._state.body_q, self._state.body_qd],
            outputs=[self.rotations, self.ang_vels],
            device=self._device,
        )
