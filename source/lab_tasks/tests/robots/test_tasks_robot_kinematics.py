"""Forward kinematics in torch against Newton's, for every kind of robot."""

from __future__ import annotations

import math

import pytest
import torch

from lab_core.kinematics import ForwardKinematics
from lab_core.scene import ArticulationCfg, ArticulationData, SceneCfg
from lab_newton import NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.robots import anymal_c_cfg, cartpole_cfg, go2_cfg
from lab_tasks.robots.g1 import g1_cfg

KEY_BODIES = ("pelvis", "left_ankle_roll_link", "torso_link", "right_wrist_yaw_link")
NUM = 64


def backend_at_random(cfg: ArticulationCfg) -> tuple[NewtonBackend, ArticulationData]:
    backend = NewtonBackend(NewtonCfg(dt=0.005), SceneCfg(entities={"robot": cfg}), NUM, torch.device("cpu"))
    data = backend.entities["robot"]
    generator = torch.Generator().manual_seed(1)
    low, high = data.joint_pos_limits.clamp(-math.pi, math.pi).unbind(dim=-1)
    data.joint_pos.copy_(low + (high - low) * torch.rand(data.joint_pos.shape, generator=generator))
    data.joint_vel.copy_(2.0 * torch.randn(data.joint_vel.shape, generator=generator))
    if not data.fixed_base:
        data.root_link_pose_w.copy_(torch.randn(NUM, 7, generator=generator))
        data.root_link_pose_w[:, 3:] /= data.root_link_pose_w[:, 3:].norm(dim=-1, keepdim=True)
        data.root_com_vel_w.copy_(torch.randn(NUM, 6, generator=generator))
    # Centres of mass that differ from environment to environment, as randomisation leaves them.
    data.body_com_pos_b.add_(0.05 * torch.randn(data.body_com_pos_b.shape, generator=generator))
    backend.notify("robot", "body_com_pos_b")
    backend.mark_written(torch.ones(NUM, dtype=torch.bool))
    backend.forward()
    return backend, data


@pytest.mark.parametrize("cfg", [cartpole_cfg, go2_cfg, anymal_c_cfg, g1_cfg])
def test_bodies_are_where_newton_puts_them(cfg):
    backend, data = backend_at_random(cfg())
    tree = backend.kinematic_tree("robot")
    assert (tree.body_names, tree.joint_names) == (data.body_names, data.joint_names)
    assert tree.free_root != data.fixed_base
    state = data.joint_pos, data.joint_vel, data.root_link_pose_w, data.root_com_vel_w, data.body_com_pos_b
    found = ForwardKinematics(tree).states(*state)
    torch.testing.assert_close(found.pose[..., :3], data.body_link_pose_w[..., :3], atol=1e-5, rtol=0.0)
    same_side = (found.pose[..., 3:] * data.body_link_pose_w[..., 3:]).sum(dim=-1, keepdim=True).sign()
    torch.testing.assert_close(same_side * found.pose[..., 3:], data.body_link_pose_w[..., 3:], atol=1e-5, rtol=0.0)
    # At up to 5 m/s and 11 rad/s Newton's own velocities are off by 8e-5: rounding adds up along the chain of joints.
    torch.testing.assert_close(found.com_vel, data.body_com_vel_w, atol=1e-4, rtol=0.0)
    exact = ForwardKinematics(tree, dtype=torch.float64).states(*(value.double() for value in state))
    torch.testing.assert_close(found.com_vel.double(), exact.com_vel, atol=3e-5, rtol=0.0)
    if tree.body_names[0] == "pelvis":
        few = ForwardKinematics(tree, KEY_BODIES).states(*state)
        torch.testing.assert_close(few.pose, found.pose[:, [tree.body_names.index(name) for name in KEY_BODIES]])
    backend.close()
