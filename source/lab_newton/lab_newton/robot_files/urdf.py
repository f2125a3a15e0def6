"""URDF files: read by MuJoCo, with the rules of the URDF standard where the two differ."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from lab_core.errors import ConfigError
from lab_newton.robot_files.collada import to_obj
from lab_newton.robot_files.engine import MjSpec, mujoco

_COMPILER = {
    # Links keep their names and places, whether something moves between them or not.
    "fusestatic": "false",
    # Files lie where the path says, not all in one folder.
    "strippath": "false",
    "discardvisual": "false",
    "autolimits": "true",
}


def read_urdf(entity: str, path: Path, package_folders: tuple[str, ...]) -> tuple[MjSpec, list[str]]:
    """Returns the file as a specification that can be compiled, and what was read by the standard, not by MuJoCo.

    Raises:
        ConfigError: a mesh cannot be found; the message names its link and where it was looked for.
    """
    robot = ET.parse(path).getroot()
    notes = _unlimit_continuous_joints(robot)
    assets = _resolve_meshes(entity, robot, path, package_folders)
    _set_compiler(robot)
    spec = mujoco.MjSpec.from_string(ET.tostring(robot, encoding="unicode"), assets=assets)
    return spec, notes


def _set_compiler(robot: ET.Element) -> None:
    extension = robot.find("mujoco")
    if extension is None:
        extension = ET.SubElement(robot, "mujoco")
    compiler = extension.find("compiler")
    if compiler is None:
        compiler = ET.SubElement(extension, "compiler")
    for name, value in _COMPILER.items():
        compiler.set(name, compiler.get(name, value))
    for name in ("fusestatic", "discardvisual"):
        compiler.set(name, _COMPILER[name])
    compiler.attrib.pop("meshdir", None)
    compiler.set("strippath", "false")


def _unlimit_continuous_joints(robot: ET.Element) -> list[str]:
    """The standard gives a continuous joint no limits, whatever stands in its ``<limit>``."""
    notes = []
    for joint in robot.iter("joint"):
        limit = joint.find("limit")
        if joint.get("type") == "continuous" and limit is not None:
            given = {limit.attrib.pop(name, None) for name in ("lower", "upper")}
            if given != {None}:
                notes.append(f"joint {joint.get('name')!r} is continuous: its lower and upper limit are left out")
    return notes


def _resolve_meshes(entity: str, robot: ET.Element, path: Path, package_folders: tuple[str, ...]) -> dict[str, bytes]:
    """Gives every mesh a name under which MuJoCo finds its bytes among the assets."""
    assets: dict[str, bytes] = {}
    for link in robot.iter("link"):
        for mesh in link.iter("mesh"):
            file = _find_mesh(entity, link.get("name", ""), mesh.get("filename", ""), path, package_folders)
            name = f"{len(assets)}_{file.stem}{file.suffix.lower()}"
            data = file.read_bytes()
            if file.suffix.lower() == ".dae":
                name, data = f"{name}.obj", _read_collada(entity, link.get("name", ""), file, data)
            known = next((other for other, bytes_ in assets.items() if bytes_ == data), None)
            mesh.set("filename", known or name)
            assets[known or name] = data
    return assets


def _read_collada(entity: str, link: str, file: Path, data: bytes) -> bytes:
    try:
        return to_obj(data)
    except (ET.ParseError, ValueError, KeyError, StopIteration) as error:
        raise ConfigError(
            f"Entity {entity!r}: cannot read the mesh {str(file)!r} of link {link!r}: {error}. "
            "Convert it to .obj or .stl."
        ) from error


def _find_mesh(entity: str, link: str, written: str, path: Path, package_folders: tuple[str, ...]) -> Path:
    for place in (tried := _places(written, path, package_folders)):
        if place.is_file():
            return place
    raise ConfigError(
        f"Entity {entity!r}: the mesh {written!r} of link {link!r} in {str(path)!r} is not there. Looked for: "
        + ", ".join(repr(str(place)) for place in tried)
        + (". ArticulationCfg.package_folders says where packages lie." if written.startswith("package://") else ".")
    )


def _places(written: str, path: Path, package_folders: tuple[str, ...]) -> list[Path]:
    """Returns where the file may lie, best first."""
    if written.startswith("package://"):
        package, _, inside = written.removeprefix("package://").partition("/")
        folders = [Path(folder).expanduser() for folder in package_folders]
        above = [folder for folder in path.resolve().parents if folder != folder.parent]
        named = [folder / package / inside for folder in (*folders, *above)]
        itself = [folder / inside for folder in (*folders, *above) if folder.name == package]
        return [*itself, *named][:12]
    if written.startswith("file:"):
        return [Path("/" + written.removeprefix("file:").lstrip("/"))]
    return [path.parent / written]
