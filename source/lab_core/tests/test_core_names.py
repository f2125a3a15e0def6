"""Choosing by name: whole names, in which order, and one value per name."""

from __future__ import annotations

import pytest

from lab_core.names import UnknownNameError, match_names, values_by_name

LEGS = ("left_hip", "left_knee", "right_hip", "right_knee")


@pytest.mark.parametrize("pattern", ["hip", "left_hi", "eft_hip", "left_hip_roll"])
def test_a_pattern_matches_whole_names(pattern):
    with pytest.raises(UnknownNameError, match=f"No joint matches '{pattern}'. There are: left_hip, left_knee, "):
        match_names(pattern, LEGS, what="joint")


@pytest.mark.parametrize(("preserve_order", "expected"), [(False, [0, 1, 2]), (True, [1, 0, 2])])
def test_the_order_is_that_of_the_names_or_of_the_patterns(preserve_order, expected):
    patterns = ("left_knee", ".*_hip")
    assert match_names(patterns, LEGS, what="joint", preserve_order=preserve_order) == expected


def test_two_patterns_of_one_name_are_refused():
    with pytest.raises(UnknownNameError, match="joint 'left_hip' is matched by both 'left_.*' and '.*_hip'"):
        match_names(("left_.*", ".*_hip"), LEGS, what="joint")


def test_every_name_gets_its_value_and_the_others_the_default():
    assert values_by_name({".*_knee": 2, "left_hip": 3}, LEGS, what="joint", default=1.0) == [3.0, 2.0, 1.0, 2.0]
    assert values_by_name(4, LEGS, what="joint") == [4.0] * 4
