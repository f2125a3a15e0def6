"""Films of clips."""

from __future__ import annotations

from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from lab_core.cli import main
from lab_core.scene import CameraCfg
from lab_tasks.motions import MotionClip, MotionError, demo_clip, film_clip, g1_model, save_clip
from lab_tasks.robots import g1_cfg

ROBOT = g1_model()
CAMERA = CameraCfg(eye=(2.6, 1.8, 1.3), target=(0.0, 0.0, 0.7), follow="robot", width=96, height=72)


def short(name: str, start: int, frames: int) -> MotionClip:
    clip = demo_clip(name, ROBOT)
    part = slice(start, start + frames)
    return clip.changed(
        "", root_pos=clip.root_pos[part], root_quat=clip.root_quat[part], joint_pos=clip.joint_pos[part]
    )


def pictures(path: Path) -> tuple[np.ndarray, float]:
    """(T, height, width, 3), and their rate."""
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    width, height = meta["size"]
    return np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader]), meta["fps"]


def pink(picture: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > green + 15) & (blue > green + 5)


def test_a_film_shows_the_clip_in_real_time_and_its_reference_as_a_ghost(tmp_path: Path) -> None:
    clip, reference = short("squat", 60, 21), short("stand", 0, 5)
    reference = reference.changed("", root_pos=reference.root_pos + np.linspace((0, 0, 0), (0, 0.5, 0), 5))
    assert film_clip(clip, g1_cfg(), tmp_path / "alone.mp4", camera=CAMERA) == 11
    film_clip(clip, g1_cfg(), tmp_path / "both.mp4", reference, CAMERA)
    alone, fps = pictures(tmp_path / "alone.mp4")
    both, _ = pictures(tmp_path / "both.mp4")
    assert alone.shape == both.shape == (11, 72, 96, 3) and fps == pytest.approx(25.0)
    assert np.abs(alone[0].astype(int) - alone[-1]).max() > 50, "it moves"
    assert not any(pink(picture).any() for picture in alone)
    places = [np.nonzero(pink(picture))[1].mean() for picture in both]
    assert abs(places[2] - places[0]) > 5
    np.testing.assert_allclose(places[2:], places[2], atol=1, err_msg="once it has ended, it is where it ended")


def test_a_reference_of_another_robot_is_refused(tmp_path: Path) -> None:
    clip = short("stand", 0, 5)
    names = ("dog", *clip.joint_names[1:])
    with pytest.raises(MotionError, match="not of this robot.*dog"):
        film_clip(clip, g1_cfg(), tmp_path / "both.mp4", clip.changed("", joint_names=names))
    assert not list(tmp_path.iterdir())


def test_the_command_films(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_clip(short("stand", 0, 3), tmp_path / "stand.npz")
    view = ["motion", "view", str(tmp_path / "stand.npz"), "--reference", str(tmp_path / "stand.npz")]
    assert main([*view, "--output", str(tmp_path / "stand.mp4")]) == 0
    assert "2 pictures" in capsys.readouterr().out and (tmp_path / "stand.mp4").stat().st_size > 1000
    assert main([*view, "--output", str(tmp_path / "stand.png")]) != 0
    assert "--output" in capsys.readouterr().err
