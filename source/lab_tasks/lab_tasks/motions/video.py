"""A clip as a film: the robot in its poses, nothing simulated."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from lab_core.physics import Ghost
from lab_core.rollouts import VideoRecorder
from lab_core.scene import ArticulationCfg, ArticulationData, CameraCfg, SceneCfg
from lab_tasks.motions.clip import MotionClip
from lab_tasks.motions.splines import resample

MAX_FPS = 30.0
"""Pictures per second at most: faster clips are shown at a whole part of their rate."""
_CAMERA = CameraCfg(eye=(2.6, 1.8, 1.3), target=(0.0, 0.0, 0.7), follow="robot")


def film_clip(
    clip: MotionClip,
    robot: ArticulationCfg,
    path: Path,
    reference: MotionClip | None = None,
    camera: CameraCfg | None = None,
) -> int:
    """Writes a video (.mp4) of ``robot`` in the poses of ``clip``, at the speed of real time.

    Args:
        clip: The motion.
        robot: Whose motion it is.
        path: The file.
        reference: A motion that is drawn with it, as a ghost; when it has ended, its last frame.
        camera: The view, whose ``follow`` may be ``"robot"``.

    Returns:
        The number of pictures.

    Raises:
        LabError: ``path`` cannot be written.
        MotionError: a motion is of another robot.
    """
    stride = math.ceil(clip.fps / MAX_FPS)
    with VideoRecorder(path, fps=clip.fps / stride) as video:  # first: it says at once if the file cannot be written
        stage = _Stage(robot)
        poses = stage.poses(clip)
        ghosts = [] if reference is None else stage.poses(resample(reference, clip.fps))
        for frame in range(0, len(clip), stride):
            stage.show(poses[frame])
            if ghosts:
                stage.haunt(ghosts[min(frame, len(ghosts) - 1)])
            video.add(stage.physics.render(camera or _CAMERA))
        return video.num_frames


_Pose = tuple[torch.Tensor, torch.Tensor]
"""Of the root (1, 7), and of joints (1, J) in the order of the robot."""


class _Stage:
    """A plane with one robot, and a ghost of it if there is one."""

    def __init__(self, robot: ArticulationCfg) -> None:
        from lab_newton import MuJoCoSolverCfg, NewtonCfg
        from lab_newton.backend import NewtonBackend

        cfg = NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(contacts=False))
        self.physics = NewtonBackend(cfg, SceneCfg(entities={"robot": robot}), 1, torch.device("cpu"))
        data = self.physics.entities["robot"]
        assert isinstance(data, ArticulationData)
        self._data = data
        self._ghosts: list[Ghost] = []
        self.physics.ghost_sources.append(lambda: self._ghosts)

    def poses(self, clip: MotionClip) -> list[_Pose]:
        """Returns the frames of ``clip``."""
        clip = clip.with_joints(self._data.joint_names)
        roots = torch.from_numpy(np.hstack((clip.root_pos, clip.root_quat))).float()
        return list(zip(roots.split(1), torch.from_numpy(clip.joint_pos).float().split(1), strict=True))

    def show(self, pose: _Pose) -> None:
        """Puts the robot there."""
        root, joints = pose
        self._data.root_link_pose_w.copy_(root)
        self._data.joint_pos.copy_(joints)
        self.physics.written.fill_(True)

    def haunt(self, pose: _Pose) -> None:
        """Puts the ghost there."""
        root, joints = pose
        self._ghosts[:] = [Ghost(entity="robot", root_pose_w=root, joint_pos=joints)]
