"""What a built model says of how its robots move."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from itertools import combinations
from typing import Any

import newton
import numpy as np

from lab_core.physics import Fingerprint, plain
from lab_core.scene import SceneCfg, actuator_fields
from lab_newton.config import NewtonCfg
from lab_newton.robot_files import asset_path
from lab_newton.state import NewtonEntity

_PACKAGES = ("newton", "warp-lang", "mujoco-warp")
_OF_BODIES = {
    "mass": "body_mass",
    "center_of_mass": "body_com",
    "inertia": "body_inertia",
    "flags": "body_flags",
    "gravity_compensation": "mujoco.gravcomp",
}
_OF_JOINTS = {
    "frame_in_parent": "joint_X_p",
    "frame_in_child": "joint_X_c",
    "enabled": "joint_enabled",
    "mimicked_joint": "joint_mimic_joint",
}
_OF_DOFS = {
    "axis": "joint_axis",
    "lower": "joint_limit_lower",
    "upper": "joint_limit_upper",
    "limit_stiffness": "joint_limit_ke",
    "limit_damping": "joint_limit_kd",
    "limit_margin": "mujoco.limit_margin",
    "limit_solref": "mujoco.solreflimit",
    "limit_solimp": "mujoco.solimplimit",
    "velocity_limit": "joint_velocity_limit",
    "effort_limit": "joint_effort_limit",
    "armature": "joint_armature",
    "damping": "joint_damping",
    "stiffness": "joint_stiffness",
    "spring_reference": "mujoco.dof_ref",
    "friction": "joint_friction",
    "friction_solref": "mujoco.solreffriction",
    "friction_solimp": "mujoco.solimpfriction",
    "drive_stiffness": "joint_target_ke",
    "drive_damping": "joint_target_kd",
}
_MATERIAL = {
    "friction": "shape_material_mu",
    "friction_torsional": "shape_material_mu_torsional",
    "friction_rolling": "shape_material_mu_rolling",
    "friction_stiffness": "shape_material_kf",
    "stiffness": "shape_material_ke",
    "damping": "shape_material_kd",
    "adhesion": "shape_material_ka",
    "restitution": "shape_material_restitution",
    "solref": "mujoco.solref",
    "solimp": "mujoco.geom_solimp",
    "solmix": "mujoco.geom_solmix",
    "priority": "mujoco.geom_priority",
}
_GEOMETRY = {
    "size": "shape_scale",
    "pose": "shape_transform",
    "margin": "shape_margin",
    "group": "shape_collision_group",
    "affinity": "mujoco.conaffinity",
    "type_of_contact": "mujoco.contype",
    "dimensions_of_contact": "mujoco.condim",
}


def describe_model(
    model: newton.Model, entities: Mapping[str, NewtonEntity], cfg: NewtonCfg, scene: SceneCfg
) -> Fingerprint:
    """Returns the :meth:`~lab_core.physics.PhysicsBackend.fingerprint` of ``model``, which no solver has touched yet.

    Bodies and joints go by the names that they have in entities, shapes by their order on their body.
    """
    rows = _Rows(model)
    shapes = {name: _shapes_by_body(model, rows, entity) for name, entity in entities.items()}
    ground = _colliding(model, rows, body=-1)
    return plain(
        {
            "robot": {name: _robot(model, rows, entity) for name, entity in entities.items()},
            "actuators": {
                name: actuator_fields(name, entity.actuators, entity.layout.joint_names, asset_path)
                for name, entity in entities.items()
                if entity.actuators
            },
            "materials": {
                **{
                    name: {body: [rows.fields(_MATERIAL, shape) for shape in found] for body, found in bodies.items()}
                    for name, bodies in shapes.items()
                },
                "ground": [rows.fields(_MATERIAL, shape) for shape in ground],
            },
            "collision": {
                **{
                    name: {body: [_geometry(model, rows, shape) for shape in found] for body, found in bodies.items()}
                    for name, bodies in shapes.items()
                },
                "ground": "terrain" if scene.terrain is not None else "plane" if ground else "none",
                "contact_gap": cfg.contact_gap,
                "pairs_left_out": _left_out(model, shapes),
            },
            "timing": {"dt": cfg.dt, "substeps": cfg.substeps},
            "forces": {"gravity": cfg.gravity},
            "versions": {name: version(name) for name in _PACKAGES},
        }
    )


class _Rows:
    """Rows of the model's arrays, each fetched once."""

    def __init__(self, model: newton.Model) -> None:
        self._model = model
        self._arrays: dict[str, np.ndarray] = {}

    def __call__(self, name: str) -> np.ndarray:
        """Array ``name``, or ``namespace.name``, of all worlds."""
        if name not in self._arrays:
            owner: Any = self._model
            *namespace, leaf = name.split(".")
            for part in namespace:
                owner = getattr(owner, part)
            self._arrays[name] = getattr(owner, leaf).numpy()
        return self._arrays[name]

    def fields(self, names: Mapping[str, str], row: int) -> dict[str, Any]:
        return {field: self(array)[row] for field, array in names.items()}


