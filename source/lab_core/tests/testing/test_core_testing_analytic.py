"""The analytic cart-pole against its equations of motion."""

from __future__ import annotations

import math

import pytest
import torch

from lab_core.names import UnknownNameError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, Scene, SceneCfg
from lab_core.testing.analytic import AnalyticCartpoleBackend, AnalyticCartpoleCfg


def make(num_envs: int = 2, **actuator) -> tuple[AnalyticCartpoleBackend, Scene]:
    entity = ArticulationCfg(
        asset="analytic", actuators={"all": IdealPDActuatorCfg(joint_names=(".*",), effort_limit=400.0, **actuator)}
    )
    cfg = SceneCfg(entities={"robot": entity})
    physics = AnalyticCartpoleBackend(AnalyticCartpoleCfg(dt=1 / 1000), cfg, num_envs, torch.device("cpu"))
    return physics, Scene(cfg, physics)


def write(scene: Scene, position: list[float], velocity: list[float] | None = None) -> None:
    rows = scene["robot"].data.joint_pos.shape[0]
    velocity = velocity or [0.0, 0.0]
    scene["robot"].write_joint_state(torch.tensor([position] * rows), torch.tensor([velocity] * rows))
    scene.physics.forward()


def test_hanging_pole_swings_at_its_natural_frequency():
    physics, scene = make(stiffness={"slider_to_cart": 1e4}, damping={"slider_to_cart": 100.0})
    write(scene, [0.0, math.pi - 0.01])
    data = scene["robot"].data
    data.joint_pos_target.zero_()
    crossings, previous = [], 0.0
    for i in range(2000):
        physics.step(1)
        offset = float(data.joint_pos[0, 1]) - math.pi
        if previous < 0 <= offset:
            crossings.append(i * physics.dt)
        previous = offset
    # A stiff damped spring holds the cart.
    assert 2 * math.pi / (crossings[0] * 4) == pytest.approx(3.891, rel=0.02)


def test_upright_pole_falls_at_the_unstable_rate():
    physics, scene = make()
    write(scene, [0.0, 1e-4])
    for _ in range(1000):
        physics.step(1)
    # theta = theta0 cosh(rate t); the rate for a free cart is 4.874 rad/s.
    expected = 1e-4 * math.cosh(4.874043 * 1.0)
    assert float(scene["robot"].data.joint_pos[0, 1]) == pytest.approx(expected, rel=0.02)


def test_pole_tip_moves_to_minus_y_for_a_positive_angle():
    _, scene = make()
    write(scene, [0.5, 0.3])
    pose = scene["robot"].data.body_link_pose_w[0, 2]
    half = 0.15
    assert pose[:3].tolist() == pytest.approx([0.12, 0.5, 0.0])
    assert pose[3:].tolist() == pytest.approx([math.sin(half), 0.0, 0.0, math.cos(half)])


def test_one_call_of_two_substeps_equals_two_calls_of_one():
    (a, scene_a), (b, scene_b) = make(), make()
    for scene in (scene_a, scene_b):
        write(scene, [0.1, 0.2], [0.3, 0.4])
        scene["robot"].data.joint_effort_target[:, 0] = 20.0
    a.step(2)
    b.step(1)
    b.step(1)
    assert torch.equal(scene_a["robot"].data.joint_pos, scene_b["robot"].data.joint_pos)
    assert torch.equal(scene_a["robot"].data.joint_vel, scene_b["robot"].data.joint_vel)


def test_non_finite_environment_returns_to_its_default_and_spares_its_neighbour():
    (a, scene_a), (b, scene_b) = make(), make()
    for scene in (scene_a, scene_b):
        write(scene, [0.1, 0.2])
    scene_a["robot"].data.joint_vel[0, 1] = float("nan")
    for physics in (a, b):
        physics.step(2)
    assert a.non_finite.tolist() == [True, False]
    assert scene_a["robot"].data.joint_pos[0].tolist() == [0.0, 0.0]
    assert torch.equal(scene_a["robot"].data.joint_pos[1], scene_b["robot"].data.joint_pos[1])
    assert a.health().non_finite_envs == 1
    assert a.health().ok


def test_state_continues_bit_for_bit():
    a, scene_a = make()
    write(scene_a, [0.1, 0.2], [0.3, -0.4])
    a.step(7)
    b, scene_b = make()
    b.load_state_dict(a.state_dict())
    for physics in (a, b):
        physics.step(50)
    assert torch.equal(scene_a["robot"].data.joint_pos, scene_b["robot"].data.joint_pos)
    assert torch.equal(scene_a["robot"].data.body_com_vel_w, scene_b["robot"].data.body_com_vel_w)


def test_actuator_of_an_unknown_joint_is_named():
    entity = ArticulationCfg(asset="analytic", actuators={"arm": IdealPDActuatorCfg(joint_names=("elbow",))})
    with pytest.raises(UnknownNameError, match="No joint of 'robot' matches 'elbow'.*slider_to_cart, cart_to_pole"):
        AnalyticCartpoleBackend(
            AnalyticCartpoleCfg(dt=0.01), SceneCfg(entities={"robot": entity}), 1, torch.device("cpu")
        )


def test_broken_pattern_is_named():
    _, scene = make()
    with pytest.raises(UnknownNameError, match=r"'\(knee' is no regular expression for a joint of 'robot': missing \)"):
        scene["robot"].find_joints("(knee")


def test_scene_is_a_mapping():
    _, scene = make()
    assert scene.get("arm") is None
    with pytest.raises(KeyError, match="unknown entity 'arm'. Available: robot"):
        scene["arm"]


def test_joint_claimed_by_two_actuators_is_named():
    groups = {"a": IdealPDActuatorCfg(joint_names=(".*",)), "b": IdealPDActuatorCfg(joint_names=("cart_to_pole",))}
    entity = ArticulationCfg(asset="analytic", actuators=groups)
    with pytest.raises(UnknownNameError, match="'cart_to_pole' of 'robot' is in two actuator groups: 'a' and 'b'"):
        AnalyticCartpoleBackend(
            AnalyticCartpoleCfg(dt=0.01), SceneCfg(entities={"robot": entity}), 1, torch.device("cpu")
        )


def test_it_describes_itself_by_its_name():
    assert make()[0].description == "analytic"
