"""Pictures of recorded values over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lab_core.datasets.errors import DatasetError
from lab_core.datasets.reader import RecordedDataset
from lab_core.errors import LabError

_MOST_PANELS = 24


def plot_key(dataset: RecordedDataset, key: str, episodes: Sequence[int], path: Path) -> None:
    """Draws a key over time: a panel per component, a line per episode.

    Args:
        dataset: The recording.
        key: Full key of a value per step.
        episodes: Indices of the episodes.
        path: Picture to write; the suffix decides the format.

    Raises:
        DatasetError: there is no such key or episode, none is asked for, or there is nothing to draw over time, or more
            components than can be drawn.
        LabError: matplotlib is not installed, or the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise LabError("Plots need matplotlib: pip install 'lab_core[plot]'.") from None
    if not episodes:
        raise DatasetError("No episode to draw; give one or more numbers.")
    values = [dataset.array(index, key) for index in episodes]
    if key in dataset.initial_keys:
        raise DatasetError(f"{key!r} has one value per episode, nothing to draw over time.")
    if len({value.shape[1:] for value in values}) > 1:
        raise DatasetError(f"{key!r} has different shapes in these episodes: {[value.shape[1:] for value in values]}.")
    count = values[0][0].size if len(values[0]) else 0
    if not count:
        raise DatasetError(f"{key!r} of {dataset.where(episodes[0])} holds no numbers: its shape is {values[0].shape}.")
    values = [value.reshape(len(value), count).astype(float) for value in values]
    if count > _MOST_PANELS:
        raise DatasetError(f"{key!r} has {count} components, more than the {_MOST_PANELS} that fit on a picture.")
    names = component_names(dataset, key, count)
    dt = dataset.attributes.get("step_dt")
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(2.0 + 4.0 * columns, 1.0 + 2.4 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True)).flatten()
    for component, axis in enumerate(axes):
        if component >= count:
            axis.set_visible(False)
            continue
        for index, value in zip(episodes, values, strict=True):
            time = np.arange(len(value)) * (dt or 1.0)
            axis.plot(time, value[:, component], linewidth=1.0, label=dataset.names[index])
        axis.set_title(names[component], fontsize=9)
        axis.grid(alpha=0.3)
    for axis in axes[max(0, count - columns) : count]:
        axis.set_xlabel("time [s]" if dt else "step")
    if len(episodes) <= 10:
        axes[0].legend(fontsize=8)
    figure.suptitle(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise LabError(f"Cannot write {path}: {error}.") from error


def component_names(dataset: RecordedDataset, key: str, count: int) -> list[str]:
    """Returns what the components of a key are called: joints, parts of a pose or velocity, or numbers."""
    entity, leaf = key.split("/")[-2:] if "/" in key else ("", key)
    if leaf == "root_pose" and count == 7:
        return ["x [m]", "y [m]", "z [m]", "qx", "qy", "qz", "qw"]
    if leaf == "root_velocity" and count == 6:
        return ["vx [m/s]", "vy [m/s]", "vz [m/s]", "wx [rad/s]", "wy [rad/s]", "wz [rad/s]"]
    for name in (entity, leaf):  # states/articulation/robot/joint_position, applied_effort/robot
        joints = dataset.entity_names(name, "joint_names")
        if joints is not None and len(joints) == count:
            return joints
    return [leaf] if count == 1 else [f"[{index}]" for index in range(count)]
