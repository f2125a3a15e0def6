"""Which bodies of an entity never touch."""

from __future__ import annotations

from itertools import combinations, product

import newton


def filter_neighbours(world: newton.ModelBuilder, first_joint: int, first_body: int) -> None:
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