def _robot(model: newton.Model, rows: _Rows, entity: NewtonEntity) -> dict[str, Any]:
    layout = entity.layout
    name_of = dict(zip(layout.body, layout.body_names, strict=True))
    name_of |= {carrier: f"carrier {number}" for number, carrier in enumerate(layout.carriers)}
    joints = {}
    for joint in np.nonzero(np.isin(rows("joint_child"), layout.body))[0]:
        child = name_of[int(rows("joint_child")[joint])]
        first, end = rows("joint_qd_start")[joint : joint + 2]
        dofs = [rows.fields(_OF_DOFS, dof) for dof in range(first, end)]
        kind = newton.JointType(rows("joint_type")[joint])
        names = [n for n, dof in zip(layout.joint_names, layout.joint_dof, strict=True) if first <= dof < end]
        joints[names[0] if names else f"{kind.name.lower()} joint of {child}"] = {
            "kind": kind.name,
            "parent": name_of.get(int(rows("joint_parent")[joint]), "world"),
            "child": child,
            **rows.fields(_OF_JOINTS, int(joint)),
            **(dofs[0] if len(dofs) == 1 else {f"dof_{i}": dof for i, dof in enumerate(dofs)}),
        }
    bodies = {name: rows.fields(_OF_BODIES, body) for body, name in name_of.items()}
    return {"bodies": bodies, "joints": joints}


def _shapes_by_body(model: newton.Model, rows: _Rows, entity: NewtonEntity) -> dict[str, list[int]]:
    """Returns body -> its shapes that collide, in the first world; bodies without any are left out."""
    found = {
        name: _colliding(model, rows, body)
        for body, name in zip(entity.layout.body, entity.layout.body_names, strict=True)
    }
    return {name: shapes for name, shapes in found.items() if shapes}


def _colliding(model: newton.Model, rows: _Rows, body: int) -> list[int]:
    """Returns the shapes of a body that collide; of what stands still (-1), those of one world and of all."""
    collides = (rows("shape_flags") & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    return [shape for shape in model.body_shapes[body] if collides[shape] and rows("shape_world")[shape] <= 0]


def _geometry(model: newton.Model, rows: _Rows, shape: int) -> dict[str, Any]:
    source = model.shape_source[shape]
    found: dict[str, Any] = {"kind": newton.GeoType(rows("shape_type")[shape]).name}
    if isinstance(source, newton.Mesh):
        digest = hashlib.sha256(np.asarray(source.vertices, dtype=np.float32).tobytes())
        digest.update(np.asarray(source.indices, dtype=np.int32).tobytes())
        found["mesh"] = digest.hexdigest()
    return found | rows.fields(_GEOMETRY, shape)


def _left_out(model: newton.Model, shapes: Mapping[str, Mapping[str, list[int]]]) -> list[list[str]]:
    """Returns pairs of bodies of which some shapes never touch each other, besides those of one body."""
    body_of = {
        shape: body if len(shapes) == 1 else f"{name}/{body}"
        for name, bodies in shapes.items()
        for body, found in bodies.items()
        for shape in found
    }
    pairs = combinations(sorted(body_of), 2)
    left_out = {(body_of[a], body_of[b]) for a, b in pairs if (a, b) in model.shape_collision_filter_pairs}
    return [sorted(pair) for pair in sorted(left_out) if pair[0] != pair[1]]
