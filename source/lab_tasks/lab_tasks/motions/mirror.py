"""Left and right exchanged."""

from __future__ import annotations

from lab_tasks.motions.clip import MotionClip, MotionError


def mirror(clip: MotionClip) -> MotionClip:
    """Returns the clip as a mirror shows it that stands along the xz plane, its name with ``_mirrored`` behind.

    Joints ``left_...`` and ``right_...`` change places; roll and yaw joints, y, and the root's roll and yaw change
    sign. This is right for robots whose halves mirror each other and whose joint axes do not, such as the G1.

    Raises:
        MotionError: a joint ``left_...`` has no ``right_...`` or the other way round, or a joint's name says nothing of
            its axis.
    """
    joints = {name: column for column, name in enumerate(clip.joint_names)}
    joint_pos = clip.joint_pos.copy()
    for name, column in joints.items():
        if (other := _other_side(name)) not in joints:
            raise MotionError(f"Motion {clip.name!r} cannot be mirrored: it has the joint {name!r} but no {other!r}.")
        joint_pos[:, column] = _sign(clip, name) * clip.joint_pos[:, joints[other]]
    return clip.changed(
        "mirrored",
        name=f"{clip.name}_mirrored",
        root_pos=clip.root_pos * (1.0, -1.0, 1.0),
        root_quat=clip.root_quat * (-1.0, 1.0, -1.0, 1.0),
        joint_pos=joint_pos,
    )


def _other_side(name: str) -> str:
    for side, other in (("left_", "right_"), ("right_", "left_")):
        if name.startswith(side):
            return other + name.removeprefix(side)
    return name


def _sign(clip: MotionClip, name: str) -> float:
    if "_roll_" in name or "_yaw_" in name:
        return -1.0
    if any(part in name for part in ("_pitch_", "knee", "elbow")):
        return 1.0
    raise MotionError(f"Motion {clip.name!r} cannot be mirrored: does the joint {name!r} roll, pitch or yaw?")
