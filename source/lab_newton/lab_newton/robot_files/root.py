"""Which body of a file is the robot's root, and where everything starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg
from lab_newton.robot_files.compiled import CompiledFile
from lab_newton.robot_files.engine import MjData, MjModel, mujoco


@dataclass(frozen=True)
class Root:
    """The root of the one robot in a file."""

    body: int
    """Its number in the compiled model."""
    position: np.ndarray
    """Where it starts (3,) [m]."""
    orientation: np.ndarray
    """How it stands at the start (4,), wxyz."""
    floats: bool | None
    """Whether it is free, where the configuration says so; None: it moves as the file says."""
    free_joint_name: str
    """What a free joint that the file does not have is called."""
    still_bodies: tuple[int, ...]
    """The world and every body that stands still beside the robot."""
    _data: MjData

    def place(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pose (position, wxyz) of a body in the world of the file."""
        return self._data.xpos[body].copy(), self._data.xquat[body].copy()


def find_root(entity: str, file: CompiledFile, cfg: ArticulationCfg) -> Root:
    """Returns the root of the robot in ``file``.

    Raises:
        ConfigError: there is none, or more than one.
    """
    model = file.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    trees = [body for body in range(1, model.nbody) if model.body_parentid[body] == 0]
    moving = [body for body in trees if any(model.body_dofnum[b] for b in subtree(model, body))]
    if not trees:
        raise ConfigError(f"Entity {entity!r}: {str(file.path)!r} holds no body.")
    if len(moving) > 1 or (not moving and len(trees) > 1):
        found = moving or trees
        names = ", ".join(repr(model.body(body).name) for body in found)
        raise ConfigError(
            f"Entity {entity!r}: {str(file.path)!r} holds {len(found)} articulations, expected one, a single tree of "
            f"bodies: {names}. Make an entity of each, with ArticulationCfg(asset=..., root=...), or set root to the "
            "one that you want."
        )
    root = (moving or trees)[0]
    still = [body for tree in trees if tree != root for body in subtree(model, tree)]
    floats = None if cfg.fixed_base is None else not cfg.fixed_base
    if floats and is_free(model, root):
        floats = None
    init = cfg.init_state
    position = model.body_pos[root] if init.pos is None else np.asarray(init.pos, dtype=float)
    quat = model.body_quat[root]
    if init.quat is not None:
        x, y, z, w = init.quat
        quat = np.array((w, x, y, z))
    return Root(root, position, quat, floats, f"{model.body(root).name}_free", (0, *still), data)


def subtree(model: MjModel, body: int) -> list[int]:
    """Returns ``body`` and all below it, depth first."""
    children = [child for child in range(body + 1, model.nbody) if model.body_parentid[child] == body]
    return [body, *(below for child in children for below in subtree(model, child))]


def is_free(model: MjModel, body: int) -> bool:
    """Returns whether a free joint moves ``body``."""
    return bool(model.body_jntnum[body]) and model.jnt_type[model.body_jntadr[body]] == mujoco.mjtJoint.mjJNT_FREE


def joints_of(model: MjModel, body: int) -> range:
    """Returns the joints of ``body``, in the order of the file."""
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))
