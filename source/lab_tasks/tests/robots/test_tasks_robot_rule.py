"""Poses of our robots follow from their velocities as models of dynamics take for granted, MuJoCo Warp on a CPU."""

from __future__ import annotations

import pytest
import torch

from lab_core.scene import ArticulationCfg, GroundCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.nerd import Representation, RobotLayout
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.cartpole import cartpole_cfg
from lab_tasks.robots.go2 import go2_cfg


@pytest.mark.parametrize(
    "cfg, dt, solver",
    [
        (cartpole_cfg(), 1.0 / 120.0, MuJoCoSolverCfg(contacts=False)),
        pytest.param(go2_cfg(), 0.005, MuJoCoSolverCfg(njmax=120, nconmax=60, cone="elliptic"), marks=pytest.mark.slow),
        pytest.param(
            anymal_c_cfg(drive="dc_motor"),
            0.005,
            MuJoCoSolverCfg(njmax=400, nconmax=150, cone="elliptic", impratio=100.0),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["cartpole", "go2", "anymal_c"],
)
def test_poses_follow_from_velocities(cfg: ArticulationCfg, dt: float, solver: MuJoCoSolverCfg) -> None:
    scene = SceneCfg(ground=GroundCfg(collision=solver.contacts), entities={"robot": cfg})
    backend = NewtonBackend(NewtonCfg(dt=dt, solver=solver), scene, 4, torch.device("cpu"))
    try:
        layout = RobotLayout.from_model(backend._model, dt)
        representation = Representation(layout)
        data = backend.entities["robot"]
        assert layout.joint_names == data.joint_names
        generator = torch.Generator().manual_seed(0)
        data.joint_vel.normal_(generator=generator)
        if layout.floating:
            data.root_com_vel_w.normal_(generator=generator)
            data.root_link_pose_w[2:, 2] += 1.0  # some fly, the others stumble
        backend.mark_written(torch.ones(4, dtype=torch.bool))
        backend.forward()

        def state() -> tuple[torch.Tensor, torch.Tensor]:
            root = layout.floating
            pose = (data.root_link_pose_w,) * root + (data.joint_pos,)
            return torch.cat(pose, dim=-1), torch.cat((data.root_com_vel_w,) * root + (data.joint_vel,), dim=-1)

        worst = torch.zeros(layout.num_velocities)
        for _ in range(80):
            noise = torch.randn(data.joint_pos.shape, generator=generator)
            data.joint_pos_target.copy_(data.default_joint_pos + 0.3 * noise)
            data.joint_effort_target.copy_(20.0 * noise)
            before, _ = state()
            backend.step(1)
            after, speed = state()
            assert not torch.equal(before, after)
            off = representation.pose_change(after, representation.integrate(before, speed)).abs().amax(dim=0)
            worst = torch.maximum(worst, off)
        assert backend.health().non_finite_envs == 0
        assert worst.max() < 2e-6, dict(zip(representation.pose_names, worst.tolist(), strict=True))
    finally:
        backend.close()
