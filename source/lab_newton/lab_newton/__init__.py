"""The Newton physics backend: models, solvers, actuators, cameras and viewers."""

from __future__ import annotations

from lab_newton.config import MuJoCoSolverCfg, NeRDSolverCfg, NewtonCfg, NewtonSolverCfg, SolverCfg
from lab_newton.fit_cfg import FitCfg

__version__ = "0.1.0"

__all__ = ["FitCfg", "MuJoCoSolverCfg", "NeRDSolverCfg", "NewtonCfg", "NewtonSolverCfg", "SolverCfg"]
