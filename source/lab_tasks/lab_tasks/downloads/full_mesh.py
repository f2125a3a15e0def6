"""Our own models of robots in the full meshes of the MuJoCo menagerie.

Only what is seen changes. Bodies, joints, inertias and the shapes that collide stay those of our file, so that a policy
moves the robot as before, bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lab_core.errors import ConfigError
from lab_tasks.downloads.menagerie import find_model, how_to_get

if TYPE_CHECKING:
    # MuJoCo does not declare what it holds, here as below.
    from mujoco import MjModel, MjSpec  # pyright: ignore[reportAttributeAccessIssue]

_SAME_PLACE = 1e-3
"""Largest difference of body frames [m, and of rotation matrices]."""


@dataclass(frozen=True)
class _Mesh:
    """A mesh as it is seen on a body."""

    body: str
    file: Path
    scale: tuple[float, ...]
    pos: tuple[float, ...]
    """In the body's frame [m]."""
    quat: tuple[float, ...]
    """wxyz, as in MJCF."""
    rgba: tuple[float, ...]
    texture: Path | None


def with_full_meshes(robot: str, asset: str, menagerie: Path | None = None) -> str:
    """Returns the path of ``asset`` with the menagerie's meshes in place of its own visual shapes.

    The file is written to ``lab/assets`` in the user's cache folder. It names the meshes where they are.

    Args:
        robot: Name of the robot, as in :data:`lab_tasks.downloads.menagerie.MODELS`.
        asset: Our model of it, ``package:path/inside/package``. Its visual shapes have a class ``visual...``.
        menagerie: A checkout of the menagerie, see :func:`lab_tasks.downloads.menagerie.places`.

    Raises:
        ConfigError: the model is not there, lacks files, or does not fit ours.
    """
    source = find_model(robot, menagerie)
    if source is None:
        raise ConfigError(f"There is no full-mesh model of {robot!r}. {how_to_get(robot)}")
    package, _, inside = asset.partition(":")
    own = Path(str(files(package) / inside))
    content = _dressed(own, _visible_meshes(source, own))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab" / "assets"
    path = folder / f"{own.stem}-{hashlib.sha256(content).hexdigest()[:16]}.xml"
    if not path.is_file():
        _write(content, path)
    return str(path)


def _visible_meshes(source: Path, own: Path) -> list[_Mesh]:
    from mujoco import MjModel, MjSpec, mjtGeom, mjtTextureRole  # pyright: ignore[reportAttributeAccessIssue]

    try:
        spec = MjSpec.from_file(str(source))
    except ValueError as error:
        raise ConfigError(f"Cannot read {str(source)!r}: {' '.join(str(error).split())}") from error
    geoms = [g for g in spec.geoms if g.type == mjtGeom.mjGEOM_MESH and not g.contype and not g.conaffinity]
    meshes = {mesh.name or Path(mesh.file).stem: mesh for mesh in spec.meshes}
    textures = {texture.name or Path(texture.file).stem: texture.file for texture in spec.textures}
    folder, role = source.parent / spec.modelfiledir, int(mjtTextureRole.mjTEXROLE_RGB)
    worn = []
    for geom in geoms:
        mesh, material = meshes[geom.meshname], spec.material(geom.material)
        texture = textures.get(material.textures[role]) if material is not None else None
        rgba = geom.rgba if material is None else material.rgba
        worn.append(
            (
                geom,
                _existing(folder / spec.meshdir / mesh.file),
                _numbers(mesh.scale),
                _numbers(rgba),
                _existing(folder / spec.texturedir / texture) if texture else None,
            )
        )
    model = _without_meshes(spec)
    _require_same_frames(source, model, MjModel.from_xml_path(str(own)), {geom.parent.name for geom in geoms})
    return [
        _Mesh(
            body=geom.parent.name,
            file=file,
            scale=scale,
            pos=_numbers(model.geom_pos[geom.id]),
            quat=_numbers(model.geom_quat[geom.id]),
            rgba=rgba,
            texture=texture,
        )
        for geom, file, scale, rgba, texture in worn
    ]


