"""Generated terrain on disk, one file per configuration, seed and version of the code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lab_core.config import config_hash
from lab_core.terrain.config import TerrainGeneratorCfg
from lab_core.terrain.surfaces import HeightField, StepField, Surface
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
    """The terrain in ``path``; None if there is none or the file is damaged. Nothing in the file is run."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    checksum, payload = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    if hashlib.sha256(payload).digest() != checksum:
        return None
    try:
        return _from_bytes(payload)
    except (ValueError, KeyError, TypeError, EOFError):
        return None


def save(terrain: Terrain, path: Path) -> None:
    """Write ``terrain``; another process sees the whole file or none.

    A terrain with a surface of a class of somebody else's is not written: only that class could read it back.
    """
    if any(type(tile) not in _SURFACES.values() for tiles in terrain.tiles for tile in tiles):
        return
    payload = _to_bytes(terrain)
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


_SURFACES: dict[str, type[Surface]] = {cls.__name__: cls for cls in (HeightField, StepField)}
_NUMBERS = ("tile_size", "border_width", "horizontal_scale")
_ARRAYS = ("origins", "difficulties", "types")


def _to_bytes(terrain: Terrain) -> bytes:
    """The terrain as arrays in NumPy's format, one after the other; the first is JSON text with everything else."""
    header = {
        **{name: getattr(terrain, name) for name in _NUMBERS},
        "type_names": terrain.type_names,
        "flat_patches": list(terrain.flat_patches),
        "tiles": [[type(tile).__name__ for tile in tiles] for tiles in terrain.tiles],
    }
    arrays: list[Any] = [np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)]
    arrays += [getattr(terrain, name) for name in _ARRAYS]
    arrays += terrain.flat_patches.values()
    for tile in (tile for tiles in terrain.tiles for tile in tiles):
        arrays += _surface_arrays(tile)
    file = io.BytesIO()
    for array in arrays:
        np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _from_bytes(payload: bytes) -> Terrain:
    file = io.BytesIO(payload)

    def array() -> Any:
        return np.load(file, allow_pickle=False)

    header = json.loads(array().tobytes())
    arrays = {name: array() for name in _ARRAYS}
    flat_patches = {name: array() for name in header["flat_patches"]}
    tiles = [[_read_surface(_SURFACES[kind], array) for kind in kinds] for kinds in header["tiles"]]
    return Terrain(
        tiles=tiles,
        type_names=tuple(header["type_names"]),
        flat_patches=flat_patches,
        **{name: header[name] for name in _NUMBERS},
        **arrays,
    )


def _surface_arrays(surface: Surface) -> list[Any]:
    if isinstance(surface, StepField):
        return [surface.x_edges, surface.y_edges, surface.heights]
    assert isinstance(surface, HeightField)
    return [surface.heights, np.array(surface.spacing)]


def _read_surface(cls: type[Surface], array: Callable[[], Any]) -> Surface:
    if cls is StepField:
        return StepField(array(), array(), array())
    return HeightField(array(), array().item())


def _source_files(cfg: TerrainGeneratorCfg) -> list[Path]:
    own = Path(__file__).parent.glob("*.py")
    modules = (sys.modules[cls.__module__] for sub in cfg.sub_terrains.values() for cls in type(sub).__mro__)
    others = (Path(file) for module in modules if (file := getattr(module, "__file__", None)))
    return sorted({*own, *others})
