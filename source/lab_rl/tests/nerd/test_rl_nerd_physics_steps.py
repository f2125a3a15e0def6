"""Recordings as physics steps: where they join, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core.datasets import DatasetError
from lab_rl.nerd.physics_steps import describe_sources, read_physics_steps

JOINTS = ("slider_to_cart", "cart_to_pole")
COLUMNS = ("q", "qd", "effort", "q_next", "qd_next", "joins", "episode", "regime")


def read(*sources):
    return read_physics_steps(sources, "robot", JOINTS, floating=False)


def test_what_is_recorded_comes_back_bit_for_bit(tmp_path, make_steps, write_recording, assert_same):
    steps = make_steps((6, 2, 8, 4), ("swing", "rest"))
    found = read(write_recording(tmp_path / "a.hdf5", steps))
    assert found.regimes == ("swing", "rest") and found.num_episodes == 4 and len(found) == 20
    for name in COLUMNS:
        assert_same(getattr(found, name), getattr(steps, name), name)


def test_recordings_follow_each_other(tmp_path, make_steps, write_recording):
    first = write_recording(tmp_path / "a.hdf5", make_steps((6, 4), ("swing",)))
    second = write_recording(tmp_path / "b.hdf5", make_steps((4, 2), ("rest", "swing"), seed=1))
    found = read(first, second)
    assert found.regimes == ("swing", "rest") and found.num_episodes == 4
    assert found.episode.unique_consecutive(return_counts=True)[1].tolist() == [6, 4, 4, 2]
    assert found.regime.unique_consecutive(return_counts=True)[1].tolist() == [10, 4, 2]
    assert (~found.joins).nonzero()[:, 0].tolist() == [5, 9, 13, 15]
    described = describe_sources([first, second])
    assert [entry["file"] for entry in described] == ["a.hdf5", "b.hdf5"]
    assert len({entry["sha256"] for entry in described}) == 2 and all(entry["episodes"] == 2 for entry in described)


@settings(max_examples=30)
@given(data=st.data())
def test_a_difference_in_the_last_bit_is_a_break(data, tmp_path_factory, make_steps, write_recording):
    """Between steps of the environment, which begin with a recorded state; its substeps follow each other."""
    lengths = data.draw(st.lists(st.integers(1, 5).map(lambda half: 2 * half), min_size=1, max_size=4))
    steps = make_steps(lengths)
    inside = [row for row in range(1, len(steps)) if row % 2 == 0 and steps.joins[row - 1]]
    broken = data.draw(st.sets(st.sampled_from(inside))) if inside else set()
    for row in broken:
        column = data.draw(st.sampled_from([steps.q, steps.qd]))[row].numpy()
        channel = data.draw(st.integers(0, 1))
        column[channel] = np.nextafter(column[channel], np.float32(data.draw(st.sampled_from([-100.0, 100.0]))))
    found = read(write_recording(tmp_path_factory.mktemp("broken") / "a.hdf5", steps))
    expected = steps.joins.clone()
    expected[[row - 1 for row in broken]] = False
    assert torch.equal(found.joins, expected)


def test_a_step_in_which_the_physics_failed_is_left_out(tmp_path, make_steps, write_recording):
    found = read(write_recording(tmp_path / "a.hdf5", make_steps((6, 2, 4)), failed=(0, 1)))
    assert found.episode.tolist() == [0] * 4 + [1] * 4
    assert (~found.joins).nonzero()[:, 0].tolist() == [3, 7]


def test_selected_episodes_are_numbered_anew(make_steps, assert_same):
    steps = make_steps((3, 2, 4), ("swing", "rest"))
    chosen = steps.select(steps.episode != 0)
    assert chosen.episode.tolist() == [0, 0, 1, 1, 1, 1] and chosen.num_episodes == 2
    assert (
        chosen.joins.tolist() == [True, False, True, True, True, False] and chosen.regime.tolist() == [1] * 2 + [0] * 4
    )
    assert torch.equal(chosen.q, steps.q[3:]) and chosen.regimes == steps.regimes
    for name in COLUMNS:
        assert_same(getattr(chosen.to("cpu"), name), getattr(chosen, name), name)


@pytest.mark.parametrize(
    "key", ["pre_states", "substep_states/articulation/robot/joint_velocity", "substep_efforts/robot"]
)
def test_a_recording_without_a_needed_key_is_refused(tmp_path, make_steps, write_recording, key):
    source = write_recording(tmp_path / "a.hdf5", make_steps((4,)), leave_out=(key,))
    with pytest.raises(DatasetError, match=rf"a\.hdf5 lacks {key}.*lab nerd record"):
        read(source)


def test_a_recording_of_other_joints_is_refused(tmp_path, make_steps, write_recording):
    source = write_recording(tmp_path / "a.hdf5", make_steps((4,)), joints=JOINTS[::-1])
    with pytest.raises(DatasetError, match=r"a\.hdf5 is of the joints \['cart_to_pole', 'slider_to_cart'\]"):
        read(source)


def test_a_recording_of_another_robot_is_refused(tmp_path, make_steps, write_recording):
    source = write_recording(tmp_path / "a.hdf5", make_steps((4,)))
    with pytest.raises(DatasetError, match="holds no entity 'walker'"):
        read_physics_steps([source], "walker", JOINTS, floating=False)


def test_a_recording_without_a_usable_step_is_refused(tmp_path, make_steps, write_recording):
    source = write_recording(tmp_path / "a.hdf5", make_steps((2, 2)), failed=(0, 1))
    with pytest.raises(DatasetError, match=r"a\.hdf5: no step that could be learned from"):
        read(source)
