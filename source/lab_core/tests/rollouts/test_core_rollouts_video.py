from __future__ import annotations

import imageio.v3 as iio
import numpy as np
import pytest

from lab_core.errors import LabError
from lab_core.rollouts import VideoRecorder


def frames(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """Pictures whose brightness grows with time."""
    return [np.full((height, width, 3), 10 + 20 * index, np.uint8) for index in range(count)]


def read(path) -> np.ndarray:
    return np.stack(list(iio.imiter(path, plugin="FFMPEG")))


def test_file_holds_every_frame_in_order_at_the_stated_rate(tmp_path):
    path = tmp_path / "videos" / "clip.mp4"
    with VideoRecorder(path, fps=25) as video:
        for frame in frames(10):
            video.add(frame)
    pictures = read(path)
    assert pictures.shape == (10, 48, 64, 3)
    assert np.all(np.diff(pictures.mean(axis=(1, 2, 3))) > 10)
    assert iio.immeta(path, plugin="FFMPEG")["fps"] == 25


def test_odd_sizes_are_encoded(tmp_path):
    with VideoRecorder(tmp_path / "odd.mp4", fps=30) as video:
        for frame in frames(3, height=47, width=63):
            video.add(frame)
    assert len(read(tmp_path / "odd.mp4")) == 3


def test_name_appears_only_when_the_file_is_complete(tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_text("the clip before")
    video = VideoRecorder(path, fps=30)
    for frame in frames(4):
        video.add(frame)
    assert path.read_text() == "the clip before"
    video.close()
    video.close()
    assert len(read(path)) == 4
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


def test_no_frames_leave_no_file(tmp_path):
    VideoRecorder(tmp_path / "empty.mp4", fps=30).close()
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_refused_before_any_frame(tmp_path):
    blocker = tmp_path / "videos"
    blocker.write_text("a file where the folder should be")
    with pytest.raises(LabError, match=r"Cannot write a video to .*clip\.mp4"):
        VideoRecorder(blocker / "clip.mp4", fps=30)


@pytest.mark.parametrize(
    ("path", "fps", "message"),
    [("clip.avi", 30.0, "must end in .mp4, got 'clip.avi'"), ("clip.mp4", 0.0, "must be positive, got 0.0")],
)
def test_bad_arguments_are_named(tmp_path, path, fps, message):
    with pytest.raises(LabError, match=message):
        VideoRecorder(tmp_path / path, fps)


@pytest.mark.parametrize(
    "frame", [np.zeros((48, 64, 3), np.float32), np.zeros((48, 64), np.uint8), np.zeros((48, 64, 4), np.uint8)]
)
def test_other_pictures_are_refused(tmp_path, frame):
    with (
        VideoRecorder(tmp_path / "clip.mp4", fps=30) as video,
        pytest.raises(LabError, match=r"uint8 \(height, width, 3\)"),
    ):
        video.add(frame)


def test_change_of_size_is_refused(tmp_path):
    with VideoRecorder(tmp_path / "clip.mp4", fps=30) as video:
        video.add(frames(1)[0])
        with pytest.raises(LabError, match=r"Frame 1 has shape \(24, 64, 3\), those before it \(48, 64, 3\)"):
            video.add(frames(1, height=24)[0])


def test_missing_encoder_is_reported_at_construction(tmp_path, monkeypatch):
    def no_encoder() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", no_encoder)
    with pytest.raises(LabError, match="No video encoder: No ffmpeg exe could be found"):
        VideoRecorder(tmp_path / "clip.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []
