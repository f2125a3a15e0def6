"""What decides how robots move, as plain values, and how two of these differ."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from lab_core.physics import differences, plain
from lab_core.scene import ActuatorCfg, DCMotorActuatorCfg, IdealPDActuatorCfg, actuator_fields


def test_plain_values_survive_json_bit_for_bit():
    found = plain(
        {
            "mass": np.float32(0.1),
            "inertia": torch.eye(2) / 3.0,
            "pair": (1, 2.5),
            "kind": "HINGE",
            "free": np.bool_(True),
            "limit": math.inf,
            "none": None,
            "empty": np.zeros((0, 3), np.float32),
        }
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["mass"] == 0.1 and found["limit"] == "inf" and found["pair"] == [1, 2.5] and found["empty"] == []
    assert found["free"] is True
    assert np.array_equal(np.float32(found["inertia"]), np.eye(2, dtype=np.float32) / np.float32(3.0))


def test_differences_name_the_field_and_both_values():
    before = {"robot": {"arm": {"mass": 1.0, "axis": [0, 0, 1]}}, "materials": {"arm": [{"mu": 0.5}, {"mu": 0.7}]}}
    now = {"robot": {"arm": {"mass": 1.5, "axis": [0, 1, 0]}}, "materials": {"arm": [{"mu": 0.5}, {"mu": 0.8}]}}
    assert differences(before, before) == []
    assert differences(now, before) == [
        "robot.arm.mass: 1.5, was 1.0",
        "robot.arm.axis: [0, 1, 0], was [0, 0, 1]",
        "materials.arm.1.mu: 0.8, was 0.7",
    ]
    assert differences({"timing": {}}, {"timing": {"dt": 1}}) == ["timing.dt: absent, was 1"]
    assert differences({"robot": {"leg": {"mass": 1}}}, {"robot": {}}) == ["robot.leg: present, was absent"]
    shapes = {"materials": {"arm": [{"mu": 0.5}]}}
    assert differences(shapes, before) == ["materials.arm: 1 parts, was 2 parts", "robot: absent, was present"]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1.0, 1.0 + 5e-7, True),
        (1.0, 1.0 + 5e-6, False),
        (1e-12, 0.0, True),
        (1, 1.0, True),
        (True, 1, False),
        (None, 0.0, False),
        ("inf", 1e30, False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-6], True),
        ([1.0], [1.0, 2.0], False),
    ],
)
def test_numbers_are_equal_up_to_rounding(a, b, equal):
    assert (differences({"x": {"y": a}}, {"x": {"y": b}}) == []) is equal
    assert (differences({"x": {"y": b}}, {"x": {"y": a}}) == []) is equal


@dataclass(kw_only=True)
class NetworkCfg(ActuatorCfg):
    network_file: str = "network.pt"


def test_actuators_are_told_by_joint_whatever_their_groups(tmp_path):
    joints = ("hip", "knee", "tail")
    pd = IdealPDActuatorCfg(joint_names=("hip", "knee"), stiffness={"hip": 20.0, "kn.*": 30.0}, damping=1.0)
    found = actuator_fields("robot", {"legs": pd}, joints)
    assert found["knee"] == {
        "kind": "IdealPDActuatorCfg", "effort_limit": math.inf, "min_delay": 0, "max_delay": 0,
        "stiffness": 30.0, "damping": 1.0,
    }  # fmt: skip
    apart = {
        "a": IdealPDActuatorCfg(joint_names=("knee",), stiffness=30.0, damping=1.0),
        "b": IdealPDActuatorCfg(joint_names=("hip",), stiffness=20.0, damping=1.0),
    }
    assert differences(actuator_fields("robot", apart, joints), found) == []
    motor = DCMotorActuatorCfg(
        joint_names=("hip", "knee"), stiffness=pd.stiffness, damping=1.0, saturation_effort=9.0, velocity_limit=8.0
    )
    lines = differences(actuator_fields("robot", {"legs": motor}, joints), found)
    assert lines[0] == "hip.kind: DCMotorActuatorCfg, was IdealPDActuatorCfg"


def test_a_file_counts_by_its_content(tmp_path):
    for name, content in (("one.pt", b"1"), ("same.pt", b"1"), ("two.pt", b"2")):
        (tmp_path / name).write_bytes(content)

    def of(name: str) -> str:
        drive = NetworkCfg(joint_names=("hip",), network_file=name)
        return actuator_fields("robot", {"legs": drive}, ("hip",), lambda file: tmp_path / file)["hip"]["network_file"]

    assert of("one.pt") == of("same.pt") == hashlib.sha256(b"1").hexdigest()
    assert of("two.pt") != of("one.pt")
