"""Several clips as tensors on one device, for tracking them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lab_tasks.motions.clip import Array, MotionClip, MotionError, load_clip
from lab_tasks.motions.splines import resample, velocities


@dataclass(frozen=True)
class MotionFrames:
    """Reference states of a batch ``(...)``. Orientations are xyzw; what has no frame in its name is of the joints."""

    root_pos_w: Tensor
    """Origin of the root link ``(..., 3)`` [m], relative to where the clip starts counting, not to an environment."""
    root_quat_w: Tensor
    """``(..., 4)``."""
    root_lin_vel_w: Tensor
    """Velocity of the root link's origin ``(..., 3)`` [m/s], not of its centre of mass."""
    root_ang_vel_w: Tensor
    """``(..., 3)`` [rad/s]."""
    joint_pos: Tensor
    """``(..., J)`` [rad]."""
    joint_vel: Tensor
    """``(..., J)`` [rad/s]."""


class MotionLibrary:
    """Clips one after the other in tensors; a frame is named by its clip and its number within that.

    All clips have one rate and one order of joints. Velocities are derived clip by clip, so no clip knows of its
    neighbour. Lookups wait for nothing on the host, and may be captured in a graph.

    Args:
        clips: At least one, with different names.
        joint_names: The order of the joints; every clip must have exactly these.
        fps: The rate, usually that of the environment steps; clips of other rates are resampled.
        device: Where the tensors are.

    Raises:
        MotionError: there is no clip, two have one name, or one is of another robot.
    """

    def __init__(
        self, clips: Sequence[MotionClip], joint_names: Sequence[str], fps: float, device: torch.device | str = "cpu"
    ) -> None:
        if not clips:
            raise MotionError("A motion library needs at least one clip.")
        names = [clip.name for clip in clips]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MotionError(f"Clips in a motion library need different names; more than one is: {', '.join(twice)}.")
        clips = [resample(clip.with_joints(joint_names), fps) for clip in clips]
        rates = [velocities(clip) for clip in clips]
        self.clips = tuple(clips)
        """As they are in the tensors."""
        self.names = tuple(names)
        self.joint_names = tuple(joint_names)
        self.fps = fps
        self.device = torch.device(device)
        frames = [len(clip) for clip in clips]
        self.lengths = torch.tensor(frames, device=self.device)
        """Frames of each clip ``(C,)``."""
        self.starts = torch.tensor(np.concatenate(([0], np.cumsum(frames)[:-1])), device=self.device)
        """Where each clip begins in the tensors ``(C,)``."""
        self.frames = MotionFrames(
            root_pos_w=self._joined([clip.root_pos for clip in clips]),
            root_quat_w=self._joined([clip.root_quat for clip in clips]),
            root_lin_vel_w=self._joined([rate.root_lin for rate in rates]),
            root_ang_vel_w=self._joined([rate.root_ang for rate in rates]),
            joint_pos=self._joined([clip.joint_pos for clip in clips]),
            joint_vel=self._joined([rate.joint for rate in rates]),
        )
        """All frames of all clips ``(F, ...)``, float32."""

    @classmethod
    def load(
        cls, paths: Sequence[Path], joint_names: Sequence[str], fps: float, device: torch.device | str = "cpu"
    ) -> MotionLibrary:
        """Returns a library of the clips in ``paths``; see the class for what is raised."""
        return cls([load_clip(path) for path in paths], joint_names, fps, device)

    def __len__(self) -> int:
        """Returns the number of clips."""
        return len(self.clips)

    @property
    def hashes(self) -> dict[str, str]:
        """Name of each clip -> hash of its motion, to be kept with what was learned from it."""
        return {clip.name: clip.sha256 for clip in self.clips}

    def index(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Returns rows of :attr:`frames` ``(...)``, int64.

        Args:
            clip: Numbers of clips ``(...)``; they must exist, which is not checked.
            frame: Numbers of frames within them ``(...)``. Below the first it is the first, beyond the last the last.
        """
        last = self.lengths[clip] - 1
        return self.starts[clip] + torch.minimum(frame.clamp(min=0), last)

    def lookup(self, clip: Tensor, frame: Tensor) -> MotionFrames:
        """Returns the reference states at ``clip`` and ``frame``; see :meth:`index`."""
        rows = self.index(clip, frame)
        return MotionFrames(**{key: values[rows] for key, values in vars(self.frames).items()})

    def _joined(self, arrays: Sequence[Array]) -> Tensor:
        return torch.tensor(np.concatenate(arrays), dtype=torch.float32, device=self.device)
