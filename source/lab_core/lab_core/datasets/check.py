"""Is a recording whole and consistent?"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator

import h5py
import numpy as np

from lab_core.datasets.episode import EpisodeInfo
from lab_core.datasets.errors import DatasetError
from lab_core.datasets.reader import RecordedDataset, naming, open_hdf5

_UNIT_TOLERANCE = 1e-3


def check_recording(dataset: RecordedDataset, report: Callable[[int], None] = lambda count: None) -> list[str]:
    """Reads everything and returns what is wrong, each with file and episode; an empty list means that all is well.

    Checked are: lengths of all arrays, the totals, finite numbers, unit quaternions, ends only in last steps, equal
    keys and shapes in all episodes, and that no episode is there twice, with equal facts and values.

    Args:
        dataset: The recording.
        report: Told the number of episodes that were checked, after each.
    """
    problems = _wrong_totals(dataset)
    same: defaultdict[bytes, list[EpisodeInfo]] = defaultdict(list)
    layout = dataset.layout(0) if len(dataset) else {}
    initial = set(dataset.initial_keys)
    for index, info in enumerate(dataset.infos):
        where, content = dataset.where(index), hashlib.blake2b(repr(info).encode())
        try:
            found = dataset.layout(index)
            problems += [f"{where}: {text}" for text in _different(layout, found)]
            for key in found:
                rows = 1 if key in initial else info.length
                array = dataset.array(index, key)
                problems += [f"{where}: {text}" for text in _wrong_values(key, array, rows, info.non_finite)]
                content.update(np.ascontiguousarray(array).data)
        except DatasetError as error:
            problems.append(str(error))
        same[content.digest()].append(info)
        report(index + 1)
    for info, *others in same.values():
        if others and info.env_id >= 0:  # other programs do not tell environments apart
            problems.append(
                f"Episode {info.episode_index} of environment {info.env_id} with seed {info.seed} is there "
                f"{1 + len(others)} times."
            )
    return problems


def _wrong_totals(dataset: RecordedDataset) -> list[str]:
    problems: list[str] = []
    for path, infos in dataset.files:
        with naming(path), open_hdf5(path) as file:
            total, steps = int(file["data"].attrs.get("total", -1)), sum(info.length for info in infos)
            if total not in (-1, steps):
                problems.append(f"{path}: states {total} steps, its episodes have {steps}.")
            listed = file.get("lab/episodes")
            if isinstance(listed, h5py.Dataset) and set(json.loads(str(listed.asstr()[()]))) != set(file["data"]):  # pyright: ignore[reportArgumentType]
                problems.append(
                    f"{path}: the list of its episodes does not agree with them; episodes were deleted or added."
                )
    return problems


def _different(expected: dict[str, tuple[tuple[int, ...], str]], found: dict[str, tuple[tuple[int, ...], str]]):
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            yield f"{key!r} is {found.get(key, 'missing')}, in the first episode {expected.get(key, 'missing')}."


def _wrong_values(key: str, array: np.ndarray, rows: int, non_finite: bool) -> Iterator[str]:
    if len(array) != rows:
        yield f"{key!r} has {len(array)} rows instead of {rows}."
    if np.issubdtype(array.dtype, np.floating):
        bad = np.flatnonzero(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))))
        if non_finite:  # the physics of the last step failed
            bad = bad[bad < len(array) - 1]
        if len(bad):
            yield f"{key!r} is not finite in step {bad[0]}."
    if key.endswith(("root_pose", "root_pose_w")) and array.shape[-1] == 7:
        wrong = np.abs(np.linalg.norm(array[..., 3:], axis=-1) - 1.0) > _UNIT_TOLERANCE
        if wrong.any():
            yield f"{key!r} holds no unit quaternion in step {int(wrong.argmax())}."
    if key in ("terminated", "truncated", "dones") and array[:-1].any():
        yield f"{key!r} says that the episode ends in step {int(array.argmax())} of {len(array)}."
