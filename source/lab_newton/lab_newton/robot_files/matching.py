"""Which element of the built model is which element of the file."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab_newton.robot_files.carriers import joint_groups
from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.expanded_relations import equality_order, tendon_order
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.root import subtree
from lab_newton.robot_files.text import compose, matrix

Pairs = list[tuple[int, int]]
"""(number in the built model, number in the file)."""


class Built:
    """The model that the first world steps with: the values of MuJoCo Warp, and what only MuJoCo's own model holds."""

    def __init__(self, solver: Any) -> None:
        self._solver = solver

    def __getattr__(self, name: str) -> Any:
        template: Any = getattr(self._solver.mj_model, name)
        stepped: Any = getattr(self._solver.mjw_model, name, None)
        if not isinstance(template, np.ndarray) or not hasattr(stepped, "numpy"):
            value = template
        else:
            rows = stepped.numpy()
            value = rows[0] if rows.ndim == template.ndim + 1 else rows
            if value.shape != template.shape:  # a part of it alone
                value = template
        setattr(self, name, value)
        return value


class Matching:
    """Pairs of numbers for every kind of element of one entity."""

    def __init__(self, solver: Any, imported: ImportedFile) -> None:
        """``solver`` is a ``newton.solvers.SolverMuJoCo``."""
        assert imported.file is not None and imported.root is not None and imported.names is not None
        self.built = Built(solver)
        self._solver, self._imported = solver, imported
        self._model, self._names = imported.file.model, imported.names
        self.root = imported.root.body
        self.root_changed = imported.root.floats is not None
        """Whether the root moves otherwise than in the file, and everything weighs otherwise against forces."""
        options = solver.mj_model.opt
        self.in_fluid = bool(options.density or options.viscosity)
        """Whether anything but empty space is around the robot."""
        self.missing: list[tuple[str, int]] = []
        body_of_newton = {int(place): body for body, place in enumerate(solver.mjc_body_to_newton.numpy()[0])}
        order = subtree(self._model, self.root)
        self.bodies: Pairs = [
            (body_of_newton[place], body) for place, body in zip(imported.layout.body, order, strict=True)
        ]
        self.frames: Pairs = []
        """As :attr:`bodies`, but the first carrier of a body, which is where the file puts the body."""
        self._chains: list[tuple[list[int], int]] = []
        for place, body in zip(imported.layout.body, order, strict=True):
            groups = joint_groups(self._model, body, imported.root)
            chain = [body_of_newton[place - back] for back in reversed(range(len(groups)))]
            self._chains.append((chain, body))
            self.frames.append((chain[0], body))
        moves = self._moving(order)
        self.moving_bodies = [pair for pair in self.bodies if pair[1] in moves]
        self.joints, self.dofs = self._match_joints()
        self.geoms = self._match_geoms()
        self.equalities = self._match_listed("equality", equality_order(self._model), imported.first_equality)
        self.tendons = self._match_listed("tendon", tendon_order(self._model), imported.first_tendon)
        self.pairs = self._match_pairs()

    def bodies_on_slides(self) -> list[int]:
        """Returns the built bodies that MuJoCo takes for such as slides alone move, along their own axes."""
        simple = 2  # see body_simple in mjModel
        if self.root_changed:
            return []
        return [mine for mine, other in self.moving_bodies if self._model.body_simple[other] == simple]

    def describe(self, kind: str, index: int) -> str:
        """Returns kind and name of an element of the file, for messages."""
        model = self._model
        if kind == "joint of dof":
            return f"joint {self._names.of('joint', int(model.dof_jntid[index]))!r}"
        if kind == "contact pair":
            one, two = int(model.pair_geom1[index]), int(model.pair_geom2[index])
            return f"contact pair of {self._names.of('geom', one)!r} and {self._names.of('geom', two)!r}"
        return f"{kind} {self._names.of(kind, index)!r}"

    def pose_in_file(self, geom: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns position and rotation matrix of a geom in the frame of its body, of the world for what stands still
        beside the robot."""
        model, body = self._model, int(self._model.geom_bodyid[geom])
        pose = (model.geom_pos[geom], model.geom_quat[geom])
        assert self._imported.root is not None
        if body in self._imported.root.still_bodies:
            pose = compose(self._imported.root.place(body), pose)
        return pose[0], matrix(pose[1])

    def mesh_corners(self, geom: int) -> np.ndarray:
        """Returns centre and extent of a built mesh in the frame of its body."""
        built = self.built
        rotation = matrix(np.asarray(built.geom_quat[geom], dtype=float))
        return _extent(self._solver.mj_model, geom, np.asarray(built.geom_pos[geom], dtype=float), rotation)

    def mesh_corners_in_file(self, geom: int) -> np.ndarray:
        """Returns the same as :meth:`mesh_corners` for what MuJoCo compiled."""
        position, rotation = self.pose_in_file(geom)
        return _extent(self._model, geom, position, rotation)

    def equality_data_in_file(self, equality: int) -> np.ndarray:
        """Returns the data of an equality; for two sites, which have none, where they are in their bodies."""
        model = self._model
        data = model.eq_data[equality].copy()
        is_connect = model.eq_type[equality] == mujoco.mjtEq.mjEQ_CONNECT
        if is_connect and model.eq_objtype[equality] == mujoco.mjtObj.mjOBJ_SITE:
            sites = model.eq_obj1id[equality], model.eq_obj2id[equality]
            data[:6] = model.site_pos[list(sites)].flatten()
        return data

    def field_offset(self, mine: int, other: int) -> np.ndarray:
        """Returns where a built height field lies in the frame of the one in the file."""
        return np.zeros(3)

    def _moving(self, order: list[int]) -> set[int]:
        """Returns the bodies whose mass matters: those with something that moves them or what they hang on."""
        model = self._model
        moved: set[int] = set()
        floating = self._imported.layout.floating
        for body in order:
            own = bool(model.body_jntnum[body]) if body != self.root else (
                floating or (self._imported.root is not None and self._imported.root.floats is None
                             and bool(model.body_jntnum[body]))
            )  # fmt: skip
            if own or int(model.body_parentid[body]) in moved:
                moved.add(body)
        return moved

    def _match_joints(self) -> tuple[Pairs, Pairs]:
        model, built, root = self._model, self._solver.mj_model, self._imported.root
        assert root is not None
        joints: Pairs = []
        for chain, other in self._chains:
            if other == self.root and root.floats is not None:
                continue
            for mine, group in zip(chain, joint_groups(model, other, root), strict=True):
                if int(built.body_jntnum[mine]) != len(group):
                    self.missing.append(("body", other))
                    continue
                joints += [(int(built.body_jntadr[mine]) + k, joint) for k, joint in enumerate(group)]
        free = mujoco.mjtJoint.mjJNT_FREE
        dofs = [
            (int(built.jnt_dofadr[mine]), int(model.jnt_dofadr[other]))
            for mine, other in joints
            if model.jnt_type[other] != free
        ]
        return joints, dofs

    def _match_geoms(self) -> Pairs:
        model, shapes = self._model, self._imported.shapes
        places = {int(shape): geom for geom, shape in enumerate(self._solver.mjc_geom_to_newton_shape.numpy()[0])}
        labels = {self._names.geom(geom): geom for geom in range(model.ngeom)}
        found: Pairs = []
        for shape in shapes:
            other = labels.get(self._solver.model.shape_label[shape].rsplit("/", 1)[-1])
            if shape in places and other is not None:
                found.append((places[shape], other))
        paired = {int(geom) for geom in (*model.pair_geom1, *model.pair_geom2)}
        collides = {g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired}
        matched = {other for _, other in found}
        self.missing += [("geom", geom) for geom in sorted(collides - matched)]
        return [pair for pair in found if pair[1] in collides]

    def _match_listed(self, kind: str, order: list[int], first: int) -> Pairs:
        solver = self._solver
        table: Any = solver.mjc_eq_to_newton_eq if kind == "equality" else solver.mjc_tendon_to_newton_tendon
        places = {} if table is None else {int(place): mine for mine, place in enumerate(table.numpy()[0])}
        found = [(places[first + k], other) for k, other in enumerate(order) if first + k in places]
        self.missing += [(kind, other) for k, other in enumerate(order) if first + k not in places]
        return found

    def _match_pairs(self) -> Pairs:
        model, built = self._model, self._solver.mj_model
        place = {other: mine for mine, other in self.geoms}
        mine = {
            frozenset((int(a), int(b))): k
            for k, (a, b) in enumerate(zip(built.pair_geom1, built.pair_geom2, strict=True))
        }
        found: Pairs = []
        for pair in range(model.npair):
            ends = frozenset(place.get(int(end), -1) for end in (model.pair_geom1[pair], model.pair_geom2[pair]))
            if ends in mine:
                found.append((mine[ends], pair))
            else:
                self.missing.append(("contact pair", pair))
        return found


def _extent(model: MjModel, geom: int, position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    mesh = int(model.geom_dataid[geom])
    start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    points = model.mesh_vert[start : start + count] @ rotation.T + position
    return np.stack([points.min(axis=0), points.max(axis=0)])
