"""The format of motions, their curves, the library, and the motions that are made by rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from lab_core.cli import main
from lab_tasks.motions import (
    DEMO_CLIPS,
    MotionClip,
    MotionError,
    MotionLibrary,
    demo_clip,
    g1_model,
    load_clip,
    mirror,
    resample,
    save_clip,
    velocities,
)

ROBOT = g1_model()


def sine_clip(fps: float, frequency: float = 1.0, frames: int = 121, name: str = "sine") -> MotionClip:
    """One joint and the root's yaw follow a sine, the root moves forward."""
    times = np.arange(frames) / fps
    wave = np.sin(2.0 * np.pi * frequency * times)
    return MotionClip(
        name=name,
        fps=fps,
        joint_names=("hip", "knee"),
        root_pos=np.stack((times, wave, np.ones(frames)), axis=1),
        root_quat=Rotation.from_euler("z", wave[:, None]).as_quat(),
        joint_pos=np.stack((wave, -wave), axis=1),
    )


def changed(**fields: object) -> MotionClip:
    return sine_clip(50.0).changed("changed", **fields)


def test_a_clip_survives_its_file(tmp_path: Path) -> None:
    clip = sine_clip(30.0).changed("made", source="here", licence="none", source_sha256="ab")
    save_clip(clip, tmp_path / "clip.npz")
    loaded = load_clip(tmp_path / "clip.npz")
    assert vars(loaded).keys() == vars(clip).keys()
    for key, value in vars(clip).items():
        np.testing.assert_array_equal(getattr(loaded, key), value, err_msg=key)
    assert loaded.sha256 == clip.sha256 != clip.changed("rate", fps=31.0).sha256


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"joint_pos": np.zeros((121, 3))}, "joint_pos must have the shape"),
        ({"joint_pos": np.full((121, 2), np.nan)}, "joint_pos holds nan in frame 0, column 0"),
        ({"joint_pos": np.full((121, 2), "a")}, "joint_pos must hold numbers"),
        ({"root_quat": np.full((121, 4), 0.6)}, "first in frame 0 with norm 1.2000"),
        ({"joint_names": ("hip", "hip")}, "names joints twice: hip"),
        ({"fps": 0.0}, "fps must be positive"),
    ],
)
def test_what_no_clip_may_hold_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(MotionError, match=message):
        changed(**fields)


def test_files_that_are_no_clips_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clip.npz"
    np.savez(path, joint_pos=np.zeros(3))
    with pytest.raises(MotionError, match="not a motion in our own format"):
        load_clip(path)
    np.savez(path, joint_pos=np.array([object()]))
    with pytest.raises(MotionError, match="Cannot read"):
        load_clip(path)
    path.write_bytes(b"nothing")
    with pytest.raises(MotionError, match="Cannot read"):
        load_clip(path)


def test_joints_are_found_by_name() -> None:
    clip = sine_clip(50.0)
    swapped = clip.with_joints(("knee", "hip"))
    np.testing.assert_array_equal(swapped.joint_pos, clip.joint_pos[:, ::-1])
    with pytest.raises(MotionError, match="lacks the joints: ankle; the robot has no joints: hip"):
        clip.with_joints(("ankle", "knee"))


def test_signs_of_quaternions_do_not_matter() -> None:
    clip = sine_clip(30.0)
    signs = np.where(np.random.default_rng(0).random(len(clip)) < 0.5, -1.0, 1.0)[:, None]
    flipped = clip.changed("", root_quat=clip.root_quat * signs)
    np.testing.assert_array_equal(velocities(flipped).root_ang, velocities(clip).root_ang)


@pytest.mark.parametrize("frequency", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("fps", [25.0, 30.0, 60.0, 100.0, 120.0])
def test_resampled_sines_stay_sines(fps: float, frequency: float) -> None:
    clip = sine_clip(fps, frequency, frames=int(4 * fps) + 1)
    new = resample(clip, 50.0)
    assert abs(new.duration - clip.duration) <= 0.5 / 50.0 + 1e-9
    inner = slice(15, -15)  # a spline knows less at its ends
    times = np.arange(len(new)) / 50.0
    angle = 2.0 * np.pi * frequency * times
    speed = 2.0 * np.pi * frequency * np.cos(angle)

    def rms(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean(values[inner] ** 2)))

    worst = 5e-4 if fps > 30.0 or frequency < 3.0 else 1e-3  # ten samples per period and fewer
    assert rms(new.joint_pos[:, 0] - np.sin(angle)) <= worst * rms(np.sin(angle))
    rates = velocities(new)
    assert rms(rates.joint[:, 0] - speed) <= 5e-3 * rms(speed)
    assert rms(rates.root_ang[:, 2] - speed) <= 5e-3 * rms(speed)
    assert rms(rates.root_lin[:, 1] - speed) <= 5e-3 * rms(speed)


