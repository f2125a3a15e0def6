"""What goes wrong in worlds: states that are no numbers, buffers that are too small, forces that nobody feels."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from lab_core.errors import LabError
from lab_core.physics import CapacityError, HealthReport
from lab_newton.solver import Solver
from lab_newton.state import health_kernels

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class WorldHealth:
    """Finds worlds that are not well, counts them on the device, and reports when somebody asks."""

    def __init__(self, num_envs: int, max_velocity: float | None, device: wp.Device) -> None:
        """Takes the number of worlds, and the speed that none may exceed [m/s or rad/s]; None: any finite one."""
        self._num_envs = num_envs
        self._limit = _LARGEST_FLOAT if max_velocity is None else max_velocity
        self._device = device
        with wp.ScopedDevice(device):
            self.count = wp.zeros(1, dtype=wp.int32)
            """(1,) worlds that were put back since the last report; whoever puts them back counts."""
            self.ignored_wrenches = wp.zeros(num_envs, dtype=wp.bool)
            """(N,) worlds in which a force was written that the solver does not feel."""

    def find(self, state: newton.State, found: wp.array) -> None:
        """Marks in ``found`` (N,) bool the worlds that went non-finite, or too fast."""
        rows = [self._per_world(getattr(state, name)) for name in ("joint_q", "joint_qd", "body_q", "body_qd")]
        wp.launch(
            health_kernels.find_non_finite,
            dim=(self._num_envs, max(row.shape[1] for row in rows)),
            inputs=[*rows, self._limit],
            outputs=[found],
            device=self._device,
        )

    def report(self, solver: Solver) -> HealthReport:
        """Reads and clears what was found since the last report; it waits for the device.

        Raises:
            LabError: forces were written that ``solver`` does not feel.
            CapacityError: a buffer was too small, and ``solver`` is told to be strict.
        """
        found = HealthReport(int(self.count.numpy()[0]), _overflows(solver))
        self.count.zero_()
        if not solver.feels_wrenches:
            self._refuse_wrenches(solver.name)
        if solver.strict_capacity and found.overflows:
            raise CapacityError(
                "Solver buffers were too small, contacts or constraints were lost: "
                + "; ".join(f"{buffer}: {text}" for buffer, text in found.overflows.items())
                + "."
            )
        return found

    def _refuse_wrenches(self, solver: str) -> None:
        pushed = np.nonzero(self.ignored_wrenches.numpy())[0]
        self.ignored_wrenches.zero_()
        if pushed.size:
            raise LabError(
                f"body_wrench_w was written in {pushed.size} of {self._num_envs} environments, first in {pushed[0]}. "
                f"The solver, {solver}, feels no forces on bodies."
            )

    def _per_world(self, array: wp.array) -> wp.array:
        return array.reshape((self._num_envs, array.shape[0] // self._num_envs))


def _overflows(solver: Solver) -> dict[str, str]:
    found = solver.overflows()
    return found if solver.contact_set is None else found | solver.contact_set.overflows()
