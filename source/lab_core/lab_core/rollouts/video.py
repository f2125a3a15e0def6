"""Videos written frame by frame, so that memory stays flat."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from lab_core.errors import LabError


class VideoRecorder:
    """Writes RGB frames to an MP4 file (H.264).

    The frames go to a hidden file next to ``path``, which gets its name when the recorder closes: a file called
    ``path`` is always complete, and an existing one stays until then. Use it as a context manager, or call
    :meth:`close`.

    Args:
        path: Ends in ``.mp4``; missing folders are made.
        fps: Frames per second of the video [Hz].

    Raises:
        LabError: The path has another suffix, its folder cannot be written, or there is no encoder. All of it shows
            at construction, before any time is spent on frames.
    """

    def __init__(self, path: str | Path, fps: float) -> None:
        self.path = Path(path)
        self.fps = fps
        self.num_frames = 0
        self._frame_shape: tuple[int, ...] | None = None
        self._encoder: Generator[Any, np.ndarray, None] | None = None
        if self.path.suffix != ".mp4":
            raise LabError(f"A video file must end in .mp4, got {self.path.name!r}.")
        if fps <= 0:
            raise LabError(f"The frame rate of {self.path.name!r} must be positive, got {fps}.")
        import imageio_ffmpeg  # only where a video is written

        try:
            imageio_ffmpeg.get_ffmpeg_exe()
        except RuntimeError as error:
            raise LabError(f"No video encoder: {error}") from error
        self._partial = self.path.with_name(f".{self.path.stem}.partial.mp4")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._partial.touch()
        except OSError as error:
            raise LabError(f"Cannot write a video to {self.path}: {error.strerror or error}") from error

    def add(self, frame: np.ndarray) -> None:
        """Append one picture: uint8 ``(height, width, 3)``, every one of the same size.

        Raises:
            LabError: The picture has another form, or the encoder stopped (the disk may be full).
        """
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise LabError(f"A frame must be uint8 (height, width, 3), got {frame.dtype} {frame.shape}.")
        if self._encoder is None:
            self._frame_shape, self._encoder = frame.shape, self._start_encoder(*frame.shape[:2])
        elif frame.shape != self._frame_shape:
            raise LabError(f"Frame {self.num_frames} has shape {frame.shape}, those before it {self._frame_shape}.")
        try:
            self._encoder.send(np.ascontiguousarray(frame))
        except (OSError, StopIteration) as error:
            raise LabError(f"The encoder of {self.path} stopped at frame {self.num_frames}: {error}") from error
        self.num_frames += 1

    def close(self) -> None:
        """Finish the file under its name; without a frame there is none. Safe to call twice."""
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
            os.replace(self._partial, self.path)
        else:
            self._partial.unlink(missing_ok=True)

    def _start_encoder(self, height: int, width: int) -> Generator[Any, np.ndarray, None]:
        import imageio_ffmpeg

        fps: Any = self.fps  # annotated as int there, yet taken with two decimals
        encoder = imageio_ffmpeg.write_frames(
            str(self._partial), (width, height), fps=fps, macro_block_size=2, ffmpeg_log_level="error"
        )
        next(encoder)
        return encoder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
