"""Motions of others, which are no part of the project: the files of Kimodo in the folder of LAB_EXTERNAL_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from lab_core.cli import main
from lab_tasks.motions import MotionError, convert_motion, g1_model, load_clip
from lab_tasks.motions.preflight import preflight

ROBOT = g1_model()
FOLDER = Path(os.environ.get("LAB_EXTERNAL_DATA", "")) / "motions"
NAMES = ("g1_kimodo_walk", "g1_kimodo_wave", "g1_kimodo_dance")
pytestmark = pytest.mark.skipif(
    not all((FOLDER / f"{name}.csv").is_file() for name in NAMES),
    reason="LAB_EXTERNAL_DATA has no motions/g1_kimodo_*.csv: these motions are not part of the project",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_motion_becomes_a_clip_without_problems(name):
    """150 frames at 30 Hz of a robot that looks along x: 5 s, the last frame included."""
    clip = convert_motion(FOLDER / f"{name}.csv", "kimodo_csv", ROBOT, input_fps=30.0)
    assert (clip.fps, len(clip)) == (50.0, 249)
    assert [found.what for found in preflight(clip, ROBOT) if found.problem] == []
    low, high = ROBOT.limits
    assert ((clip.joint_pos >= low - 1e-6) & (clip.joint_pos <= high + 1e-6)).all()
    soles = ROBOT.sole_corners(clip)[..., 2].min(axis=(1, 2))
    assert abs(np.percentile(soles, 2.0)) < 2e-3


@pytest.mark.parametrize("form", ["lafan1_csv", "seed_csv"])
@pytest.mark.parametrize("name", NAMES)
def test_a_motion_is_refused_as_another_format(name, form):
    with pytest.raises(MotionError):
        convert_motion(FOLDER / f"{name}.csv", form, ROBOT, input_fps=30.0)


def test_the_commands_take_them(tmp_path, capsys):
    file, out = FOLDER / f"{NAMES[0]}.csv", tmp_path / f"{NAMES[0]}.npz"
    arguments = ["--format", "kimodo_csv", "--input-fps", "30", "--output", str(tmp_path)]
    assert main(["motion", "convert", str(file), *arguments]) == 0
    assert main(["motion", "check", str(out)]) == 0
    assert load_clip(out).duration == pytest.approx(149 / 30, abs=0.01)
    assert "walk" in capsys.readouterr().out
