"""What MuJoCo compiled, written out again as MJCF without anything left to expand.

Newton's importer reads simple files well. Here it gets such a file: no defaults, includes, frames, replicates or
angles in degrees, every number as MuJoCo's compiler made it, every element with a name.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from lab_newton.robot_files.carriers import CARRIER_INERTIA, CARRIER_MASS, joint_groups
from lab_newton.robot_files.compiled import CompiledFile
from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.expanded_relations import add_relations
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.root import Root, is_free
from lab_newton.robot_files.text import Pose, compose, matrix, numbers

_GEOM_FIELDS = (
    "contype", "conaffinity", "condim", "group", "priority", "friction", "solmix", "solref", "solimp", "margin", "gap",
)  # fmt: skip
_JOINT_FIELDS = {
    "jnt_stiffness": "stiffness",
    "jnt_margin": "margin",
    "jnt_solref": "solreflimit",
    "jnt_solimp": "solimplimit",
    "jnt_actgravcomp": "actuatorgravcomp",
    "dof_damping": "damping",
    "dof_armature": "armature",
    "dof_frictionloss": "frictionloss",
    "dof_solref": "solreffriction",
    "dof_solimp": "solimpfriction",
}
_DEFAULT_SOLREF = (0.02, 1.0)
_DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
_DEFAULTS = {
    "gap": 0.0,
    "margin": 0.0,
    "priority": 0,
    "solmix": 1.0,
    "solref": _DEFAULT_SOLREF,
    "solimp": _DEFAULT_SOLIMP,
    "solreflimit": _DEFAULT_SOLREF,
    "solimplimit": _DEFAULT_SOLIMP,
    "solreffriction": _DEFAULT_SOLREF,
    "solimpfriction": _DEFAULT_SOLIMP,
    "stiffness": 0.0,
    "damping": 0.0,
    "armature": 0.0,
    "frictionloss": 0.0,
    "actuatorgravcomp": 0,
}


def expand(file: CompiledFile, root: Root, names: Names, folder: Path) -> str:
    """Returns the robot of ``file`` as MJCF, its root as ``root`` says.

    Bodies that stand still beside the robot become shapes of the world, at their places in the file.

    Args:
        file: What MuJoCo compiled.
        root: Which body is the robot's root, where it starts and how it moves.
        names: What elements are called in the text.
        folder: An existing folder for meshes and height fields; needed as long as nobody has read the text.
    """
    model = file.model
    top = ET.Element("mujoco", model="robot")
    ET.SubElement(top, "compiler", angle="radian", autolimits="false", meshdir=str(folder))
    asset = ET.SubElement(top, "asset")
    world = ET.SubElement(top, "worldbody")
    for body in root.still_bodies:
        _add_shapes(world, file, body, names, root.place(body))
    _add_body(world, file, root.body, names, root)
    _add_assets(asset, model, folder)
    add_relations(top, file, names, root)
    return ET.tostring(top, encoding="unicode")


def _add_body(parent: ET.Element, file: CompiledFile, body: int, names: Names, root: Root) -> None:
    model, is_root = file.model, body == root.body
    # Equalities without a pose of their own hold the bodies as the file puts them, wherever a free root starts.
    moved = is_root and not (model.neq and root.floats is None and is_free(model, body))
    position, quat = (root.position, root.orientation) if moved else (model.body_pos[body], model.body_quat[body])
    *before, last = joint_groups(model, body, root)
    for number, group in enumerate(before):
        parent = ET.SubElement(parent, "body", name=f"{names.body(body)}_carrier_{number}")
        parent.set("pos", numbers(position))
        parent.set("quat", numbers(quat))
        inertia = numbers([CARRIER_INERTIA] * 3)
        ET.SubElement(parent, "inertial", pos="0 0 0", mass=numbers(CARRIER_MASS), diaginertia=inertia)
        _add_joints(parent, file, group, names)
        position, quat = np.zeros(3), np.array((1.0, 0.0, 0.0, 0.0))
    element = ET.SubElement(parent, "body", name=names.body(body), pos=numbers(position), quat=numbers(quat))
    if model.body_gravcomp[body]:
        element.set("gravcomp", numbers(model.body_gravcomp[body]))
    # Even where nothing weighs: without it Newton weighs the shapes, and the place sets how soft welds are.
    _add_inertial(element, model, body)
    if is_root and root.floats:
        ET.SubElement(element, "freejoint", name=root.free_joint_name)
    _add_joints(element, file, last, names)
    _add_shapes(element, file, body, names)
    for child in range(body + 1, model.nbody):
        if model.body_parentid[child] == body:
            _add_body(element, file, child, names, root)


def _add_inertial(element: ET.Element, model: MjModel, body: int) -> None:
    rotation = matrix(model.body_iquat[body])
    full = rotation @ np.diag(model.body_inertia[body]) @ rotation.T
    entries = full[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    entries[np.abs(entries) < 1e-14 * full.max()] = 0.0
    ET.SubElement(
        element,
        "inertial",
        pos=numbers(model.body_ipos[body]),
        mass=numbers(model.body_mass[body]),
        fullinertia=numbers(entries),
    )


def _add_joints(element: ET.Element, file: CompiledFile, group: range, names: Names) -> None:
    """Adds joints that Newton makes one of; it knows one place for them.

    A slide may be anywhere on its body, and is where the hinges are.
    """
    model = file.model
    hinges = [joint for joint in group if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE]
    for joint in group:
        is_slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        _add_joint(element, file, joint, names, model.jnt_pos[hinges[0] if is_slide and hinges else joint])


def _add_joint(element: ET.Element, file: CompiledFile, joint: int, names: Names, anchor: np.ndarray) -> None:
    model = file.model
    kind = mujoco.mjtJoint(model.jnt_type[joint])
    name = names.joint(joint)
    if kind == mujoco.mjtJoint.mjJNT_FREE:
        ET.SubElement(element, "freejoint", name=name)
        return
    text = ET.SubElement(element, "joint", name=name, type=kind.name.removeprefix("mjJNT_").lower())
    text.set("pos", numbers(anchor))
    text.set("axis", numbers(file.axis_of_joint(joint)))
    limited = bool(model.jnt_limited[joint])
    text.set("limited", "true" if limited else "false")
    if limited:
        text.set("range", numbers(model.jnt_range[joint]))
    if model.jnt_actfrclimited[joint]:
        text.set("actuatorfrclimited", "true")
        text.set("actuatorfrcrange", numbers(model.jnt_actfrcrange[joint]))
    dof = model.jnt_dofadr[joint]
    for field, attribute in _JOINT_FIELDS.items():
        _set(text, attribute, getattr(model, field)[joint if field.startswith("jnt") else dof])
    if kind != mujoco.mjtJoint.mjJNT_BALL:
        coordinate = model.jnt_qposadr[joint]
        reference, spring = model.qpos0[coordinate], model.qpos_spring[coordinate]
        if reference or spring:
            text.set("ref", numbers(reference))
            text.set("springref", numbers(spring))


def _add_shapes(
    element: ET.Element,
    file: CompiledFile,
    body: int,
    names: Names,
    place: Pose | None = None,
) -> None:
    """Adds the geoms and sites of ``body``; ``place``: its pose, if ``element`` is the world."""
    model = file.model
    for geom in np.nonzero(model.geom_bodyid == body)[0].tolist():
        text = ET.SubElement(element, "geom", name=names.geom(geom))
        _set_shape(text, model, "geom", geom, place)
        for field in _GEOM_FIELDS:
            _set(text, field, getattr(model, f"geom_{field}")[geom])
        color = model.geom_rgba[geom]
        if model.geom_matid[geom] >= 0 and tuple(color) == (0.5, 0.5, 0.5, 1.0):
            color = model.mat_rgba[model.geom_matid[geom]]
        text.set("rgba", numbers(color))
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            text.set("mesh", f"mesh_{model.geom_dataid[geom]}")
        elif model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
            text.set("hfield", f"hfield_{model.geom_dataid[geom]}")
        ends = None if place is not None else file.ends_of_geom(geom)
        if ends is not None:  # as it was written, not rounded once more
            del text.attrib["pos"], text.attrib["quat"]
            text.set("fromto", numbers(ends))
    for site in np.nonzero(model.site_bodyid == body)[0].tolist():
        text = ET.SubElement(element, "site", name=names.site(site))
        _set_shape(text, model, "site", site, place)


def _set_shape(text: ET.Element, model: MjModel, what: str, index: int, place: Pose | None) -> None:
    kind = mujoco.mjtGeom(getattr(model, f"{what}_type")[index])
    position, quat = getattr(model, f"{what}_pos")[index], getattr(model, f"{what}_quat")[index]
    if place is not None:
        position, quat = compose(place, (position, quat))
    text.set("type", kind.name.removeprefix("mjGEOM_").lower())
    text.set("pos", numbers(position))
    text.set("quat", numbers(quat))
    if kind not in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD):
        text.set("size", numbers(getattr(model, f"{what}_size")[index]))


def _add_assets(asset: ET.Element, model: MjModel, folder: Path) -> None:
    for mesh in range(model.nmesh):
        start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        vertices = model.mesh_vert[start : start + count].astype(np.float32)
        start, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        triangles = model.mesh_face[start : start + faces].astype(np.int32)
        file = folder / f"mesh_{mesh}.msh"
        counts = np.array([count, 0, 0, faces], dtype=np.int32)
        file.write_bytes(counts.tobytes() + vertices.tobytes() + triangles.tobytes())
        # The importer would simplify hulls of more vertices than 64; MuJoCo does not.
        ET.SubElement(asset, "mesh", name=f"mesh_{mesh}", file=file.name, maxhullvert=str(max(count, 64)))
    for field in range(model.nhfield):
        rows, columns = model.hfield_nrow[field], model.hfield_ncol[field]
        start = model.hfield_adr[field]
        heights = model.hfield_data[start : start + rows * columns].astype(np.float32)
        file = folder / f"hfield_{field}.bin"
        file.write_bytes(np.array([rows, columns], dtype=np.int32).tobytes() + heights.tobytes())
        size = numbers(model.hfield_size[field])
        text = ET.SubElement(asset, "hfield", name=f"hfield_{field}", file=str(file), size=size)
        text.set("nrow", str(rows))
        text.set("ncol", str(columns))


def _set(text: ET.Element, attribute: str, value: float | np.ndarray) -> None:
    """Sets what is not MuJoCo's default: Newton takes a default that is written out for a wish."""
    default = _DEFAULTS.get(attribute)
    if default is None or not np.array_equal(np.asarray(value, dtype=float), np.asarray(default, dtype=float)):
        text.set(attribute, numbers(value))
