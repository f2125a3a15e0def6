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
from lab_newton.robot_files.compiled import compile_file
from lab_newton.robot_files.matching import Matching
from lab_newton.robot_files.root import subtree
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
ALONG = 0.01
"""Largest difference of accelerations, relative to the largest, in single steps from C MuJoCo's states. What is further
apart than :data:`TOLERANCE` and closer than this moves by the same laws, and multiplies what is rounded."""
SAME_NORMAL = 1e-3
"""Largest difference of the normals of contacts that are the same in both."""


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
        if path.suffix == ".urdf":  # with the rules of the standard, and nothing fused
            compiled = compile_file("robot", path).model
        else:
            compiled = mujoco.MjSpec.from_file(str(path)).compile()
    except ConfigError as error:
        return Outcome("refused", str(error))
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
    if distance < TOLERANCE:
        return Outcome("accepted", f"{distance:.2g} m apart", distance)
    error, alike = worlds.step_along()
    kind = "accepted" if error < ALONG and alike else "wrong"
    why = f"{distance:.2g} m apart; along the way of C MuJoCo {error:.2g} in {alike} steps with the same contacts"
    return Outcome(kind, why, distance)


class Worlds:
    """One world with all entities of a file, and C MuJoCo with the same file."""

    def __init__(self, path: Path, compiled: Any) -> None:
        device, self.compiled = wp.get_device("cpu"), compiled
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
        self.bodies = {  # of the whole file, in the order of the entity's
            name: subtree(compiled, tree) for name, tree in zip(self.entities, trees, strict=True)
        }
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
        for name, entity in self.entities.items():
            layout = entity.layout
            joints = [j for body in self.bodies[name] for j in self._joints(body) if self.compiled.jnt_type[j] >= 2]
            for joint, coordinate, dof in zip(joints, layout.joint_coord, layout.joint_dof, strict=True):
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
        for name, entity in self.entities.items():
            there = self.data.xpos[self.bodies[name]]
            worst = max(worst, float(np.abs(places[list(entity.layout.body)] - there).max()))
        return worst

    def step_along(self) -> tuple[float, int]:
        """Makes each step from where C MuJoCo is.

        Returns:
            How far accelerations are apart in steps with the same contacts, relative to the largest; how many those.
        """
        inner, data = self.solver.inner, self._same_start()
        coords, dofs, geoms = self._places()
        shift = np.asarray(inner.mj_model.qpos0)[coords[0]] - self.compiled.qpos0[coords[1]]
        shift[np.isin(coords[1], self.compiled.jnt_qposadr[self.compiled.jnt_type == 0][:, None] + np.arange(7))] = 0.0
        worst, alike = 0.0, 0
        for _ in range(STEPS):
            values = {"qpos": (coords, data.qpos[coords[1]] + shift), "qvel": (dofs, data.qvel[dofs[1]]),
                      "qacc_warmstart": (dofs, data.qacc_warmstart[dofs[1]])}  # fmt: skip
            for field, (places, rows) in values.items():
                array = getattr(inner.mjw_data, field)
                value = array.numpy()
                value[0, places[0]] = rows
                array.assign(value)
            before = data.qvel[dofs[1]].copy(), inner.mjw_data.qvel.numpy()[0, dofs[0]]
            mujoco.mj_step(self.compiled, data)
            inner._mujoco_warp_step()
            theirs = data.qvel[dofs[1]] - before[0]
            ours = inner.mjw_data.qvel.numpy()[0, dofs[0]] - before[1]
            if self._same_contacts(data, geoms):
                alike += 1
                worst = max(worst, float(np.abs(ours - theirs).max() / (np.abs(theirs).max() + 1e-3 * DT)))
            if np.abs(data.qvel).max() > UNSTABLE:
                break
        return worst, alike

    def _joints(self, body: int) -> range:
        first = int(self.compiled.body_jntadr[body])
        return range(first, first + int(self.compiled.body_jntnum[body]))

    def _places(self) -> tuple[np.ndarray, np.ndarray, dict[int, int]]:
        """Returns places of coordinates and degrees of freedom, (2, K) here and there, and of geoms, here -> there."""
        mine, theirs = self.solver.inner.mj_model, self.compiled
        coords, dofs, geoms = [], [], {}
        for name, entity in self.entities.items():
            assert entity.imported is not None and entity.imported.file is not None
            matching, part = Matching(self.solver.inner, entity.imported), entity.imported.file.model
            joints = [joint for body in self.bodies[name] for joint in self._joints(body)]
            for (here, _), there in zip(matching.joints, joints, strict=True):
                free = theirs.jnt_type[there] == mujoco.mjtJoint.mjJNT_FREE
                ends = (mine.jnt_qposadr[here], theirs.jnt_qposadr[there])
                coords += [(ends[0] + k, ends[1] + k) for k in range(7 if free else 1)]
                ends = (mine.jnt_dofadr[here], theirs.jnt_dofadr[there])
                dofs += [(ends[0] + k, ends[1] + k) for k in range(6 if free else 1)]
            own = dict(zip(subtree(part, matching.root), self.bodies[name], strict=True))
            for here, there in matching.geoms:
                body = int(part.geom_bodyid[there])
                if body in own:
                    geoms[here] = int(theirs.body_geomadr[own[body]] + there - part.body_geomadr[body])
        return np.array(coords).T, np.array(dofs).T, geoms

    def _same_contacts(self, data: Any, geoms: dict[int, int]) -> bool:
        contact, count = self.solver.inner.mjw_data.contact, int(self.solver.inner.mjw_data.nacon.numpy()[0])
        pairs = [tuple(sorted(geoms.get(int(g), -1) for g in pair)) for pair in contact.geom.numpy()[:count]]
        inside = set(geoms.values())
        there = [tuple(sorted(int(g) if int(g) in inside else -1 for g in pair)) for pair in data.contact.geom]
        if sorted(pairs) != sorted(there):
            return False
        normals = contact.frame.numpy()[:count].reshape(-1, 9)[:, :3]
        order = sorted(range(count), key=lambda i: (pairs[i], *np.round(np.abs(normals[i]), 2)))
        their_normals = data.contact.frame[:, :3]
        their_order = sorted(range(count), key=lambda i: (there[i], *np.round(np.abs(their_normals[i]), 2)))
        apart = np.abs(normals[order]) - np.abs(their_normals[their_order])
        return bool(np.abs(apart).max(initial=0.0) < SAME_NORMAL)
