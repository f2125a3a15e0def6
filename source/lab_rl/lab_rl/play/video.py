"""Videos of a policy at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from lab_core.envs import RLEnv
from lab_core.rollouts import VideoRecorder

MAX_FPS = 30.0
"""Pictures are rendered at most this often [Hz]: drawing costs more than stepping."""


@dataclass(frozen=True)
class Clip:
    """What was recorded."""

    pictures: int
    terminations: int
    """Episodes that ended while it was recorded, other than by a time limit."""


def record_clip(
    env: RLEnv,
    policy: Callable[[], torch.Tensor],
    path: Path,
    num_steps: int,
    on_step: Callable[[int], object] = lambda done: None,
) -> Clip:
    """Steps ``env`` with the actions (N, A) of ``policy`` and writes what its camera sees, at the speed of real time.

    Calls ``on_step`` with the number of steps made.

    Raises:
        LabError: The physics cannot draw, or ``path`` cannot be written.
    """
    step_dt = env.step_dt
    stride = max(1, round(1.0 / (MAX_FPS * step_dt)))
    with VideoRecorder(path, fps=1.0 / (step_dt * stride)) as video, torch.inference_mode():
        terminations = torch.zeros((), dtype=torch.int64, device=env.device)
        for step in range(num_steps):
            if step % stride == 0:
                video.add(*env.render())
            env.step(policy())
            terminations += env.reset_terminated.sum()
            on_step(step + 1)
        return Clip(video.num_frames, int(terminations))
