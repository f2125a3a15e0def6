"""Generated terrain on disk, one file per configuration, seed and version of the code."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np

from lab_core.config import config_hash
from lab_core.terrain.config import TerrainGeneratorCfg
from lab_core.terrain.terrain import Terrain

_DIGEST_SIZE = hashlib.sha256().digest_size


def cache_key(cfg: TerrainGeneratorCfg, seed: int) -> str:
    """Key of a terrain: hash of every field, the seed, NumPy's version and the source of all code that takes part."""
    digest = hashlib.sha256(f"{config_hash(cfg)} {seed} {np.__version__}".encode())
    for path in _source_files(cfg):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_path(cfg: TerrainGeneratorCfg, seed: int, cache_dir: Path | None = None) -> Path:
    """File of a terrain in ``cache_dir``, by default ``lab/terrain`` in the user's cache folder."""
    if cache_dir is None:
        cache_dir = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab" / "terrain"
    return cache_dir / f"{cache_key(cfg, seed)}.terrain"


def load(path: Path) -> Terrain | None:
    """The terrain in ``path``; None if there is none or the file is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    # like Python's own bytecode cache, the file is as trusted as the folder of the user in which it lies
    checksum, payload = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return pickle.loads(payload) if hashlib.sha256(payload).digest() == checksum else None


def save(terrain: Terrain, path: Path) -> None:
    """Write ``terrain``; another process sees the whole file or none."""
    payload = pickle.dumps(terrain, protocol=5)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".terrain-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(hashlib.sha256(payload).digest() + payload)
            file.close()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _source_files(cfg: TerrainGeneratorCfg) -> list[Path]:
    own = Path(__file__).parent.glob("*.py")
    modules = (sys.modules[cls.__module__] for sub in cfg.sub_terrains.values() for cls in type(sub).__mro__)
    others = (Path(file) for module in modules if (file := getattr(module, "__file__", None)))
    return sorted({*own, *others})
