"""USD files, which Newton reads by itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import newton
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg
from lab_newton.engine_words import told_of
from lab_newton.robot_files.collisions import filter_neighbours
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.layout import EntityLayout


def add_usd(world: newton.ModelBuilder, name: str, path: Path, cfg: ArticulationCfg) -> ImportedFile:
    """Adds the articulation of a USD file to the builder of one world, at its default state.

    Raises:
        ConfigError: the file is broken, or holds something that articulations do not support.
    """
    if importlib.util.find_spec("pxr") is None:
        raise ConfigError(f"{str(path)!r} is a USD file, which needs the importers of Newton: "
                          "pip install 'newton[importers]'.")  # fmt: skip
    first_joint, first_body = world.joint_count, world.body_count
    first_articulation = world.articulation_count
    pose = wp.transform(wp.vec3(*(cfg.init_state.pos or (0.0,) * 3)), wp.quat(*(cfg.init_state.quat or (0, 0, 0, 1))))
    floating = None if cfg.fixed_base is None else not cfg.fixed_base
    try:
        with told_of(f"Entity {name!r}: {str(path)!r}"):
            world.add_usd(str(path), xform=pose, floating=floating, enable_self_collisions=cfg.self_collision)
    except Exception as error:
        raise ConfigError(f"Entity {name!r}: cannot read {str(path)!r}: {type(error).__name__}: {error}") from error
    found = world.articulation_count - first_articulation
    if found != 1:
        raise ConfigError(
            f"Entity {name!r}: {str(path)!r} holds {found} articulations, expected one: a single tree of bodies."
        )
    leave_out_drives(world)
    if cfg.self_collision:
        filter_neighbours(world, first_joint, first_body)
    return ImportedFile(_layout(world, name, first_joint, first_body))


def leave_out_drives(world: newton.ModelBuilder) -> None:
    """Takes the drives away that files bring: MuJoCo would have an actuator per drive, even of one without gains."""
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
