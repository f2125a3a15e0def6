"""What went wrong in the physics, latched on the device and read once per training iteration."""

# Warp's annotations of arrays lack their methods.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math

import numpy as np
import warp as wp
from newton.solvers import SolverBase, SolverMuJoCo

from lab_core.physics import HealthReport
from lab_core.physics.backend import CapacityError
from lab_newton.state import health_kernels as kernels


class HealthMonitor:
    """Counts worlds that went non-finite, and latches overflows of the solver's buffers.

    The solver clears its overflow bits at every step, hence the latch after each one. Nothing here reads back to the
    host except :meth:`report`.
    """

    def __init__(self, num_envs: int, device: wp.Device) -> None:
        self.num_envs = num_envs
        self.device = device
        self.non_finite_count = wp.zeros(1, dtype=wp.int32, device=device)
        """Worlds put back to their default state since the last report."""
        self._latched = wp.zeros(num_envs, dtype=wp.int32, device=device)
        self._peak_rows = wp.zeros(num_envs, dtype=wp.int32, device=device)
        self._peak_contacts = wp.zeros(1, dtype=wp.int32, device=device)

    def latch(self, solver: SolverBase, candidates: wp.array) -> None:
        """Keeps what overflowed in the last step of ``solver``, for which ``candidates`` (1,) contacts were found."""
        if not isinstance(solver, SolverMuJoCo):
            return
        data = solver.mjw_data
        wp.launch(
            kernels.latch_overflow,
            dim=self.num_envs,
            inputs=[data.overflow, data.nefc, data.nacon, candidates],
            outputs=[self._latched, self._peak_rows, self._peak_contacts],
            device=self.device,
        )

    def clear(self) -> None:
        """Forgets everything."""
        for array in (self.non_finite_count, self._latched, self._peak_rows, self._peak_contacts):
            array.zero_()

    def report(self, solver: SolverBase, strict: bool) -> HealthReport:
        """Reads and clears the counters.

        Raises:
            CapacityError: a buffer was too small and ``strict`` is set.
        """
        report = HealthReport(non_finite_worlds=int(self.non_finite_count.numpy()[0]))
        if isinstance(solver, SolverMuJoCo):
            report.overflows = self._overflows(solver)
        self.clear()
        if strict and report.overflows:
            raise CapacityError(
                "Solver buffers were too small, contacts or constraints were lost: "
                + "; ".join(f"{buffer}: {text}" for buffer, text in report.overflows.items())
                + "."
            )
        return report

    def _overflows(self, solver: SolverMuJoCo) -> dict[str, str]:
        bits = SolverMuJoCo.import_mujoco()[1].OverflowType
        # At its iteration limit a solver stops early; no buffer was too small.
        latched = self._latched.numpy() & ~int(bits.ITERATIONS | bits.LS_ITERATIONS)
        data = solver.mjw_data
        found: dict[str, str] = {}
        for bit in bits.__members__.values():
            worlds = np.count_nonzero(latched & int(bit))
            if not worlds or bit == bits.ALL:
                continue
            if bit == bits.NEFC:
                found["constraint rows"] = (
                    f"{worlds} of {self.num_envs} worlds, raise physics.solver.njmax from {data.njmax} to at least "
                    f"{self._peak_rows.numpy().max()}"
                )
            elif bit not in (bits.BROADPHASE, bits.NARROWPHASE):
                found[str(bit.name)] = f"{worlds} of {self.num_envs} worlds"
        # Contacts, and the candidate pairs before them, live in one pool of all worlds.
        peak = int(self._peak_contacts.numpy()[0])
        if peak > data.naconmax:
            found["contacts"] = (
                f"the pool of all {self.num_envs} worlds, raise physics.solver.nconmax from "
                f"{data.naconmax // self.num_envs} to at least {math.ceil(peak / self.num_envs)}"
            )
        return found
