"""Every twin of a term that returns values, recorded and replayed against its torch term."""

from __future__ import annotations

import pytest
import torch

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg
from lab_warp.testing import TwinCase, check_signature, check_value_twin, twins_in

CUDA = pytest.param(
    "cuda:0",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)
MODULES = (mdp.observations,)

# A choice out of order, so that a twin that ignores it or sorts it fails.
LEGS = SceneEntityCfg("robot", joint_names=("toe", "hip", "knee"), preserve_order=True)
FEET = ("foot", "thigh")
CONTACTS = SceneSensorCfg("contacts", body_names=FEET, preserve_order=True)
WRENCHES = SceneSensorCfg("wrenches", body_names=FEET, preserve_order=True)
RAYS = SceneSensorCfg("rays")
IMU = SceneSensorCfg("imu")
VELOCITY = {"command_name": "velocity"}


def case(ulps: int = 0, **params) -> TwinCase:
    return TwinCase(params=params, ulps=ulps)


CASES: dict[str, list[TwinCase]] = {
    "base_pos_z": [case()],
    "base_lin_vel": [case()],
    "base_ang_vel": [case()],
    "projected_gravity": [case()],
    "root_pos_w": [case()],
    "root_quat_w": [case(), case(make_quat_unique=True)],
    "root_lin_vel_w": [case()],
    "root_ang_vel_w": [case()],
    "joint_pos": [case(), case(asset_cfg=LEGS)],
    "joint_pos_rel": [case(), case(asset_cfg=LEGS)],
    "joint_pos_limit_normalized": [case(), case(asset_cfg=LEGS)],
    "joint_vel": [case(), case(asset_cfg=LEGS)],
    "joint_vel_rel": [case(), case(asset_cfg=LEGS)],
    "joint_effort": [case(), case(asset_cfg=LEGS)],
    "height_scan": [case(sensor_cfg=RAYS), case(sensor_cfg=RAYS, offset=0.1)],
    "body_incoming_wrench": [case(sensor_cfg=WRENCHES)],
    "imu_ang_vel": [case(sensor_cfg=IMU)],
    "imu_lin_acc": [case(sensor_cfg=IMU)],
    "last_action": [case(), case(action_name="joints")],
    "generated_commands": [case(**VELOCITY)],
    "current_time_s": [case()],
    "remaining_time_s": [case()],
}

TWINS = {name: original for module in MODULES for name, original in twins_in(module).items()}


def test_every_term_has_a_twin_and_every_twin_a_case():
    terms = {name for name in mdp.__all__ if getattr(mdp, name).__module__ in {module.__name__ for module in MODULES}}
    assert set(TWINS) == terms
    assert set(CASES) == terms


@pytest.mark.parametrize("name", TWINS)
def test_twin_takes_the_parameters_of_its_term(name):
    check_signature(TWINS[name])


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, c, id=f"{name}-{i}") for name, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_twin_replays_what_its_term_returns(name, case, device):
    check_value_twin(TWINS[name], case, device)
