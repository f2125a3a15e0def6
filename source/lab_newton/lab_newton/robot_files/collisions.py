"""Which bodies of an entity never touch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations, product

import newton

from lab_newton.robot_files.collision_pairs import pairs_by_masks
from lab_newton.robot_files.imported import ImportedFile


def filter_neighbours(
    world: newton.ModelBuilder, first_joint: int, first_body: int, carriers: Collection[int] = ()
) -> None:
    """Lets bodies that are fixed together be one body for contacts: it touches neither itself nor its neighbours.

    So does MuJoCo. Newton by itself keeps apart only bodies that share a joint: a foot would touch its thigh.
    ``carriers`` are no bodies of the file: what they carry is the neighbour of what they hang on.
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
        parent = above.get(whole(body))
        while parent is not None and parent in carriers:
            parent = above.get(parent)
        return None if parent is None else whole(parent)

    def colliding(body: int) -> list[int]:
        flag = newton.ShapeFlags.COLLIDE_SHAPES
        return [shape for shape in world.body_shapes[body] if world.shape_flags[shape] & flag]

    for one, two in combinations(range(first_body, world.body_count), 2):
        if whole(one) == whole(two) or whole_above(one) == whole(two) or whole_above(two) == whole(one):
            for pair in product(colliding(one), colliding(two)):
                world.add_shape_collision_filter_pair(*pair)


def keep_pairs_of_files(world: newton.ModelBuilder, files: Iterable[ImportedFile]) -> None:
    """Lets those pairs of shapes of a robot touch that touch in MuJoCo, whatever Newton keeps apart.

    Neighbours are kept apart by both, but not in MuJoCo if one of them is fixed to the world: an arm touches its base.
    What is fixed to the world touches nothing else that is. Call it once, when all entities are there.
    """
    files = [one for one in files if one.file is not None]
    touching = set().union(*(_touching_shapes(world, one) for one in files))
    kept = [pair for pair in world.shape_collision_filter_pairs if (min(pair), max(pair)) not in touching]
    world.shape_collision_filter_pairs = kept + [pair for one in files for pair in _still_pairs(world, one)]


def _touching_shapes(world: newton.ModelBuilder, imported: ImportedFile) -> set[tuple[int, int]]:
    """Returns the pairs of shapes, smaller number first, that MuJoCo lets touch by their masks."""
    assert imported.file is not None and imported.names is not None
    shapes = {world.shape_label[shape].rsplit("/", 1)[-1]: shape for shape in imported.shapes}
    place = {geom: shapes.get(imported.names.geom(geom), -1) for geom in range(imported.file.model.ngeom)}
    pairs = ((place[one], place[two]) for one, two in pairs_by_masks(imported.file.model))
    return {(min(pair), max(pair)) for pair in pairs if min(pair) >= 0}


def _still_pairs(world: newton.ModelBuilder, imported: ImportedFile) -> list[tuple[int, int]]:
    """Returns the pairs of a shape beside the robot and one of its root, if that is fixed to the world."""
    assert imported.file is not None and imported.names is not None
    model = imported.file.model
    fixed = {imported.names.geom(geom) for geom in range(model.ngeom) if not model.body_weldid[model.geom_bodyid[geom]]}
    shapes = [
        shape
        for shape in imported.shapes
        if world.shape_label[shape].rsplit("/", 1)[-1] in fixed
        and world.shape_flags[shape] & newton.ShapeFlags.COLLIDE_SHAPES
    ]
    beside = [shape for shape in shapes if world.shape_body[shape] < 0]
    return [(min(pair), max(pair)) for pair in product(beside, shapes) if world.shape_body[pair[1]] >= 0]
