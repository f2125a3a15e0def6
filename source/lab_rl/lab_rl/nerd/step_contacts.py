"""Contacts of recorded physics steps, packed into as few places as they need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab_core.datasets import DatasetError, RecordedDataset
from lab_core.recorder import SUBSTEP_CONTACTS
from lab_core.sensors import GEOMETRY_SIZE

COLUMNS = ("contact_geometry", "contact_owner", "contact_valid")
"""What packed contacts are called; their second dimension is as wide as an episode needs."""
_ORIGIN = "initial_conditions/env_origin"


def check_contacts(source: RecordedDataset) -> None:
    """Refuses a recording without contacts, or without the place on the ground that they are of.

    Raises:
        DatasetError: it lacks them; the message says what to do.
    """
    _sensor(source)
    if _ORIGIN not in source.initial_keys:
        raise DatasetError(f"{source.path} lacks {_ORIGIN}: record it again with `lab nerd record`.")


def read_contacts(source: RecordedDataset, index: int, count: int, num_parts: int) -> dict[str, np.ndarray]:
    """Returns the first ``count`` physics steps of an episode by column: those of :data:`COLUMNS`, (count, K, ...);
    ``origin`` (count, 3) of the environment; and ``complete`` (count,), whether all contacts had found a place.

    Args:
        source: A recording that :func:`check_contacts` accepts.
        index: The episode.
        count: Physics steps.
        num_parts: Moving parts of the robot.

    Raises:
        DatasetError: a contact belongs to a part that the robot does not have.
    """
    sensor = _sensor(source)
    tokens = np.asarray(source.array(index, f"{sensor}/tokens"), dtype=np.float32)
    tokens = tokens.reshape(-1, *tokens.shape[2:])[:count]
    excess = np.asarray(source.array(index, f"{sensor}/excess")).reshape(-1)[:count]
    valid = tokens[..., 0] > 0.5
    width = int(valid.sum(axis=1).max(initial=0))
    places = np.argsort(~valid, axis=1, kind="stable")[:, :width]  # contacts first, in their order
    tokens = np.take_along_axis(tokens, places[..., None], axis=1)
    owner = tokens[..., 1]
    if owner.size and owner.max() >= num_parts:
        raise DatasetError(
            f"{source.where(index)}: {sensor} holds contacts of part {int(owner.max())}; the robot has {num_parts} "
            "parts that move, counted from 0."
        )
    origin = np.asarray(source.array(index, _ORIGIN), dtype=np.float32).reshape(3)
    values = (tokens[..., 2 : 2 + GEOMETRY_SIZE].copy(), owner.astype(np.uint8), np.take_along_axis(valid, places, 1))
    return {
        **dict(zip(COLUMNS, values, strict=True)),
        "origin": np.broadcast_to(origin, (count, 3)),
        "complete": excess == 0,
    }


def pad_and_join(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Joins arrays (r, k, ...) to one (R, K, ...), K the greatest k, with zeros in places that are added."""
    width = max(array.shape[1] for array in arrays)
    joined = np.zeros((sum(map(len, arrays)), width, *arrays[0].shape[2:]), dtype=arrays[0].dtype)
    first = 0
    for array in arrays:
        joined[first : first + len(array), : array.shape[1]] = array
        first += len(array)
    return joined


def _sensor(source: RecordedDataset) -> str:
    """Returns the key under which contacts lie. Where several sensors were recorded, they show the same set."""
    for key in sorted(source.step_keys):
        prefix, _, field = key.rpartition("/")
        if field == "tokens" and prefix.startswith(f"{SUBSTEP_CONTACTS}/"):
            return prefix
    raise DatasetError(
        f"{source.path} holds no contacts, and the model is to look at them: record it with a ContactSetCfg among the "
        "sensors of the scene."
    )
