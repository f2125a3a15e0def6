"""What motions need to know of a robot: its joints and their limits, its feet, and where its bodies are in a frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
from mujoco import MjData, MjModel, mj_kinematics, mjtGeom  # pyright: ignore[reportAttributeAccessIssue]

from lab_core.names import values_by_name
from lab_tasks.motions.clip import Array, MotionClip
from lab_tasks.robots import g1_cfg


@dataclass(frozen=True)
class RobotModel:
    """A legged robot with a free root, read from its MuJoCo model."""

    model: MjModel
    feet: tuple[str, str]
    """Names of the bodies of the left and the right foot, each with one box as its sole."""
    default_joint_pos: Array
    """Angles ``(J,)`` of the default pose [rad]."""
    soft_limit_factor: float
    """Share of a joint's range, about its centre, that it should stay in."""

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of the model."""
        return tuple(self.model.joint(index).name for index in range(1, self.model.njnt))

    @cached_property
    def limits(self) -> Array:
        """Lowest and highest angles ``(2, J)`` [rad]."""
        return self.model.jnt_range[1:].T.copy()

    @cached_property
    def soft_limits(self) -> Array:
        """Limits ``(2, J)`` about the same centre, smaller by :attr:`soft_limit_factor` [rad]."""
        centre = self.limits.mean(axis=0)
        return centre + self.soft_limit_factor * (self.limits - centre)

    @cached_property
    def breadth_first(self) -> list[int]:
        """Numbers of all links, the root 0, level by level of the tree; the model has them depth first."""
        parents = self.model.body_parentid.tolist()
        level = [0]
        order = []
        while level:
            level = [body for parent in level for body in range(1, self.model.nbody) if parents[body] == parent]
            order += [body - 1 for body in level]
        return order

    def qpos(self, clip: MotionClip) -> Array:
        """Returns MuJoCo's coordinates ``(T, 7 + J)`` of the frames, quaternions wxyz."""
        clip = clip.with_joints(self.joint_names)
        return np.concatenate((clip.root_pos, clip.root_quat[:, [3, 0, 1, 2]], clip.joint_pos), axis=1)

    def body_positions(self, clip: MotionClip) -> Array:
        """Returns the origins of all links ``(T, B, 3)`` in the world [m], in the order of the model."""
        return self._poses(clip)[0]

    def sole_corners(self, clip: MotionClip) -> Array:
        """Returns the lower corners of both soles ``(T, 2, 4, 3)`` in the world [m], in cyclic order."""
        positions, rotations = self._poses(clip)
        corners = []
        for foot in self.feet:
            body = self.model.body(foot).id
            in_world = rotations[:, body - 1] @ self._sole(body).T
            corners.append(np.swapaxes(in_world, -1, -2) + positions[:, body - 1, None])
        return np.stack(corners, axis=1)

    def _poses(self, clip: MotionClip) -> tuple[Array, Array]:
        """Returns positions ``(T, B, 3)`` and rotations ``(T, B, 3, 3)`` of all links without the world."""
        data = MjData(self.model)
        positions, rotations = [], []
        for qpos in self.qpos(clip):
            data.qpos[:] = qpos
            mj_kinematics(self.model, data)
            positions.append(data.xpos[1:].copy())
            rotations.append(data.xmat[1:].reshape(-1, 3, 3).copy())
        return np.stack(positions), np.stack(rotations)

    def _sole(self, body: int) -> Array:
        """Returns the lower corners ``(4, 3)`` of a foot's box in the frame of the foot [m]."""
        boxes = np.flatnonzero(
            (self.model.geom_bodyid == body)
            & (self.model.geom_type == mjtGeom.mjGEOM_BOX)
            & (self.model.geom_contype != 0)
        )
        (box,) = boxes
        x, y, z = self.model.geom_size[box]
        return self.model.geom_pos[box] + np.array([[x, y, -z], [-x, y, -z], [-x, -y, -z], [x, -y, -z]])


def g1_model() -> RobotModel:
    """Returns the Unitree G1 with 29 joints."""
    cfg = g1_cfg()
    package, _, inside = cfg.asset.partition(":")
    model = MjModel.from_xml_string(files(package).joinpath(inside).read_text())
    names = [model.joint(index).name for index in range(1, model.njnt)]
    return RobotModel(
        model,
        feet=("left_ankle_roll_link", "right_ankle_roll_link"),
        default_joint_pos=np.array(values_by_name(cfg.init_state.joint_pos, names, what="joint")),
        soft_limit_factor=cfg.soft_joint_pos_limit_factor,
    )
