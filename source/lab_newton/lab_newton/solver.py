"""Making the configured Newton solver."""

from __future__ import annotations

import newton
from newton.solvers import SolverBase, SolverMuJoCo

from lab_core.errors import ConfigError
from lab_newton.config import MuJoCoSolverCfg, NewtonSolverCfg, SolverCfg


def make_solver(cfg: SolverCfg, model: newton.Model) -> SolverBase:
    """Returns the solver of ``cfg`` for ``model``.

    Raises:
        ConfigError: the class is unknown, or it refuses its options.
    """
    if isinstance(cfg, MuJoCoSolverCfg):
        return _make_mujoco(cfg, model)
    if isinstance(cfg, NewtonSolverCfg):
        return _make_named(cfg, model)
    raise ConfigError(f"physics.solver is a {type(cfg).__name__}, expected MuJoCoSolverCfg or NewtonSolverCfg.")


def _make_mujoco(cfg: MuJoCoSolverCfg, model: newton.Model) -> SolverMuJoCo:
    solver = SolverMuJoCo(
        model,
        solver=cfg.solver,
        integrator=cfg.integrator,
        cone=cfg.cone,
        jacobian=cfg.jacobian,
        impratio=cfg.impratio,
        iterations=cfg.iterations,
        ls_iterations=cfg.ls_iterations,
        tolerance=cfg.tolerance,
        ccd_iterations=cfg.ccd_iterations,
        njmax=cfg.njmax,
        nconmax=cfg.nconmax,
        disable_contacts=not cfg.contacts,
        # A switchable root costs an idle weld constraint in every world.
        kinematic_switchable_roots=False,
    )
    # Overflows are latched on the device and reported by health(); the default prints a line per step.
    solver.mjw_model.opt.warn_overflow = 0
    if cfg.deterministic:
        solver.mjw_model.opt.deterministic = True
    return solver


def _make_named(cfg: NewtonSolverCfg, model: newton.Model) -> SolverBase:
    solver_class = getattr(newton.solvers, cfg.name, None)
    if not (isinstance(solver_class, type) and issubclass(solver_class, SolverBase)):
        known = [name for name in dir(newton.solvers) if name.startswith("Solver") and name != "SolverBase"]
        raise ConfigError(f"physics.solver.name: newton.solvers has no {cfg.name!r}. It has: {', '.join(known)}.")
    try:
        return solver_class(model, **cfg.options)
    except TypeError as error:
        raise ConfigError(f"physics.solver.options of {cfg.name}: {error}.") from error
