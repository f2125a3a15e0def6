"""Model files beside C MuJoCo: the same file, the same start, the same number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from lab_core.scene import ArticulationCfg, GroundCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.model import build_model
from lab_newton.robot_files import ImportedFile, report_file
from lab_newton.solvers.mujoco import MuJoCoSolver
from lab_newton.state import NewtonEntity, make_entity
from lab_newton.terrain import Ground

CASES = Path(__file__).parent / "cases"
DT = 0.002


@dataclass
class Robot:
    """One world with one robot, and C MuJoCo with the same file."""

    entity: NewtonEntity
    imported: ImportedFile
    model: newton.Model
    state: newton.State
    control: newton.Control
    solver: MuJoCoSolver
    compiled: Any
    data: Any
    report: str

    @property
    def joint_pos(self) -> dict[str, float]:
        values = self.state.joint_q.numpy()[list(self.entity.layout.joint_coord)]
        return dict(zip(self.entity.layout.joint_names, values.tolist(), strict=True))

    @property
    def places(self) -> np.ndarray:
        """Positions of the robot's bodies (B, 3) [m]."""
        return self.state.body_q.numpy()[list(self.entity.layout.body), :3]

    def push(self, seed: int = 0) -> None:
        """Gives all joints, here and there, the same velocities at random."""
        rng, names = np.random.default_rng(seed), self.imported.names
        velocity = self.state.joint_qd.numpy()
        for name, dof in zip(self.entity.layout.joint_names, self.entity.layout.joint_dof, strict=True):
            joint = next(j for j in range(self.compiled.njnt) if names.of("joint", j) == name)
            velocity[dof] = self.data.qvel[self.compiled.jnt_dofadr[joint]] = 0.5 * rng.standard_normal()
        self.state.joint_qd.assign(velocity)

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.solver.collide(self.state)
            self.solver.step(self.state, self.control, DT)

    def step_both(self, steps: int) -> None:
        self.step(steps)
        for _ in range(steps):
            mujoco.mj_step(self.compiled, self.data)
        mujoco.mj_kinematics(self.compiled, self.data)

    def distance(self) -> float:
        """Returns how far bodies are from where C MuJoCo has them [m], and joints [rad or m]."""
        names, model = self.imported.names, self.compiled
        bodies = [
            next(b for b in range(model.nbody) if names.of("body", b) == name) for name in self.entity.layout.body_names
        ]
        worst = float(np.abs(self.places - self.data.xpos[bodies]).max())
        for name, value in self.joint_pos.items():
            joint = next(j for j in range(model.njnt) if names.of("joint", j) == name)
            there = self.data.qpos[model.jnt_qposadr[joint]] - model.qpos0[model.jnt_qposadr[joint]]
            worst = max(worst, abs(value - float(there)))
        return worst


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Robot]:
    """Builds a robot of a case, or of text; keywords go to its configuration."""

    def load(
        case: str,
        suffix: str = ".xml",
        ground: GroundCfg | None = None,
        gravity: float = -9.81,
        solver: MuJoCoSolverCfg | None = None,
        **settings: Any,
    ) -> Robot:
        path = CASES / case
        if "<" in case:
            path = tmp_path / f"robot{suffix}"
            path.write_text(case)
        cfg = ArticulationCfg(**{"asset": str(path), "actuators": {}} | settings)
        return build(cfg, ground, gravity, solver or MuJoCoSolverCfg(tolerance=1e-8, njmax=200, nconmax=50))

    return load


def build(cfg: ArticulationCfg, ground: GroundCfg | None, gravity: float, solver_cfg: MuJoCoSolverCfg) -> Robot:
    device, scene = wp.get_device("cpu"), SceneCfg(entities={"robot": cfg}, ground=ground)
    entity = make_entity(cfg, "robot", 1, device)
    forces = (0.0, 0.0, gravity)
    model = build_model(
        scene, {"robot": entity}, forces, 1, device, Ground(scene, None, "mesh", device), solver_cfg.prepare
    )
    solver = solver_cfg.build(model, NewtonCfg(dt=DT), scene)
    imported = entity.imported
    assert isinstance(solver, MuJoCoSolver) and imported is not None and imported.file is not None
    solver.check_files({"robot": imported}, {"robot": cfg.self_collision})
    state = model.state()
    entity.bind(model, wp.zeros(1, dtype=wp.vec3, device=device), state)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    compiled = imported.file.model
    option = compiled.opt
    option.timestep, option.gravity[:], option.integrator = DT, forces, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.tolerance, option.cone, option.solver = 1e-8, mujoco.mjtCone.mjCONE_PYRAMIDAL, mujoco.mjtSolver.mjSOL_NEWTON
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    report = str(report_file("robot", imported, cfg))
    data = mujoco.MjData(compiled)
    robot = Robot(entity, imported, model, state, model.control(), solver, compiled, data, report)
    for name, value in robot.joint_pos.items():  # followers begin where their leaders are, and nothing beyond limits
        coordinate = compiled.jnt_qposadr[
            next(j for j in range(compiled.njnt) if imported.names.of("joint", j) == name)
        ]
        data.qpos[coordinate] = compiled.qpos0[coordinate] + value
    return robot
