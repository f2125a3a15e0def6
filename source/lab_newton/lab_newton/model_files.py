"""From the model file of an articulation to Newton's builder."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import newton
import warp as wp

from lab_core.config import package_path
from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg

UNLIMITED = 1.0e9
"""Newton writes missing joint limits as +-1e10."""


@dataclass(frozen=True)
class EntityLayout:
    """Names of an entity's joints and bodies, and their places inside one world's slice of Newton's arrays."""

    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    joint_coord: tuple[int, ...]
    joint_dof: tuple[int, ...]
    body: tuple[int, ...]
    root_coord: int
    root_dof: int
    floating: bool


def asset_path(asset: str) -> Path:
    """Returns the file that ``asset`` names: a path, which may contain ``$NAME`` of an environment variable, or
    ``package:path/inside/package``.

    Raises:
        ConfigError: there is no such package, variable or file.
    """
    package, separator, _ = asset.partition(":")
    if separator and package.isidentifier() and len(package) > 1:  # one letter: a drive of Windows
        path = package_path(asset)
    else:
        for name in re.findall(r"\$(\w+)", asset):
            if name not in os.environ:
                raise ConfigError(f"Asset {asset!r}: the environment variable {name} is not set.")
        path = Path(os.path.expandvars(asset)).expanduser()
    if not path.is_file():
        raise ConfigError(f"Asset {asset!r}: there is no file {str(path)!r}.")
    return path


def add_articulation(world: newton.ModelBuilder, name: str, cfg: ArticulationCfg) -> EntityLayout:
    """Adds what the model file of ``cfg`` holds to the builder of one world, at its default state.

    Raises:
        ConfigError: the file is missing or broken, or holds something that articulations do not support.
    """
    path = asset_path(cfg.asset)
    first_joint, first_body = world.joint_count, world.body_count
    first_articulation = world.articulation_count
    try:
        _import_file(world, path, cfg)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"Entity {name!r}: cannot read {str(path)!r}: {type(error).__name__}: {error}") from error
    if world.articulation_count != first_articulation + 1:
        raise ConfigError(
            f"Entity {name!r}: {str(path)!r} holds {world.articulation_count - first_articulation} articulations, "
            "expected one: a single tree of bodies."
        )
    _refuse_actuators(world, name, path)
    if cfg.self_collision:
        _filter_neighbours(world, first_joint, first_body)
    return _layout(world, name, first_joint, first_body)


def _import_file(world: newton.ModelBuilder, path: Path, cfg: ArticulationCfg) -> None:
    pose = wp.transform(wp.vec3(*cfg.init_state.pos), wp.quat(*cfg.init_state.quat))
    floating = None if cfg.fixed_base is None else not cfg.fixed_base
    suffix = path.suffix.lower()
    if suffix in (".xml", ".mjcf"):
        world.add_mjcf(
            str(path),
            xform=pose,
            floating=floating,
            override_root_xform=True,
            parse_mujoco_options=False,
            enable_self_collisions=cfg.self_collision,
        )
    elif suffix == ".urdf":
        world.add_urdf(str(path), xform=pose, floating=floating, enable_self_collisions=cfg.self_collision)
    elif suffix in (".usd", ".usda", ".usdc"):
        if importlib.util.find_spec("pxr") is None:
            raise ConfigError(f"{str(path)!r} is a USD file, which needs the importers of Newton: "
                              "pip install 'newton[importers]'.")  # fmt: skip
        world.add_usd(str(path), xform=pose, floating=floating, enable_self_collisions=cfg.self_collision)
    else:
        raise ConfigError(f"{str(path)!r} is no .xml, .mjcf, .urdf, .usd, .usda or .usdc file.")


def _filter_neighbours(world: newton.ModelBuilder, first_joint: int, first_body: int) -> None:
    """Lets bodies that are fixed together be one body for contacts: it touches neither itself nor its neighbours.

    So does MuJoCo. Newton by itself keeps apart only bodies that share a joint: a foot would touch its thigh.
    """
    above: dict[int, int] = {}
    fixed: set[int] = set()
    for joint in range(first_joint, world.joint_count):
        parent, child = world.joint_parent[joint], world.joint_child[joint]
        if parent >= first_body:
            above[child] = parent
            if world.joint_type[joint] == newton.JointType.FIXED:
                fixed.add(child)

    def whole(body: int) -> int:
        return whole(above[body]) if body in fixed else body

    def whole_above(body: int) -> int | None:
        return whole(above[whole(body)]) if whole(body) in above else None

    def colliding(body: int) -> list[int]:
        flag = newton.ShapeFlags.COLLIDE_SHAPES
        return [shape for shape in world.body_shapes[body] if world.shape_flags[shape] & flag]

    for one, two in combinations(range(first_body, world.body_count), 2):
        if whole(one) == whole(two) or whole_above(one) == whole(two) or whole_above(two) == whole(one):
            for pair in product(colliding(one), colliding(two)):
                world.add_shape_collision_filter_pair(*pair)


def _refuse_actuators(world: newton.ModelBuilder, name: str, path: Path) -> None:
    """Motors inside the solver would act beside the configured actuators, unseen by records and penalties."""
    if world.custom_attributes["mujoco:actuator_trntype"].values:
        raise ConfigError(
            f"Entity {name!r}: {str(path)!r} has an <actuator> section. Remove it: the actuators of a robot are set in "
            f"scene.entities[{name!r}].actuators."
        )
    # Drives of URDF and USD files end up here. MuJoCo would have an actuator per drive, even of one without gains.
    for dof in range(len(world.joint_target_ke)):
        world.joint_target_ke[dof] = 0.0
        world.joint_target_kd[dof] = 0.0
        world.joint_target_mode[dof] = newton.JointTargetMode.NONE


def _layout(world: newton.ModelBuilder, name: str, first_joint: int, first_body: int) -> EntityLayout:
    joint_names: list[str] = []
    joint_coord: list[int] = []
    joint_dof: list[int] = []
    root_coord = root_dof = 0
    floating = False
    for joint in range(first_joint, world.joint_count):
        kind = newton.JointType(world.joint_type[joint])
        leaf = _leaf(world.joint_label[joint])
        if kind == newton.JointType.FREE and joint == first_joint:
            floating = True
            root_coord, root_dof = world.joint_q_start[joint], world.joint_qd_start[joint]
        elif kind in (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC):
            joint_names.append(leaf)
            joint_coord.append(world.joint_q_start[joint])
            joint_dof.append(world.joint_qd_start[joint])
        elif kind != newton.JointType.FIXED:
            raise ConfigError(
                f"Entity {name!r}: joint {leaf!r} is of type {kind.name}. Joints of robots are hinges and slides, one "
                "per body; a root may be free or fixed."
            )
    body_names = [_leaf(world.body_label[body]) for body in range(first_body, world.body_count)]
    _require_unique(name, "joint", joint_names)
    _require_unique(name, "body", body_names)
    return EntityLayout(
        joint_names=tuple(joint_names),
        body_names=tuple(body_names),
        joint_coord=tuple(joint_coord),
        joint_dof=tuple(joint_dof),
        body=tuple(range(first_body, world.body_count)),
        root_coord=root_coord,
        root_dof=root_dof,
        floating=floating,
    )


def _leaf(label: str) -> str:
    return label.rsplit("/", 1)[-1]


def _require_unique(entity: str, what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Entity {entity!r}: {what} names must be unique, found twice: {', '.join(twice)}.")
