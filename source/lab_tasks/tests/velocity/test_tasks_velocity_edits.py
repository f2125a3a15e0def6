"""A state goes on in an environment with edited settings: its robots are those of the edit, in Newton's model too."""

from __future__ import annotations

import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv, make_env
from lab_core.managers import EventTermCfg
from lab_core.registry import get_task


def make_cfg():
    cfg = get_task("Lab-Velocity-Flat-Go2").make_env_cfg()
    cfg.scene.num_envs = 4
    cfg.events["gains"] = EventTermCfg(
        func=mdp.randomize_actuator_gains,
        mode="reset",
        params={"stiffness_distribution_params": (0.5, 1.5), "operation": "scale"},
    )
    return cfg


def edited_cfg():
    cfg = make_cfg()
    for actuator in cfg.scene.entities["robot"].actuators.values():
        actuator.stiffness, actuator.damping, actuator.effort_limit = 300.0, 5.0, 17.0
    cfg.scene.entities["robot"].init_state.joint_pos[".*_calf_joint"] = -1.2
    cfg.events["physics_material"].params["friction_range"] = (0.3, 0.3)
    cfg.events["add_base_mass"].params["mass_distribution_params"] = (2.0, 2.0)
    return cfg


CONSTANTS = (
    "joint_damping", "joint_effort_limits", "default_joint_pos", "soft_joint_pos_limits", "body_friction", "body_mass"
)  # fmt: skip


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_edited_robots_take_the_place_of_those_in_the_state(frontend: str) -> None:
    actions = torch.zeros(4, 12)
    before: ManagerBasedRLEnv = make_env(make_cfg(), "cpu", frontend)
    for _ in range(3):
        before.step(actions)
    state = before.state_dict()
    fresh: ManagerBasedRLEnv = make_env(edited_cfg(), "cpu", frontend)
    expected = {name: getattr(fresh.scene["robot"].data, name).clone() for name in CONSTANTS}
    friction = wp.to_torch(fresh.physics.model.shape_material_mu).clone()
    mass = wp.to_torch(fresh.physics.model.body_mass).clone()
    fresh.load_state_dict(state)
    data = fresh.scene["robot"].data
    for name in CONSTANTS:
        torch.testing.assert_close(getattr(data, name), expected[name], rtol=0, atol=0, msg=name)
    torch.testing.assert_close(data.joint_pos, before.scene["robot"].data.joint_pos, rtol=0, atol=0)
    torch.testing.assert_close(wp.to_torch(fresh.physics.model.shape_material_mu), friction, rtol=0, atol=0)
    torch.testing.assert_close(wp.to_torch(fresh.physics.model.body_mass), mass, rtol=0, atol=0)
    fresh.step(actions)
    fresh.reset()  # draws the gains anew, about those of the edit
    assert bool(((data.joint_stiffness >= 150.0) & (data.joint_stiffness <= 450.0)).all())
    before.close()
    fresh.close()
