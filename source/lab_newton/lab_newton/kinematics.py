"""The kinematic tree of an entity, out of the model that was built."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from lab_core.errors import LabError
from lab_core.kinematics import JointKind, KinematicTree
from lab_newton.arrays import present
from lab_newton.robot_files import EntityLayout
from lab_newton.state import NewtonEntity

_KINDS: dict[newton.JointType, JointKind] = {
    newton.JointType.REVOLUTE: "hinge",
    newton.JointType.PRISMATIC: "slide",
}
_IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def kinematic_tree(model: newton.Model, entity: NewtonEntity) -> KinematicTree:
    """Returns how the bodies of ``entity`` hang together in the first world.

    Raises:
        LabError: a joint follows another one, a body has several joints, or the joint of a free root is not at the
            origin of its body; the message names it.
    """
    layout = entity.layout
    column = {body: i for i, body in enumerate(layout.body)}
    joint_of_dof = {dof: i for i, dof in enumerate(layout.joint_dof)}
    kinds, children = present(model.joint_type).numpy(), present(model.joint_child).numpy()
    parents, first_dofs = present(model.joint_parent).numpy(), present(model.joint_qd_start).numpy()
    in_parent, in_child = present(model.joint_X_p).numpy(), present(model.joint_X_c).numpy()
    axes, leaders = present(model.joint_axis).numpy(), present(model.joint_mimic_joint).numpy()
    joint_kinds: dict[int, JointKind] = {}
    above, moved_by = [-1] * len(column), [-1] * len(column)
    parent_frames, child_frames = [_IDENTITY] * len(column), [_IDENTITY] * len(column)
    for joint in np.nonzero(np.isin(children, layout.body))[0]:
        body, kind = column[int(children[joint])], newton.JointType(kinds[joint])
        what = f"Entity {entity.name!r}: the joint of body {layout.body_names[body]!r}"
        if leaders[joint] >= 0:
            raise LabError(f"{what} follows another joint, which a kinematic tree does not hold.")
        above[body] = column.get(int(parents[joint]), -1)
        parent_frames[body], child_frames[body] = _floats(in_parent[joint]), _floats(in_child[joint])
        if kind in _KINDS:
            moved_by[body] = joint_of_dof[int(first_dofs[joint])]
            joint_kinds[moved_by[body]] = _KINDS[kind]
        elif kind == newton.JointType.FREE and not np.allclose(
            (in_parent[joint], in_child[joint]), _IDENTITY, atol=1e-6
        ):
            raise LabError(f"{what} is not at its origin; a free root's is.")
        elif kind not in (newton.JointType.FREE, newton.JointType.FIXED):
            raise LabError(f"{what} is none of its own: it has several, which a kinematic tree does not hold.")
    return KinematicTree(
        body_names=layout.body_names,
        parents=tuple(above),
        body_joints=tuple(moved_by),
        parent_frames=tuple(parent_frames),
        child_frames=tuple(child_frames),
        centers_of_mass=tuple(_floats(com) for com in present(model.body_com).numpy()[list(layout.body)]),
        joint_names=layout.joint_names,
        joint_kinds=tuple(joint_kinds[joint] for joint in range(len(layout.joint_names))),
        joint_axes=tuple(_floats(axis) for axis in axes[list(layout.joint_dof)]),
        free_root=layout.floating,
    )


def joint_kinds(model: newton.Model, layout: EntityLayout) -> tuple[JointKind, ...]:
    """Returns what each joint of an entity is, also where several are on one body."""
    firsts: Any = present(model.joint_qd_start).numpy()
    counts: Any = present(model.joint_dof_dim).numpy()  # pyright: ignore[reportAttributeAccessIssue]
    slides = {int(first) + i for first, (linear, _) in zip(firsts, counts, strict=False) for i in range(linear)}
    return tuple("slide" if dof in slides else "hinge" for dof in layout.joint_dof)


def _floats(row: np.ndarray) -> Any:
    return tuple(row.tolist())
