"""What a file may not hold: refused by name, before anything is built."""

from __future__ import annotations

from lab_core.errors import ConfigError
from lab_newton.robot_files.compiled import CompiledFile
from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.root import Root, joints_of, subtree

_SINGLE = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def check_file(entity: str, file: CompiledFile, root: Root, names: Names) -> None:
    """Refuses what no entity can be made of.

    Raises:
        ConfigError: names entity and element.
    """
    model = file.model
    bodies = subtree(model, root.body)
    joints = [joint for body in bodies for joint in joints_of(model, body)]
    for what, numbers in (("joint", joints), ("body", bodies)):
        found = [names.of(what, number) for number in numbers]
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise ConfigError(f"Entity {entity!r}: {what} names must be unique, found twice: {', '.join(twice)}.")
    for body in bodies:
        _check_joints(entity, model, body, root, names)
    if model.nflex:
        raise ConfigError(f"Entity {entity!r}: {str(file.path)!r} holds flexes, soft bodies, which robots cannot have.")
    kinds = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON)
    for index in range(model.neq):
        if mujoco.mjtEq(model.eq_type[index]) not in kinds:
            kind = mujoco.mjtEq(model.eq_type[index]).name.removeprefix("mjEQ_").lower()
            raise ConfigError(
                f"Entity {entity!r}: equality {names.of('equality', index)!r} is of type {kind}. Equalities are "
                "connect, weld, joint and tendon."
            )


def _check_joints(entity: str, model: MjModel, body: int, root: Root, names: Names) -> None:
    joints = joints_of(model, body)
    if body == root.body and root.floats is not None:
        return  # the configuration replaces them
    kinds = [mujoco.mjtJoint(model.jnt_type[joint]) for joint in joints]
    for joint, kind in zip(joints, kinds, strict=True):
        is_free_root = body == root.body and kind == mujoco.mjtJoint.mjJNT_FREE
        if kind not in _SINGLE and not is_free_root:
            raise ConfigError(
                f"Entity {entity!r}: joint {names.of('joint', joint)!r} is of type {kind.name.removeprefix('mjJNT_')}. "
                "Joints of robots are hinges and slides; a root may be free or fixed."
            )
