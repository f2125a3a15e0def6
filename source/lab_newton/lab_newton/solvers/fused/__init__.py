"""The constraint solve of MuJoCo Warp in one kernel."""

from __future__ import annotations

from lab_newton.solvers.fused.solver import FusedSolverMuJoCo, fits, unsupported

__all__ = ["FusedSolverMuJoCo", "fits", "unsupported"]
