"""Putting recordings together and taking them apart."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import h5py
import numpy as np

from lab_core.datasets.episode import EpisodeInfo
from lab_core.datasets.errors import DatasetError
from lab_core.datasets.provenance import physics_differences
from lab_core.datasets.reader import RecordedDataset, open_hdf5

Report = Callable[[int], None]
"""Told the number of episodes that were copied, after each."""


def merge(sources: Sequence[RecordedDataset], output: Path, report: Report = lambda count: None) -> None:
    """Copies the episodes of recordings into one file, numbered anew in this order; their own facts stay.

    Recordings of one robot with different configurations (say, standing and walking) can be merged; see
    :func:`common_config`.

    Raises:
        DatasetError: they come from other robots, physics or formats, hold other keys, two of them share a file, or
            ``output`` exists.
    """
    _check_compatible(sources)
    picks = [(source, index) for source in sources for index in range(len(source))]
    copy_episodes(picks, output, common_config(sources), report)


def common_config(sources: Sequence[RecordedDataset]) -> str:
    """Returns the configuration of recordings that differ in seed and number of environments alone, which each episode
    tells or does not need: that of the first; empty where they differ in more."""
    first, *others = (_SEED_AND_SIZE.sub("", source.config) for source in sources)
    return sources[0].config if all(other == first for other in others) else ""


_SEED_AND_SIZE = re.compile(r"^(seed|  num_envs): .*\n", re.MULTILINE)


def split(
    source: RecordedDataset,
    fractions: Sequence[float],
    outputs: Sequence[Path],
    seed: int = 0,
    report: Report = lambda count: None,
) -> list[int]:
    """Deals the episodes of a recording out to files, at random, each label by itself.

    Args:
        source: The recording.
        fractions: Share of each file; they sum to 1.
        outputs: The files.
        seed: Of the random order.
        report: See :data:`Report`.

    Returns:
        Number of episodes in each file.

    Raises:
        DatasetError: a file would be empty, exists or cannot be written, or the fractions are impossible. No file is
            left then.
    """
    if not (all(fraction > 0.0 for fraction in fractions) and abs(sum(fractions) - 1.0) <= 1e-6):
        raise DatasetError(f"The fractions must be positive and sum to 1, got {list(fractions)}.")
    generator = np.random.default_rng(seed)
    parts: list[list[int]] = [[] for _ in outputs]
    for label in sorted({info.label for info in source.infos}):
        members = generator.permutation([i for i, info in enumerate(source.infos) if info.label == label])
        cuts = np.rint(np.cumsum(fractions)[:-1] * len(members)).astype(int)
        for part, chosen in zip(parts, np.split(members, cuts), strict=True):
            part += chosen.tolist()
    if empty := [str(path) for path, part in zip(outputs, parts, strict=True) if not part]:
        raise DatasetError(
            f"{len(source)} episodes are too few for these fractions: {', '.join(empty)} would be empty."
        )
    for path in outputs:
        _refuse_existing(path)
    done = 0
    with ExitStack() as undo:
        for path, part in zip(outputs, parts, strict=True):
            picks = [(source, index) for index in sorted(part)]
            copy_episodes(picks, path, source.config, lambda count, before=done: report(before + count))
            undo.callback(path.unlink, missing_ok=True)
            done += len(part)
        undo.pop_all()
    return [len(part) for part in parts]


def copy_episodes(
    picks: Sequence[tuple[RecordedDataset, int]], output: Path, config: str, report: Report = lambda count: None
) -> None:
    """Writes chosen episodes to a new file, which exists when it is complete.

    Raises:
        DatasetError: ``output`` exists or cannot be written, or an episode cannot be read.
    """
    _refuse_existing(output)
    partial = output.with_name(f".{output.name}.partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(partial, "w", libver=("earliest", "v110")) as file:
            _copy(picks, file, config, report)
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, output)
    except DatasetError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise DatasetError(f"Cannot write {output}: {_reason(error)}.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _refuse_existing(output: Path) -> None:
    if output.exists():
        raise DatasetError(f"{output} exists; choose another name.")


def _reason(error: Exception) -> str:
    """What went wrong, in the words of the system where HDF5 quotes its number."""
    if number := re.search(r"errno = (\d+)", str(error)):
        return os.strerror(int(number[1]))
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _copy(picks: Sequence[tuple[RecordedDataset, int]], file: h5py.File, config: str, report: Report) -> None:
    first = picks[0][0]
    data = file.create_group("data", track_order=True)
    infos: dict[str, EpisodeInfo] = {}
    for count, (source, index) in enumerate(picks):
        name = f"demo_{count}"
        try:
            source.copy_episode(index, data, name)
        except (OSError, RuntimeError, ValueError, KeyError) as error:  # of either file
            raise DatasetError(f"Cannot copy {source.where(index)}: {_reason(error)}.") from error
        infos[name] = source.infos[index]
        report(count + 1)
    for name, value in first.attributes.items():
        data.attrs[name] = value
    data.attrs["total"] = sum(info.length for info in infos.values())
    with open_hdf5(first.files[0][0]) as original:
        for name, value in original.attrs.items():
            file.attrs[name] = value
        if "lab" not in original:  # of another program: leave it as it is
            return
    text = h5py.string_dtype()
    file.create_dataset("lab/config", data=config, dtype=text)
    listed = json.dumps({name: dataclasses.asdict(info) for name, info in infos.items()})
    file.create_dataset("lab/episodes", data=listed, dtype=text)
    if not config:
        data.attrs["config_hash"] = ""


def _check_compatible(sources: Sequence[RecordedDataset]) -> None:
    first = sources[0]
    files: set[Path] = set()
    for source in sources:
        for path, _ in source.files:
            if path.resolve() in files:
                raise DatasetError(f"{path} is given twice; its episodes would be there twice, too.")
            files.add(path.resolve())
        if not len(source):
            raise DatasetError(f"{source.path} holds no episodes.")
        try:
            found = physics_differences(source.attributes, first.attributes)
        except DatasetError as error:
            raise DatasetError(f"{source.path}: {error}") from error
        if found:
            raise DatasetError(f"{source.path} does not fit together with {first.path}:\n  " + "\n  ".join(found))
        if first.quaternion_order != source.quaternion_order:
            raise DatasetError(f"{first.path} and {source.path} store quaternions in different orders.")
        mine, other = first.layout(0), source.layout(0)
        if mine != other:
            keys = sorted(key for key in mine.keys() | other.keys() if mine.get(key) != other.get(key))
            raise DatasetError(f"{first.path} and {source.path} hold different keys or shapes: {', '.join(keys)}.")
