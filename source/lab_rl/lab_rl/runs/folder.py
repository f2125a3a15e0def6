"""The folder of one run, ``<logs>/<task>/<time>[_<name>]/``, and finding runs and checkpoints."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab_core.errors import LabError
from lab_rl.runs.config import load_run_cfg

_CHECKPOINT = re.compile(r"\d+\.pt")
_TIME_FORMAT = "%Y-%m-%d_%H-%M-%S"
_TIME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str | None = None) -> RunFolder:
        """Makes a new folder below ``root``, named by the local time.

        Raises:
            LabError: It cannot be written, or ``name`` cannot be part of a file name.
        """
        if name and not re.fullmatch(r"[\w.+-]+", name):
            raise LabError(f"A run's name may have letters, digits and . _ + -, got {name!r}.")
        title = datetime.datetime.now().strftime(_TIME_FORMAT) + (f"_{name}" if name else "")
        run = cls(_unused(root / title))
        try:
            run.checkpoints.mkdir(parents=True)
            run.videos.mkdir()
        except OSError as error:
            raise LabError(
                f"Cannot write the run folder {run.path}: {error.strerror or error}. Choose another with --logs DIR."
            ) from error
        return run

    def mark_latest(self) -> None:
        """Points the link ``latest`` beside the folder to it, where the file system has links."""
        partial = self.path.with_name(".latest.partial")
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
            partial.symlink_to(self.path.name)
            os.replace(partial, self.path.with_name("latest"))

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def versions(self) -> Path:
        return self.path / "versions.json"

    @property
    def progress(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def curves(self) -> Path:
        return self.path / "curves.png"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        return self.path / "videos"

    def checkpoint(self, iteration: int) -> Path:
        """The file of the networks after ``iteration`` iterations."""
        return self.checkpoints / f"{iteration}.pt"

    def latest_checkpoint(self) -> Path | None:
        """The checkpoint with the highest number, or None."""
        return max(self._numbered_checkpoints(), key=lambda path: int(path.stem), default=None)

    def checkpoints_until(self, last: Path) -> list[Path]:
        """Returns the checkpoints up to ``last``, the oldest first."""
        found = sorted(self._numbered_checkpoints(), key=lambda path: int(path.stem))
        return [path for path in found if int(path.stem) <= int(last.stem)]

    def set_aside_checkpoints(self, after: int) -> list[Path]:
        """Renames checkpoints beyond iteration ``after`` to ``<iteration>.pt.superseded``, so that none is the latest.

        Returns:
            The new paths.

        Raises:
            LabError: They cannot be renamed.
        """
        later = sorted(path for path in self._numbered_checkpoints() if int(path.stem) > after)
        try:
            return [path.replace(path.with_name(f"{path.name}.superseded")) for path in later]
        except OSError as error:
            raise LabError(f"Cannot set aside {later[0]}: {error.strerror or error}.") from error

    def _numbered_checkpoints(self) -> list[Path]:
        return [path for path in self.checkpoints.glob("*.pt") if _CHECKPOINT.fullmatch(path.name)]


def latest_run(root: Path, algorithm: str | None = None) -> RunFolder | None:
    """Returns the run below ``root``, of ``algorithm`` if given, that started last and has a checkpoint, or None.

    The name of a folder says when its run started; folders that somebody renamed come after all others.
    """
    if not root.is_dir():
        return None
    folders = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    folders.sort(key=lambda path: (_TIME.match(path.name) is not None, path.name), reverse=True)
    runs = (run for run in map(RunFolder, folders) if run.latest_checkpoint())
    return next((run for run in runs if algorithm is None or _algorithm_of(run) == algorithm), None)


def _algorithm_of(run: RunFolder) -> str:
    return load_run_cfg(run.config).agent.algorithm


def find_checkpoint(path: Path) -> Path:
    """The checkpoint that a user means by ``path``: a checkpoint, or a run folder for its latest one.

    Raises:
        LabError: There is none; the message says what is there.
    """
    if path.is_file():
        return path
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.is_dir())
        raise LabError(f"There is no run or checkpoint {path}. {folder} holds {_content(folder)}.")
    checkpoint = RunFolder(path).latest_checkpoint()
    if checkpoint is None:
        raise LabError(
            f"{path} is not a run with a checkpoint (checkpoints/<iteration>.pt). It holds {_content(path)}."
        )
    return checkpoint


def run_of(checkpoint: Path) -> RunFolder:
    """The run that ``checkpoint`` lies in.

    Raises:
        LabError: It lies elsewhere, so that its configuration is not known.
    """
    run = RunFolder(checkpoint.resolve().parent.parent)
    if not run.config.is_file():
        raise LabError(f"{checkpoint} does not lie in the checkpoints/ of a run: {run.config} is missing.")
    return run


def _content(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "") or "nothing"


_SHOWN = 20


def _unused(path: Path) -> Path:
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}_{number}"), number + 1
    return candidate
