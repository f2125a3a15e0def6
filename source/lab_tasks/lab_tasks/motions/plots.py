"""A clip on one picture: the robot as a stick figure at several times, and curves of its root, soles and joints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lab_core.errors import LabError
from lab_tasks.motions.clip import MotionClip, MotionError
from lab_tasks.motions.robot_model import RobotModel
from lab_tasks.motions.splines import velocities

_FIGURES = 10
_GROUPS = ("left leg", "right leg", "waist", "left arm", "right arm")


def plot_clip(clip: MotionClip, robot: RobotModel, path: Path) -> None:
    """Draws a clip to a picture; the suffix of ``path`` decides the format.

    Curves of joints are shares of their range: -1 at the lower limit, 1 at the upper.

    Raises:
        MotionError: the clip is of another robot, or the picture cannot be written.
        LabError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # slow to import
    except ImportError:
        raise LabError("Plots need matplotlib: pip install 'lab_tasks[plot]'.") from None
    clip = clip.with_joints(robot.joint_names)
    figure = Figure(figsize=(14.0, 15.0), layout="constrained")
    rows: Any = figure.subfigures(2, 1, height_ratios=(1.0, 3.0))
    _draw_strip(rows[0], clip, robot)
    axes = rows[1].subplots(4, 2, sharex=True).flatten()
    _draw_root(axes, clip, robot)
    _draw_joints(axes[3:], clip, robot)
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, ncols=2)
    for axis in axes[-2:]:
        axis.set_xlabel("time [s]")
    figure.suptitle(f"{clip.name}: {clip.duration:.2f} s at {clip.fps:g} Hz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=100, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise MotionError(f"Cannot write {path}: {error}.") from error


def _draw_strip(figure: Any, clip: MotionClip, robot: RobotModel) -> None:
    """Draws the links as lines from parent to child, seen from the front and from the right."""
    frames = np.linspace(0, len(clip) - 1, _FIGURES).round().astype(int)
    bodies = robot.body_positions(clip)[frames]
    parents = robot.model.body_parentid[1:] - 1
    for axis, side, view in zip(figure.subplots(2, 1), (1, 0), ("front", "side"), strict=True):
        for place, points in enumerate(bodies):
            across = place + points[:, side] - points[0, side]
            for link in range(1, len(points)):
                ends = [parents[link], link]
                axis.plot(across[ends], points[ends, 2], color="C1" if _is_left(robot, link) else "C0", linewidth=1.5)
        axis.axhline(0.0, color="0.5", linewidth=0.8)
        axis.set_aspect("equal")
        axis.set_xticks(range(_FIGURES), [f"{frame / clip.fps:.2f} s" for frame in frames])
        axis.set_ylabel(view)


def _is_left(robot: RobotModel, link: int) -> bool:
    return robot.model.body(link + 1).name.startswith("left_")


def _draw_root(axes: Any, clip: MotionClip, robot: RobotModel) -> None:
    times = np.arange(len(clip)) / clip.fps
    rates = velocities(clip)
    for column, name in enumerate("xyz"):
        axes[0].plot(times, clip.root_pos[:, column], label=name)
        axes[1].plot(times, rates.root_lin[:, column], label=f"v{name} [m/s]")
        axes[1].plot(times, rates.root_ang[:, column], "--", label=f"w{name} [rad/s]")
    axes[0].set_title("root [m]")
    axes[1].set_title("velocity of the root")
    for foot, corners in zip(robot.feet, np.swapaxes(robot.sole_corners(clip), 0, 1), strict=True):
        axes[2].plot(times, 1e3 * corners[..., 2].min(axis=1), label=foot)
    axes[2].set_title("lowest point of the soles [mm]")


def _draw_joints(axes: Any, clip: MotionClip, robot: RobotModel) -> None:
    times = np.arange(len(clip)) / clip.fps
    low, high = robot.limits
    share = (2.0 * clip.joint_pos - low - high) / (high - low)
    for axis, group in zip(axes, _GROUPS, strict=True):
        for joint, name in enumerate(clip.joint_names):
            if _group(name) == group:
                axis.plot(times, share[:, joint], label=name.removesuffix("_joint"), linewidth=1.0)
        axis.set_ylim(-1.05, 1.05)
        axis.set_title(f"{group} [share of range]")


def _group(joint: str) -> str:
    side = joint.partition("_")[0]
    if side not in ("left", "right"):
        return "waist"
    return f"{side} {'leg' if any(part in joint for part in ('hip', 'knee', 'ankle')) else 'arm'}"
