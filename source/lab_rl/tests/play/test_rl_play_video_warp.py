"""Videos of the Warp front end from the command line."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

from lab_core.agents import PPOCfg
from lab_core.cli import main
from lab_core.registry import TaskSpec, register_task
from lab_core.testing import AnalyticCartpoleBackend, analytic_cartpole_env_cfg

TASK = "Stub-Warp-Video"


def ppo_cfg() -> PPOCfg:
    return PPOCfg(num_steps_per_env=4, max_iterations=1, actor_hidden_dims=(8,), critic_hidden_dims=(8,))


register_task(TaskSpec(id=TASK, env_cfg=lambda play=False: analytic_cartpole_env_cfg(4, 0.1), agents={"ppo": ppo_cfg}))
TRAIN = ["train", TASK, "--frontend", "warp", "--device", "cpu", "--video-length", "6", "--video", "clip.mp4"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_video_of_the_warp_front_end(monkeypatch):
    """No viewer, no display; what counts is the clip, a picture for every second step at 60 Hz."""
    monkeypatch.setattr(
        AnalyticCartpoleBackend, "render", lambda self, camera: np.full((32, 48, 3), 128, dtype=np.uint8)
    )
    assert main(TRAIN) == 0
    assert len(list(iio.imiter("clip.mp4", plugin="FFMPEG"))) == 3


def test_a_video_that_cannot_be_drawn_is_no_silent_success(capsys):
    main(TRAIN)
    output = capsys.readouterr()
    assert not Path("clip.mp4").exists()
    assert "video" in (output.out + output.err).lower()
