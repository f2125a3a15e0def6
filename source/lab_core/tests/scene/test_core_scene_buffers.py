"""The table of an entity's buffers: one line there reaches all that holds, resets, saves or announces it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lab_core.scene import Articulation, ArticulationCfg, ArticulationData, Buffer, Kind, Notice, Role
from lab_core.state import Stateful

N, JOINTS, BODIES = 4, ("hip", "knee"), ("base", "thigh", "shank")
SOME = torch.tensor([True, False, True, False])


class HotData(ArticulationData):
    """An articulation whose motors have a temperature."""

    motor_temperature = Buffer(
        Role.STATE, "joint", Kind.NUMBER, "K", reset="default_motor_temperature", key="motor_temperature"
    )
    default_motor_temperature = Buffer(Role.DEFAULT, "joint", Kind.NUMBER, "K")
    body_warmth = Buffer(Role.PROPERTY, "body", Kind.MATRIX, "W/K", notice=Notice.BODY_SURFACE)
    draught_w = Buffer(Role.TARGET, "root", Kind.DIRECTION, "1", reset=0.0)


@pytest.fixture
def hot() -> Articulation:
    data = HotData(N, JOINTS, BODIES)
    physics = SimpleNamespace(
        num_envs=N, device=torch.device("cpu"), env_origins=torch.ones(N, 3), mark_written=lambda mask: None
    )
    return Articulation("robot", ArticulationCfg(asset="none", actuators={}), data, physics)


def test_a_line_of_the_table_is_a_tensor_of_its_shape(hot):
    assert HotData.motor_temperature.unit == "K"
    assert hot.data.motor_temperature.shape == (N, 2)
    assert hot.data.body_warmth.shape == (N, 3, 3, 3)
    assert hot.data.draught_w.shape == (N, 3)
    assert hot.data.root_link_pose_w.shape == (N, 7)
    assert (hot.data.root_link_pose_w[:, 6] == 1.0).all()
    assert "motor_temperature" not in ArticulationData.buffers()


def test_a_line_of_the_table_is_among_the_tensors_that_a_backend_saves(hot):
    assert hot.data.tensors().keys() == HotData.buffers().keys()
    assert hot.data.tensors()["body_warmth"] is hot.data.body_warmth


def test_who_holds_an_entity_does_not_save_its_buffers(hot):
    class Term(Stateful):
        def __init__(self) -> None:
            self.data, self.mine = hot.data, torch.zeros(N)

    assert Term().state_dict().keys() == {"mine"}


def test_a_line_of_the_table_is_reset_where_the_mask_says(hot):
    hot.data.default_motor_temperature.fill_(300.0)
    hot.data.motor_temperature.fill_(350.0)
    hot.data.draught_w.fill_(1.0)
    hot.data.write_default_state(torch.ones(N, 3), SOME)
    assert hot.data.motor_temperature[:, 0].tolist() == [300.0, 350.0, 300.0, 350.0]
    assert hot.data.draught_w[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert hot.data.root_link_pose_w[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0], "at the environments' origins"


def test_a_line_of_the_table_is_part_of_states_by_its_key(hot):
    hot.data.motor_temperature.fill_(320.0)
    state = {key: value.clone() for key, value in hot.read_state(is_relative=True).items()}
    assert list(state) == ["root_pose", "root_velocity", "motor_temperature", "joint_position", "joint_velocity"]
    assert (state["root_pose"][:, :3] == -1.0).all()
    state["motor_temperature"].fill_(310.0)
    hot.write_state(state, SOME, is_relative=True)
    assert hot.data.motor_temperature[:, 0].tolist() == [310.0, 320.0, 310.0, 320.0]
    assert (hot.data.root_link_pose_w[:, :3] == 0.0).all()


def test_a_property_of_the_table_can_be_randomised_and_announced(hot):
    assert "body_warmth" in hot.default_properties
    assert HotData.notices()["body_warmth"] is Notice.BODY_SURFACE
    assert "motor_temperature" not in hot.default_properties


def test_a_fixed_base_keeps_its_place_in_a_reset():
    data = ArticulationData(N, JOINTS, BODIES, fixed_base=True)
    data.write_default_state(torch.ones(N, 3), SOME)
    assert (data.root_link_pose_w[:, :3] == 0.0).all()
