"""Which robots a learned model moves, and how their layouts are read from Newton's models and compared."""

from __future__ import annotations

import json
from dataclasses import replace

import newton
import pytest
import warp as wp

from lab_core.errors import ConfigError
from lab_newton.nerd import RobotLayout

pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
BALL_JOINT = """<mujoco><worldbody><body name="a"><joint name="socket" type="ball"/>
<geom size="0.1"/></body></worldbody></mujoco>"""
HINGE = """<mujoco><worldbody><body name="a"><joint name="elbow" axis="0 1 0"/><geom size="0.1"/>
<body name="b"><joint name="wrist" axis="0 1 0" range="-200 200"/><geom size="0.1"/></body>
</body></worldbody></mujoco>"""


def build(text: str, copies: int = 1, **world) -> newton.Model:
    builder = newton.ModelBuilder(**world)
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    for copy in range(copies):
        builder.add_mjcf(text, xform=wp.transform((float(copy), 0.0, 0.0), wp.quat_identity()))
    worlds = newton.ModelBuilder(**world)
    newton.solvers.SolverMuJoCo.register_custom_attributes(worlds)
    worlds.replicate(builder, 2)
    return worlds.finalize(device="cpu")


def test_a_fixed_robot(cart_pole, cart_pole_layout, device):
    found = RobotLayout.from_model(cart_pole._model, 1.0 / 120.0, ["slider_to_cart"])
    assert found.differences(cart_pole_layout) == []
    assert RobotLayout.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert (cart_pole_layout.num_joints, cart_pole_layout.num_positions, cart_pole_layout.num_velocities) == (2, 2, 2)


def test_a_floating_robot(rover, rover_layout, device):
    found = RobotLayout.from_model(rover._model, 0.005, ["wrist", "shoulder"])
    assert found.differences(replace(rover_layout, continuous=(False, False, False))) == []
    assert found.actuated == ("shoulder", "wrist")
    assert (found.num_joints, found.num_positions, found.num_velocities) == (3, 10, 9)


def test_a_hinge_with_more_than_a_turn_between_its_limits_is_continuous(device):
    found = RobotLayout.from_model(build(HINGE), 0.005)
    assert found.continuous == (True, True)
    narrow = RobotLayout.from_model(build(HINGE.replace("-200 200", "-170 170")), 0.005)
    assert narrow.continuous == (True, False)


def test_gravity_is_that_of_the_model(device):
    found = RobotLayout.from_model(build(HINGE, gravity=(0.0, 0.0, -1.62)), 0.005)
    assert found.gravity == pytest.approx((0.0, 0.0, -1.62))


@pytest.mark.parametrize(
    "text, copies, message",
    [(BALL_JOINT, 1, "'socket' is of type BALL"), (HINGE, 2, "one articulation per world, here are 2")],
)
def test_other_robots_are_refused_by_name(text, copies, message, device):
    with pytest.raises(ConfigError, match=message):
        RobotLayout.from_model(build(text, copies), 0.005)


def test_unknown_actuated_joints_are_refused_by_name(device):
    with pytest.raises(ConfigError, match="does not have: knee"):
        RobotLayout.from_model(build(HINGE), 0.005, ["elbow", "knee"])


def test_loops_are_refused(device):
    coupled = HINGE.replace("</worldbody>", '</worldbody><equality><joint joint1="elbow" joint2="wrist"/></equality>')
    with pytest.raises(ConfigError, match="moves each joint of a tree by itself"):
        RobotLayout.from_model(build(coupled), 0.005)


def test_differences_name_fields_and_pass_over_rounding(rover_layout, device):
    assert rover_layout.differences(replace(rover_layout, dt=0.005 * (1.0 + 1e-7))) == []
    other = replace(rover_layout, dt=0.005 * (1.0 + 1e-5), actuated=("wrist",))
    assert [text.partition(":")[0] for text in rover_layout.differences(other)] == ["actuated", "dt"]