def _without_meshes(spec: MjSpec) -> MjModel:
    """Compiles ``spec`` with a ball in place of each mesh, so that poses are known and no mesh is read."""
    from mujoco import mjtGeom  # pyright: ignore[reportAttributeAccessIssue]

    for geom in spec.geoms:
        if geom.type == mjtGeom.mjGEOM_MESH:
            geom.type, geom.size, geom.meshname = mjtGeom.mjGEOM_SPHERE, [0.01, 0.0, 0.0], ""
        geom.material = ""
    for item in (*spec.meshes, *spec.materials, *spec.textures):
        spec.delete(item)
    return spec.compile()


def _require_same_frames(source: Path, theirs: MjModel, ours: MjModel, bodies: set[str]) -> None:
    """Refuses a model whose bodies are not where ours are: meshes would float beside the robot."""
    their_frames, our_frames = _frames(theirs), _frames(ours)
    for name in sorted(bodies):
        if name not in our_frames:
            raise ConfigError(
                f"{str(source)!r} shows a body {name!r}, which our model of the robot does not have. It has: "
                f"{', '.join(our_frames)}."
            )
        apart = np.abs(their_frames[name] - our_frames[name]).max()
        if apart > _SAME_PLACE:
            raise ConfigError(
                f"{str(source)!r} has the body {name!r} elsewhere than our model of the robot (by {apart:.3g} m): it "
                "is another version of the robot."
            )


def _frames(model: MjModel) -> dict[str, np.ndarray]:
    """Returns body -> (3, 4) rotation and position relative to the root, at zero joint positions."""
    from mujoco import MjData, mj_kinematics, mjtJoint  # pyright: ignore[reportAttributeAccessIssue]

    data = MjData(model)
    for joint in range(model.njnt):
        if model.jnt_type[joint] != mjtJoint.mjJNT_FREE:
            data.qpos[model.jnt_qposadr[joint]] = 0.0
    mj_kinematics(model, data)
    rotations, positions = data.xmat.reshape(-1, 3, 3), data.xpos
    root = rotations[1].T
    return {
        model.body(i).name: np.column_stack([root @ rotations[i], root @ (positions[i] - positions[1])])
        for i in range(1, model.nbody)
    }


def _dressed(own: Path, meshes: list[_Mesh]) -> bytes:
    """Returns the text of the model ``own`` with ``meshes`` in place of its visual shapes."""
    root = ET.parse(own).getroot()
    _include(root, own.parent)
    bodies = {body.get("name"): body for body in root.iter("body")}
    for body in bodies.values():
        for geom in body.findall("geom"):
            if geom.get("class", "").startswith("visual"):
                body.remove(geom)
    asset = ET.SubElement(root, "asset")
    names: dict[tuple, str] = {}
    for mesh in meshes:
        key = (mesh.file, mesh.scale)
        if key not in names:
            names[key] = f"full_mesh_{len(names)}"
            ET.SubElement(asset, "mesh", name=names[key], file=str(mesh.file), scale=_text(mesh.scale), inertia="shell")
        look = {"rgba": _text(mesh.rgba)}
        if mesh.texture is not None:
            look["material"] = _material(asset, mesh.texture)
        ET.SubElement(
            bodies[mesh.body],
            "geom",
            {"type": "mesh", "mesh": names[key], "pos": _text(mesh.pos), "quat": _text(mesh.quat)}
            | {"contype": "0", "conaffinity": "0", "group": "2"}
            | look,
        )
    ET.indent(root)
    return ET.tostring(root)


def _material(asset: ET.Element, texture: Path) -> str:
    """Returns the name of the material with ``texture``, added to ``asset`` if it is new."""
    for known in asset.findall("texture"):
        if known.get("file") == str(texture):
            return known.get("name", "")
    name = f"full_texture_{len(asset.findall('texture'))}"
    ET.SubElement(asset, "texture", name=name, type="2d", file=str(texture))
    ET.SubElement(asset, "material", name=name, texture=name)
    return name


def _include(element: ET.Element, folder: Path) -> None:
    """Puts the content of included files in the place of ``<include>``; paths are relative to the main file."""
    for i, child in reversed(list(enumerate(element))):
        if child.tag == "include":
            content = ET.parse(folder / child.get("file", "")).getroot()
            element[i : i + 1] = list(content)
    for child in element:
        _include(child, folder)


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise ConfigError(f"The full-mesh model is incomplete: there is no file {str(file)!r}.")
    return file


def _write(content: bytes, path: Path) -> None:
    """Writes the file; another process sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".model-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(content)
            file.close()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _text(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.9g}" for value in values)
