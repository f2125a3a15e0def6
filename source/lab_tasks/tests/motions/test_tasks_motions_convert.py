"""Converters: each format comes back as the clip that it was written from, and nothing passes for another format."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lab_core.cli import main
from lab_tasks.motions import MotionClip, MotionError, convert_motion, demo_clip, g1_model, load_clip

ROBOT = g1_model()
STEPS = list(range(30, 90))
WXYZ = [3, 0, 1, 2]
# Index in PhysX' order of each joint in that of the model, from the published joint_ids_map of the G1
# fmt: off
BREADTH_FIRST = [
    0,
    3,
    6,
    9,
    13,
    17,
    1,
    4,
    7,
    10,
    14,
    18,
    2,
    5,
    8,
    11,
    15,
    19,
    21,
    23,
    25,
    27,
    12,
    16,
    20,
    22,
    24,
    26,
    28,
]


def turned_walk() -> MotionClip:
    """A second of walking under way, heading to the left."""
    clip = demo_clip("slow_walk", ROBOT)
    turn = Rotation.from_euler("z", 0.7)
    quat = (turn * Rotation.from_euler("xyz", [0.05, 0.1, 0.0]) * Rotation.from_quat(clip.root_quat[STEPS])).as_quat()
    return clip.changed("", root_pos=turn.apply(clip.root_pos[STEPS]), root_quat=quat, joint_pos=clip.joint_pos[STEPS])


CLIP = turned_walk()


def write_lafan1(path: Path, clip: MotionClip = CLIP) -> None:
    np.savetxt(path, np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos)), delimiter=",")


def write_kimodo(path: Path, clip: MotionClip = CLIP) -> None:
    np.savetxt(path, np.hstack((clip.root_pos, clip.root_quat[:, WXYZ], clip.joint_pos)), delimiter=",")


def write_seed(path: Path, clip: MotionClip = CLIP) -> None:
    names = ["Frame", *(f"root_{what}{axis}" for what in ("translate", "rotate") for axis in "XYZ")]
    names += [f"{name}_dof" for name in reversed(clip.joint_names)]
    angles = Rotation.from_quat(clip.root_quat).as_euler("xyz", degrees=True)
    joints = np.rad2deg(clip.joint_pos[:, ::-1])
    table = np.hstack((np.arange(len(clip))[:, None], 100.0 * clip.root_pos, angles, joints))
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="")


def body_rotations(clip: MotionClip) -> np.ndarray:
    quat = np.zeros((len(clip), ROBOT.model.nbody - 1, 4))
    quat[..., 0] = 1.0
    quat[:, 0] = clip.root_quat[:, WXYZ]
    return quat


def write_mjlab(path: Path, clip: MotionClip = CLIP) -> None:
    bodies = ROBOT.body_positions(clip)
    rate = np.array([clip.fps])
    np.savez(path, fps=rate, joint_pos=clip.joint_pos, body_pos_w=bodies, body_quat_w=body_rotations(clip))


def write_beyondmimic(path: Path, clip: MotionClip = CLIP) -> None:
    order = np.argsort(BREADTH_FIRST)
    links = np.concatenate(([0], order + 1))
    bodies, quat = ROBOT.body_positions(clip)[:, links], body_rotations(clip)[:, links]
    np.savez(path, fps=clip.fps, joint_pos=clip.joint_pos[:, order], body_pos_w=bodies, body_quat_w=quat)


def write_gmr(path: Path, clip: MotionClip = CLIP) -> None:
    data = {"fps": clip.fps, "root_pos": clip.root_pos, "root_rot": clip.root_quat, "dof_pos": clip.joint_pos}
    path.write_bytes(pickle.dumps({**data, "local_body_pos": None, "link_body_list": ["pelvis"]}))


WRITERS: dict[str, Callable[..., None]] = {
    "lafan1_csv": write_lafan1,
    "kimodo_csv": write_kimodo,
    "seed_csv": write_seed,
    "beyondmimic_npz": write_beyondmimic,
    "mjlab_npz": write_mjlab,
    "gmr_pkl": write_gmr,
}


@pytest.mark.parametrize("form", WRITERS)
def test_each_format_comes_back(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"walk.{form.rpartition('_')[2]}"
    WRITERS[form](path)
    clip = convert_motion(path, form, ROBOT, input_fps=50.0, ground=False, licence="mine")
    assert (clip.name, clip.fps, clip.licence, len(clip.source_sha256)) == ("walk", 50.0, "mine", 64)
    np.testing.assert_allclose(clip.root_pos, CLIP.root_pos, atol=1e-9)
    np.testing.assert_allclose(clip.root_quat, CLIP.root_quat, atol=1e-9)
    np.testing.assert_allclose(clip.joint_pos, CLIP.joint_pos, atol=1e-9)


@pytest.mark.parametrize("label", WRITERS)
@pytest.mark.parametrize("form", WRITERS)
def test_no_format_passes_for_another(form: str, label: str, tmp_path: Path) -> None:
    if form == label:
        return
    path = tmp_path / "walk.dat.npz"
    WRITERS[form](tmp_path / "walk.dat.npz")
    with pytest.raises(MotionError):
        convert_motion(path, label, ROBOT, input_fps=50.0)


@pytest.mark.parametrize(
    ("form", "label", "heading"),
    [
        *(("lafan1_csv", "kimodo_csv", heading) for heading in (0.0, 0.5, 1.5, 3.1)),
        *(("kimodo_csv", "lafan1_csv", heading) for heading in (0.0, 0.5, 1.5, 2.0, 2.9, -2.7)),
    ],
)
def test_orders_of_quaternions_are_told_apart(
    form: str, label: str, heading: float, tmp_path: Path
) -> None:
    turn = Rotation.from_euler("z", heading)
    quat = (turn * Rotation.from_quat(CLIP.root_quat)).as_quat()
    clip = CLIP.changed("", root_pos=turn.apply(CLIP.root_pos), root_quat=quat)
    WRITERS[form](tmp_path / "clip.csv", clip)
    clip = convert_motion(tmp_path / "clip.csv", form, ROBOT, input_fps=50.0, trust_quaternions=True)
    np.testing.assert_allclose(np.abs(np.sum(clip.root_quat * quat, axis=1)), 1.0)
    with pytest.raises(MotionError, match="uaternions"):
        convert_motion(tmp_path / "clip.csv", label, ROBOT, input_fps=50.0)


def test_robots_that_look_backward_need_a_word(tmp_path: Path) -> None:
    turn = Rotation.from_euler("z", 3.0)
    quat = (turn * Rotation.from_quat(CLIP.root_quat)).as_quat()
    write_kimodo(tmp_path / "clip.csv", CLIP.changed("", root_quat=quat))
    with pytest.raises(MotionError, match="--trust-quaternions"):
        convert_motion(tmp_path / "clip.csv", "kimodo_csv", ROBOT, input_fps=50.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table * np.repeat((100.0, 1.0), (3, 33)), "Are these metres"),
        (lambda table: table * np.repeat((0.01, 1.0), (3, 33)), "lower sole is usually -0.7"),
        (lambda table: table * np.repeat((1.0, 57.3), (7, 29)), "Are these radians"),
        (lambda table: table * np.repeat((1.0, 0.0175), (7, 29)), "Are these degrees"),
        (lambda table: table * np.repeat((1.0, 1.01, 1.0), (3, 4, 29)), "must be of unit length"),
        (lambda table: np.delete(table, range(30, 36), axis=1), "leaves 23 joints; the robot has 29"),
        (lambda table: table[:, [*range(7), *(7 + np.argsort(BREADTH_FIRST))]], "beyond its limits|lower sole"),
        (lambda table: np.where(np.arange(36) == 9, np.nan, table), "joint_pos holds nan in frame 0, column 2"),
        (lambda table: np.where(np.arange(60)[:, None] == 30, table + 2.0 * np.eye(36)[10], table), "Is 50 its rate"),
        (lambda table: table[:1], "at least 2 frames"),
    ],
)
def test_wrong_numbers_are_refused_with_the_reason(
    change: Callable[[np.ndarray], np.ndarray], message: str, tmp_path: Path
) -> None:
    table = np.hstack((CLIP.root_pos, CLIP.root_quat, CLIP.joint_pos))
    np.savetxt(tmp_path / "clip.csv", change(table), delimiter=",")
    with pytest.raises(MotionError, match=message):
        convert_motion(tmp_path / "clip.csv", "lafan1_csv", ROBOT, input_fps=50.0)


def test_a_rate_of_zero_is_refused_and_not_replaced(tmp_path: Path) -> None:
    write_seed(tmp_path / "walk.csv")
    with pytest.raises(MotionError, match="fps must be positive, got 0"):
        convert_motion(tmp_path / "walk.csv", "seed_csv", ROBOT, input_fps=0.0)


def test_rates_are_never_guessed(tmp_path: Path) -> None:
    write_lafan1(tmp_path / "clip.csv")
    with pytest.raises(MotionError, match="--input-fps"):
        convert_motion(tmp_path / "clip.csv", "lafan1_csv", ROBOT)
    write_gmr(tmp_path / "clip.pkl")
    with pytest.raises(MotionError, match="has 50 frames per second, but 30 were told"):
        convert_motion(tmp_path / "clip.pkl", "gmr_pkl", ROBOT, input_fps=30.0)


@pytest.mark.parametrize("text", ["", "1,2\n3\n", "1,2\n3,a\n"])
def test_broken_tables_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "clip.csv").write_text(text)
    with pytest.raises(MotionError, match=r"clip\.csv"):
        convert_motion(tmp_path / "clip.csv", "lafan1_csv", ROBOT, input_fps=50.0)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_pickles_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "clip.pkl").write_bytes(pickle.dumps({"fps": Hostile(tmp_path / "harm")}))
    with pytest.raises(MotionError, match=r"asks for (posix|nt)\.mkdir"):
        convert_motion(tmp_path / "clip.pkl", "gmr_pkl", ROBOT)
    assert not (tmp_path / "harm").exists()
    (tmp_path / "clip.pkl").write_bytes(b"\x80\x04broken")
    with pytest.raises(MotionError, match="as a pickle"):
        convert_motion(tmp_path / "clip.pkl", "gmr_pkl", ROBOT)


def test_clips_are_put_on_the_ground_as_a_whole(tmp_path: Path) -> None:
    write_lafan1(tmp_path / "clip.csv", CLIP.changed("", root_pos=CLIP.root_pos + (0.0, 0.0, 0.1)))
    clip = convert_motion(tmp_path / "clip.csv", "lafan1_csv", ROBOT, input_fps=50.0)
    shift = clip.root_pos - CLIP.root_pos
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-9)
    lowest = ROBOT.sole_corners(clip)[..., 2].min(axis=(1, 2))
    assert np.percentile(lowest, 2.0) == pytest.approx(0.0, abs=1e-9)


def test_the_command_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_kimodo(tmp_path / "clip.csv")
    arguments = ["motion", "convert", str(tmp_path / "clip.csv"), "--output", str(tmp_path)]
    assert main([*arguments, "--format", "kimodo_csv", "--input-fps", "25"]) == 0
    assert len(load_clip(tmp_path / "clip.npz")) == 2 * (len(CLIP) - 1) + 1
    assert "resampled from 25 to 50 Hz" in capsys.readouterr().out
    assert main([*arguments, "--format", "kimodo"]) != 0
    assert "kimodo_csv" in capsys.readouterr().err
