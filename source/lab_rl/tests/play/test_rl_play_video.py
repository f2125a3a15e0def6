"""A clip of a policy: its speed, and what it counts."""

from __future__ import annotations

import imageio.v3 as iio
import numpy as np
import pytest
import torch

from lab_core.testing import AnalyticCartpoleBackend, analytic_cartpole_env_cfg
from lab_rl.play.video import Clip, record_clip


@pytest.fixture
def env(monkeypatch):
    """60 Hz, episodes of three steps."""
    monkeypatch.setattr(AnalyticCartpoleBackend, "render", lambda self, camera: np.zeros((32, 48, 3), np.uint8))
    return analytic_cartpole_env_cfg(num_envs=4, episode_length_s=3 / 60).build()


def test_a_clip_runs_at_the_speed_of_real_time(env, tmp_path):
    """12 steps of 1/60 s, every other of them a picture."""
    assert record_clip(env, lambda: torch.zeros(4, 1), tmp_path / "clip.mp4", 12).pictures == 6
    assert iio.immeta(tmp_path / "clip.mp4", plugin="FFMPEG")["fps"] == 30.0
    assert len(list(iio.imiter(tmp_path / "clip.mp4", plugin="FFMPEG"))) == 6


def test_time_limits_are_no_terminations(env, tmp_path):
    def policy() -> torch.Tensor:
        if env.step_count == 4:
            env.scene["robot"].data.joint_pos[1:3, 0] = 10.0  # out of bounds
        return torch.zeros(4, 1)

    assert record_clip(env, policy, tmp_path / "clip.mp4", 8) == Clip(pictures=4, terminations=2)
    assert env.reset_time_outs.tolist() == [False, True, True, False], "else nothing reached its time limit"
