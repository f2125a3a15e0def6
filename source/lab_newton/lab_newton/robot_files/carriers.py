"""Bodies with several joints, of which Newton cannot make one joint."""

from __future__ import annotations

import numpy as np

from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.expanded_relations import tendon_order
from lab_newton.robot_files.root import Root, joints_of

CARRIER_MASS = 1e-7
"""Mass [kg] of a carrier, which MuJoCo demands of whatever moves."""
CARRIER_INERTIA = 2e-15
"""Inertia [kg m^2] of a carrier about each axis: so little that a fluid takes it for a grain of 0.35 mm."""
_MOST = 3


def joint_groups(model: MjModel, body: int, root: Root) -> list[range]:
    """Returns the joints of ``body`` in groups, each of which becomes one joint of Newton's; one group at least.

    A joint of Newton's has one place, and slides before hinges, three of each at most; and its fixed tendons pull at
    joints that are alone. Where a body needs more, all groups but the last move a carrier: a body of next to no mass in
    the same frame, which carries the next one.
    """
    joints = joints_of(model, body)
    if not joints or (body == root.body and root.floats is not None):
        return [range(0)]
    pulled = _joints_of_tendons(model) if len(joints) > 1 else set()
    groups, first = [], joints.start
    for joint in joints[1:]:
        if {joint - 1, joint} & pulled or not _fits(model, range(first, joint), joint):
            groups.append(range(first, joint))
            first = joint
    return [*groups, range(first, joints.stop)]


def _joints_of_tendons(model: MjModel) -> set[int]:
    wraps = [
        wrap
        for tendon in tendon_order(model)
        for wrap in range(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon])
    ]
    return {int(model.wrap_objid[wrap]) for wrap in wraps if model.wrap_type[wrap] == mujoco.mjtWrap.mjWRAP_JOINT}


def _fits(model: MjModel, group: range, joint: int) -> bool:
    """Returns whether ``joint`` may follow those of ``group`` in one joint of Newton's."""
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    hinges = [other for other in group if model.jnt_type[other] == hinge]
    if model.jnt_type[joint] == slide:
        return not hinges and len(group) < _MOST
    return len(hinges) < _MOST and all(np.array_equal(model.jnt_pos[joint], model.jnt_pos[o]) for o in hinges)