def test_angular_velocities_are_of_the_world() -> None:
    times = np.arange(101) / 50.0
    # about the world's z while lying on the side: in the body that is another axis
    quat = (Rotation.from_euler("z", 2.0 * times[:, None]) * Rotation.from_euler("x", np.pi / 2)).as_quat()
    rates = velocities(sine_clip(50.0, frames=101).changed("", root_quat=quat))
    np.testing.assert_allclose(rates.root_ang, np.tile((0.0, 0.0, 2.0), (101, 1)), atol=1e-6)


def test_velocities_lead_from_pose_to_pose() -> None:
    clip = demo_clip("slow_walk", ROBOT)
    rates = velocities(clip)
    mean = 0.5 * (rates.root_lin[1:] + rates.root_lin[:-1]) / clip.fps
    reached = clip.root_pos[0] + np.concatenate((np.zeros((1, 3)), np.cumsum(mean, axis=0)))
    np.testing.assert_allclose(reached, clip.root_pos, atol=1e-3)
    turned = clip.changed("", root_quat=sine_clip(50.0, 0.5, frames=len(clip)).root_quat)
    rates = velocities(turned)
    steps = Rotation.from_rotvec(0.5 * (rates.root_ang[1:] + rates.root_ang[:-1]) / clip.fps)
    reached = Rotation.from_quat(turned.root_quat[0])
    for step in steps:
        reached = step * reached
    away = (Rotation.from_quat(turned.root_quat[-1]) * reached.inv()).magnitude()
    assert np.abs(rates.root_ang).max() > 1.0 and away < 1e-3 * clip.duration


def test_a_library_keeps_clips_apart() -> None:
    first, second = sine_clip(50.0), sine_clip(25.0, frames=51, name="slow")
    library = MotionLibrary([first, second], ("knee", "hip"), 50.0)
    alone = MotionLibrary([second], ("knee", "hip"), 50.0)
    assert library.lengths.tolist() == [121, 101]
    assert library.starts.tolist() == [0, 121]
    clip, frame = torch.tensor([0, 1, 1, 1]), torch.tensor([500, -3, 40, 500])
    assert library.index(clip, frame).tolist() == [120, 121, 161, 221]
    found, expected = library.lookup(clip[1:], frame[1:]), alone.lookup(clip[1:] * 0, frame[1:])
    for key, value in vars(expected).items():
        assert torch.equal(getattr(found, key), value), key
    torch.testing.assert_close(
        library.frames.joint_pos[:121, 1], torch.tensor(first.joint_pos[:, 0], dtype=torch.float32)
    )
    assert library.hashes == {clip.name: clip.sha256 for clip in library.clips}


def test_a_library_refuses_clips_that_do_not_fit() -> None:
    with pytest.raises(MotionError, match="at least one clip"):
        MotionLibrary([], ("hip",), 50.0)
    with pytest.raises(MotionError, match="more than one is: sine"):
        MotionLibrary([sine_clip(50.0), sine_clip(30.0)], ("hip", "knee"), 50.0)


def test_twice_mirrored_is_not_mirrored() -> None:
    clip = demo_clip("wave", ROBOT)
    once = mirror(clip)
    twice = mirror(once)
    np.testing.assert_array_equal(twice.joint_pos, clip.joint_pos)
    left, right = (clip.joint_names.index(f"{side}_elbow_joint") for side in ("left", "right"))
    np.testing.assert_array_equal(once.joint_pos[:, left], clip.joint_pos[:, right])
    # bodies are where a mirror shows them, not only joints
    bodies = {ROBOT.model.body(index + 1).name: index for index in range(ROBOT.model.nbody - 1)}
    hand, other = (bodies[f"{side}_wrist_yaw_link"] for side in ("right", "left"))
    seen = ROBOT.body_positions(clip)[:, hand] * (1.0, -1.0, 1.0)
    np.testing.assert_allclose(ROBOT.body_positions(once)[:, other], seen, atol=1e-3)


@pytest.mark.parametrize("name", DEMO_CLIPS)
def test_demo_clips_can_be_followed(name: str) -> None:
    clip = demo_clip(name, ROBOT)
    assert clip.sha256 == demo_clip(name).sha256
    low, high = ROBOT.soft_limits
    assert ((clip.joint_pos >= low) & (clip.joint_pos <= high)).all()
    assert np.abs(velocities(clip).joint).max() < 3.5
    height = ROBOT.sole_corners(clip)[..., 2]
    np.testing.assert_allclose(height.min(axis=(1, 2)), 0.0, atol=1e-4)  # one foot is always on the ground


def test_the_walk_goes_where_it_says() -> None:
    clip = demo_clip("slow_walk", ROBOT)
    assert clip.root_pos[-1, 0] - clip.root_pos[0, 0] == pytest.approx(0.9, abs=2e-3)


def test_unknown_demo_clips_are_refused_with_what_there_is() -> None:
    with pytest.raises(MotionError, match="Did you mean 'squat'"):
        demo_clip("sqat")


def test_the_command_writes_demo_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["motion", "demo", "stand", "wave_mirrored", "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stand.npz", "wave_mirrored.npz"]
    assert load_clip(tmp_path / "stand.npz").sha256 == demo_clip("stand", ROBOT).sha256
    assert "251 frames, 5.00 s" in capsys.readouterr().out
