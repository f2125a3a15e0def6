"""The folder of compiled kernels as a file.

Warp names each folder of its cache by a hash of the kernels' code and options, and each binary in it by the kind of
processor or GPU. What does not fit is never loaded: an unpacked cache can be incomplete or too large, not wrong.
"""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from pathlib import Path

import warp as wp

from lab_core.errors import LabError
from lab_warp.progress import quiet_warp

_UNFINISHED = re.compile(r"_p\d+_t\d+$")
_VERSION = "warp-version"
"""A member that says which version of Warp compiled the others."""


class CacheError(LabError, ValueError):
    """A file of compiled kernels cannot be read or written, or is of another version of Warp."""


def cache_folder() -> Path:
    """Returns the folder in which Warp keeps compiled kernels."""
    with quiet_warp():
        wp.init()
    folder = wp.config.kernel_cache_dir
    assert folder is not None  # since init()
    return Path(folder)


def pack(path: Path) -> int:
    """Writes all compiled kernel modules to ``path``, a gzipped tar file, and returns their number.

    Raises:
        CacheError: there are none, or the file cannot be written.
    """
    modules = _modules(cache_folder())
    if not modules:
        raise CacheError(f"There are no compiled kernels in {cache_folder()}; train once, then pack.")
    partial = path.with_name(f".{path.name}.partial")
    try:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(partial, "w:gz", compresslevel=1) as archive:
            note = Path(folder, _VERSION)
            note.write_text(wp.__version__)
            archive.add(note, arcname=_VERSION)
            for module in modules:
                archive.add(module, arcname=f"kernels/{module.name}")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CacheError(f"Cannot write {path}: {error.strerror or error}.") from error
    return len(modules)


def unpack(path: Path) -> tuple[int, int]:
    """Adds the kernel modules in ``path`` to the cache, each whole or not at all.

    Files that a module of the same name already has stay as they are; those that it lacks, such as the binary for
    another GPU, are added.

    Returns:
        The numbers of modules that were new, and that were there.

    Raises:
        CacheError: the file is no packed cache, of another version of Warp, or cannot be read.
    """
    target = cache_folder()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            with tarfile.open(path, "r:gz") as archive:
                archive.extractall(folder, filter="data")
            _check_version(Path(folder), path)
            modules = _modules(Path(folder, "kernels"))
            new = sum(_take(module, target / module.name) for module in modules)
            return new, len(modules) - new
    except (OSError, tarfile.TarError, EOFError) as error:
        raise CacheError(f"Cannot unpack {path}: {error}.") from error


def _check_version(folder: Path, path: Path) -> None:
    note = folder / _VERSION
    if not note.is_file():
        raise CacheError(f"{path} is no file that `lab cache pack` wrote.")
    if (version := note.read_text()) != wp.__version__:
        raise CacheError(f"{path} was compiled by Warp {version}; this is Warp {wp.__version__}.")


def _take(module: Path, target: Path) -> bool:
    """Moves a module to its place, or the files that are missing there; returns whether there was none."""
    try:
        os.rename(module, target)
        return True
    except OSError:  # it is there, perhaps since another process has just compiled it
        if not target.is_dir():
            raise
    for file in module.iterdir():
        if not (target / file.name).exists():
            os.replace(file, target / file.name)
    return False


def _modules(folder: Path) -> list[Path]:
    """Folders of finished modules: while one is compiled its folder has another name, ending in the process."""
    if not folder.is_dir():
        return []
    finished = (path for path in folder.iterdir() if path.is_dir() and not _UNFINISHED.search(path.name))
    return sorted(path for path in finished if any(path.glob("*.meta")))
