"""The preflight report, balance and pictures of clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from lab_core.cli import main
from lab_tasks.motions import DEMO_CLIPS, MotionClip, demo_clip, g1_model, preflight, save_clip
from lab_tasks.motions.balance import centres_of_pressure, support_margins
from lab_tasks.motions.quaternion_order import misread_quaternions
from lab_tasks.motions.self_contact import deepest_self_contact
from lab_tasks.motions.stepping import GRAVITY, follow_zmp

ROBOT = g1_model()
STAND = demo_clip("stand", ROBOT)


def problems(clip: MotionClip) -> list[str]:
    return [found.what for found in preflight(clip, ROBOT) if found.problem]


@pytest.mark.parametrize("name", DEMO_CLIPS)
def test_demo_clips_have_no_findings(name: str) -> None:
    clip = demo_clip(name, ROBOT)
    assert [found for found in preflight(clip, ROBOT) if found.problem or found.warning] == []
    margins = support_margins(clip, ROBOT)
    assert np.isfinite(margins).all()
    least = {"slow_walk": 0.013, "step_in_place": 0.016}.get(name.removesuffix("_mirrored"), 0.07)
    assert margins.min() > least


def test_a_standing_robot_presses_below_its_centre_of_mass() -> None:
    turn = Rotation.from_euler("z", 1.0)
    clip = STAND.changed("", root_pos=turn.apply(STAND.root_pos), root_quat=np.tile(turn.as_quat(), (len(STAND), 1)))
    points = centres_of_pressure(clip, ROBOT)
    # the stand's plan: the centre of mass 0.03 m before the feet's origins at x = -0.0014 m
    expected = turn.apply((0.0286, 0.0, 0.0))[:2]
    np.testing.assert_allclose(points, np.tile(expected, (len(points), 1)), atol=1e-4)


def test_the_spline_through_the_pendulum_pushes_where_it_was_planned() -> None:
    zmp = np.stack((np.interp(np.arange(200), (50, 80, 140, 150), (0.0, 0.1, 0.1, -0.1)), np.zeros(200)), axis=1)
    track, times = follow_zmp(zmp, height=0.65, fps=50.0), np.arange(200) / 50.0
    pushed = track - 0.65 / GRAVITY * CubicSpline(times, track)(times, 2)
    np.testing.assert_allclose(pushed[5:-5], zmp[5:-5], atol=1e-4)


def test_broken_clips_have_problems() -> None:
    jump = STAND.root_pos.copy()
    jump[100:, 0] += 0.5
    assert problems(STAND.changed("", root_pos=jump)) == ["highest root speed [m/s]"]
    assert problems(STAND.changed("", root_pos=STAND.root_pos - (0.0, 0.0, 0.05))) == ["sole below the ground [mm]"]
    floating = STAND.changed("", root_pos=STAND.root_pos + (0.0, 0.0, 0.2))
    assert problems(floating) == ["lower sole, 2nd, 50th, 98th percentile [mm]"]
    knee = STAND.joint_names.index("left_knee_joint")
    bent = STAND.joint_pos.copy()
    bent[:, knee] = 3.0
    assert problems(STAND.changed("", joint_pos=bent))[0] == "beyond a joint's limit [rad]"
    spike = STAND.joint_pos.copy()
    spike[100, knee] += 2.0
    assert "highest joint speed [rad/s]" in problems(STAND.changed("", joint_pos=spike))
    turned = STAND.root_quat.copy()
    turned[100:] = Rotation.from_euler("z", 1.0).as_quat()
    assert problems(STAND.changed("", root_quat=turned)) == ["highest root angular speed [rad/s]"]
    short = {key: getattr(STAND, key)[:20] for key in ("root_pos", "root_quat", "joint_pos")}
    assert problems(STAND.changed("", **short)) == ["duration [s]"]


@pytest.mark.parametrize("heading", [0.0, 1.0, 2.0, 2.8, -2.5])
def test_quaternions_in_the_wrong_order_are_a_problem(heading: float) -> None:
    turn = Rotation.from_euler("z", heading)
    quat = (turn * Rotation.from_quat(STAND.root_quat)).as_quat()
    turned = STAND.changed("", root_pos=turn.apply(STAND.root_pos), root_quat=quat)
    assert misread_quaternions(turned, ROBOT) is None
    as_xyzw, as_wxyz = (turned.changed("", root_quat=np.roll(quat, places, axis=1)) for places in (1, -1))
    assert "order of quaternions" in problems(as_xyzw)
    assert misread_quaternions(as_xyzw, ROBOT) == "wxyz read as xyzw"
    # of one that looks along x this makes one that looks backward, which is upright, too
    assert misread_quaternions(as_wxyz, ROBOT) == (None if heading == 0.0 else "xyzw read as wxyz")


def test_a_clip_of_somebody_who_leans_or_lies_is_none_in_the_wrong_order() -> None:
    for axis, angle in (("y", 0.4), ("y", -1.2), ("y", np.pi / 2), ("x", np.pi / 2), ("x", -1.3)):
        lean = np.tile(Rotation.from_euler(axis, angle).as_quat(), (len(STAND), 1))
        lying = STAND.root_pos * (1.0, 1.0, 1.0 if abs(angle) < 1.0 else 0.2)
        assert misread_quaternions(STAND.changed("", root_pos=lying, root_quat=lean), ROBOT) is None


def test_arms_inside_the_body_are_told_with_their_depth() -> None:
    inward = STAND.joint_pos.copy()
    inward[100:, STAND.joint_names.index("left_shoulder_roll_joint")] = -0.4
    contact = deepest_self_contact(STAND.changed("", joint_pos=inward), ROBOT)
    assert contact is not None and contact.frame >= 100 and contact.depth > 0.0
    assert "left" in " ".join(contact.bodies)
    assert "bodies inside each other [mm]" in problems(STAND.changed("", joint_pos=inward))


def test_leaning_too_far_is_a_warning() -> None:
    lean = np.tile(Rotation.from_euler("y", 0.3).as_quat(), (len(STAND), 1))
    margins = support_margins(STAND.changed("", root_quat=lean, root_pos=STAND.root_pos - (0.0, 0.0, 0.02)), ROBOT)
    assert (margins[np.isfinite(margins)] < 0.0).all()


def test_the_commands_check_and_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_clip(STAND, tmp_path / "stand.npz")
    assert main(["motion", "check", str(tmp_path / "stand.npz")]) == 0
    assert "0 problems in 1 clip." in capsys.readouterr().out
    save_clip(STAND.changed("", root_pos=STAND.root_pos - (0.0, 0.0, 0.05)), tmp_path / "deep.npz")
    assert main(["motion", "check", str(tmp_path / "stand.npz"), str(tmp_path / "deep.npz")]) == 1
    assert "1 problem in 2 clips." in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    assert main(["motion", "view", str(tmp_path / "stand.npz"), "--output", str(tmp_path / "stand.svg")]) == 0
    assert (tmp_path / "stand.svg").stat().st_size > 10_000
