"""Model files that others wrote, beside C MuJoCo: each tree of bodies is an entity, and nothing else is edited."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import newton
import numpy as np
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.model import build_model
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.trees import moving_trees
from lab_newton.solvers.mujoco import MuJoCoSolver
from lab_newton.state import NewtonEntity, make_entity
from lab_newton.terrain import Ground

DT = 0.001
STEPS = 100
UNSTABLE = 50.0
"""Speed in C MuJoCo [rad/s or m/s] from which nothing is compared."""
TOLERANCE = 2e-3
"""Largest difference of a body's place [m] after all steps that is rounding, which contacts multiply."""


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    kind: str
    """``accepted``, ``refused``, ``wrong``, or ``left out``: C MuJoCo refuses it, or nothing in it moves."""
    why: str = ""
    distance: float = 0.0
    """Of bodies from where C MuJoCo has them at the end [m]."""


def try_file(path: Path) -> Outcome:
    """Builds the file and steps it without any drive, beside C MuJoCo."""
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        compiled = spec.compile()
    except ValueError as error:
        return Outcome("left out", f"MuJoCo: {error}")
    if not compiled.nv:
        return Outcome("left out", "nothing moves")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            worlds = Worlds(path, compiled)
    except ConfigError as error:
        return Outcome("refused", str(error))
    distance = worlds.step()
    return Outcome("accepted" if distance < TOLERANCE else "wrong", f"{distance:.2g} m apart", distance)


class Worlds:
    """One world with all entities of a file, and C MuJoCo with the same file."""

    def __init__(self, path: Path, compiled: Any) -> None:
        device, self.compiled, self.names = wp.get_device("cpu"), compiled, Names(compiled)
        trees = moving_trees(compiled)
        roots = [None] if len(trees) == 1 else [compiled.body(body).name for body in trees]
        cfgs = {f"robot_{i}": ArticulationCfg(asset=str(path), root=root, actuators={}) for i, root in enumerate(roots)}
        scene = SceneCfg(entities=dict(cfgs), ground=None)
        self.entities: dict[str, NewtonEntity] = {name: make_entity(cfg, name, 1, device) for name, cfg in cfgs.items()}
        option = compiled.opt
        density, viscosity = float(option.density), float(option.viscosity)
        settings = MuJoCoSolverCfg(
            tolerance=1e-8, density=density, viscosity=viscosity, impratio=float(option.impratio), njmax=1500,
            nconmax=500,
        )  # fmt: skip
        gravity = tuple(float(value) for value in option.gravity)
        ground = Ground(scene, None, "mesh", device)
        model = build_model(scene, self.entities, gravity, 1, device, ground, settings.prepare)
        solver = settings.build(model, NewtonCfg(dt=DT), scene)
        assert isinstance(solver, MuJoCoSolver)
        self.solver = solver
        files = {name: entity.imported for name, entity in self.entities.items() if entity.imported is not None}
        solver.check_files(files, dict.fromkeys(files, True))
        self.state, self.control = model.state(), model.control()
        for entity in self.entities.values():
            entity.bind(model, wp.zeros(1, dtype=wp.vec3, device=device), self.state)
        newton.eval_fk(model, self.state.joint_q, self.state.joint_qd, self.state)
        self.data = self._same_start()

    def _same_start(self) -> Any:
        option = self.compiled.opt
        option.timestep, option.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        option.tolerance, option.cone = 1e-8, mujoco.mjtCone.mjCONE_PYRAMIDAL
        option.solver, option.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 100
        option.noslip_iterations = 0
        bits = mujoco.mjtDisableBit
        option.disableflags, option.enableflags = int(bits.mjDSBL_ACTUATION | bits.mjDSBL_MULTICCD), 0
        data, rng = mujoco.MjData(self.compiled), np.random.default_rng(0)
        velocity, position = self.state.joint_qd.numpy(), self.state.joint_q.numpy()
        for entity in self.entities.values():
            layout = entity.layout
            for name, coordinate, dof in zip(layout.joint_names, layout.joint_coord, layout.joint_dof, strict=True):
                joint = next(j for j in range(self.compiled.njnt) if self.names.of("joint", j) == name)
                place = self.compiled.jnt_qposadr[joint]
                data.qpos[place] = self.compiled.qpos0[place] + position[coordinate]
                velocity[dof] = data.qvel[self.compiled.jnt_dofadr[joint]] = 0.2 * rng.standard_normal()
        self.state.joint_qd.assign(velocity)
        return data

    def step(self) -> float:
        for _ in range(STEPS):
            self.solver.step(self.state, self.control, DT)
            mujoco.mj_step(self.compiled, self.data)
            if np.abs(self.data.qvel).max() > UNSTABLE:  # without its drives the robot flies apart, there as here
                break
        mujoco.mj_kinematics(self.compiled, self.data)
        places, worst = self.state.body_q.numpy()[:, :3], 0.0
        for entity in self.entities.values():
            bodies = [
                next(b for b in range(self.compiled.nbody) if self.names.of("body", b) == name)
                for name in entity.layout.body_names
            ]
            worst = max(worst, float(np.abs(places[list(entity.layout.body)] - self.data.xpos[bodies]).max()))
        return worst
