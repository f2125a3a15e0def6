"""From the model file of an articulation to Newton's builder."""

from __future__ import annotations

import tempfile
from pathlib import Path

import newton

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg
from lab_newton.engine_words import told_of
from lab_newton.robot_files.carriers import joint_groups
from lab_newton.robot_files.checks import check_file
from lab_newton.robot_files.collisions import filter_neighbours
from lab_newton.robot_files.compiled import CompiledFile, compile_file
from lab_newton.robot_files.expanded import expand
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.layout import EntityLayout
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.paths import asset_path
from lab_newton.robot_files.root import Root, find_root, is_free, subtree
from lab_newton.robot_files.usd import add_usd, leave_out_drives

COMPILED = (".xml", ".mjcf", ".urdf")
"""Endings of files that MuJoCo compiles."""
USD = (".usd", ".usda", ".usdc")


def add_articulation(world: newton.ModelBuilder, name: str, cfg: ArticulationCfg) -> ImportedFile:
    """Adds what the model file of ``cfg`` holds to the builder of one world, at its default state.

    MJCF and URDF files are compiled by MuJoCo, and what it made of them is added: there is nothing left to interpret.

    Raises:
        ConfigError: the file is missing or broken, or holds something that articulations do not support.
    """
    path = asset_path(cfg.asset)
    suffix = path.suffix.lower()
    if suffix in USD:
        return add_usd(world, name, path, cfg)
    if suffix not in COMPILED:
        raise ConfigError(f"{str(path)!r} is no .xml, .mjcf, .urdf, .usd, .usda or .usdc file.")
    file = compile_file(name, path, cfg.package_folders, cfg.root)
    root = find_root(name, file, cfg)
    names = Names(file.model)
    check_file(name, file, root, names)
    first_joint, first_body, first_shape = world.joint_count, world.body_count, world.shape_count
    first_equality, first_tendon = _count(world, "equality_constraint_type"), _count(world, "tendon_world")
    with tempfile.TemporaryDirectory() as folder:
        text = expand(file, root, names, Path(folder))
        try:
            with told_of(f"Entity {name!r}: {str(path)!r}"):
                world.add_mjcf(
                    text,
                    parse_mujoco_options=False,
                    convert_mjc_equality_constraints=False,
                    enable_self_collisions=cfg.self_collision,
                )
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise ConfigError(f"Entity {name!r}: Newton cannot build {str(path)!r}: {words}") from error
    leave_out_drives(world)
    layout = _layout(world, file, root, names, first_joint, first_body)
    if cfg.self_collision:
        filter_neighbours(world, first_joint, first_body, layout.carriers)
    return ImportedFile(
        layout=layout,
        file=file,
        root=root,
        names=names,
        shapes=range(first_shape, world.shape_count),
        first_equality=first_equality,
        first_tendon=first_tendon,
    )


def _count(world: newton.ModelBuilder, attribute: str) -> int:
    """Returns how many values a list of MuJoCo's own attributes holds; a builder for other solvers has none."""
    known = world.custom_attributes.get(f"mujoco:{attribute}")
    return 0 if known is None or known.values is None else len(known.values)


def _layout(
    world: newton.ModelBuilder, file: CompiledFile, root: Root, names: Names, first_joint: int, first_body: int
) -> EntityLayout:
    model = file.model
    bodies = subtree(model, root.body)  # in the order in which the text holds them
    moved_by = {world.joint_child[joint]: joint for joint in range(first_joint, world.joint_count)}
    joint_names: list[str] = []
    joint_coord: list[int] = []
    joint_dof: list[int] = []
    body_places: list[int] = []
    carriers: list[int] = []
    root_coord = root_dof = 0
    floating = is_free(model, root.body) if root.floats is None else root.floats
    first = first_body
    for body in bodies:
        groups = joint_groups(model, body, root)
        places = range(first, first + len(groups))
        first = places.stop
        carriers += places[:-1]
        body_places.append(places[-1])
        for place, group in zip(places, groups, strict=True):
            coord, dof = world.joint_q_start[moved_by[place]], world.joint_qd_start[moved_by[place]]
            if body == root.body and (floating or root.floats is not None):
                root_coord, root_dof = coord, dof
                continue
            joint_names += [names.of("joint", joint) for joint in group]
            joint_coord += range(coord, coord + len(group))
            joint_dof += range(dof, dof + len(group))
    return EntityLayout(
        joint_names=tuple(joint_names),
        body_names=tuple(names.of("body", body) for body in bodies),
        joint_coord=tuple(joint_coord),
        joint_dof=tuple(joint_dof),
        body=tuple(body_places),
        root_coord=root_coord,
        root_dof=root_dof,
        floating=floating,
        carriers=tuple(carriers),
    )
