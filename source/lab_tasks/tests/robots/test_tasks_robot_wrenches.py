"""Wrenches in the joints of an ANYmal C that follow from recorded motion, beside those that MuJoCo Warp found."""

from __future__ import annotations

import pytest
import torch
import warp as wp
from torch import Tensor

from lab_core.scene import SceneCfg
from lab_core.sensors import ContactSetCfg, JointWrenchCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.nerd import ContactPoints, RobotLayout, RobotProperties, WrenchReconstruction
from lab_tasks.robots import anymal_c_cfg


@pytest.mark.filterwarnings("ignore:ANYmal moves with DC motors")
def test_recorded_motion_gives_the_wrenches_of_the_solver():
    sensors = {
        "wrench": JointWrenchCfg(entity="robot", body_names=(".*",)),
        "contacts": ContactSetCfg(entity="robot"),
    }
    scene = SceneCfg(entities={"robot": anymal_c_cfg()}, sensors=sensors)
    physics = NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=120, nconmax=40))
    backend = NewtonBackend(physics, scene, 2, torch.device("cpu"))
    layout = RobotLayout.from_model(backend._model, backend.dt)
    robot = RobotProperties.from_model(backend._model, backend._entities["robot"])
    data = backend.entities["robot"]
    generator = torch.Generator().manual_seed(0)
    data.joint_pos_target.copy_(data.joint_pos)
    data.root_link_pose_w[1, 2] += 0.3  # one stands, the other is thrown
    data.root_com_vel_w[1] = 2.0 * torch.randn(6, generator=generator)
    data.joint_vel[1] = 2.0 * torch.randn(12, generator=generator)
    backend.mark_written(torch.ones(2, dtype=torch.bool))
    backend.forward()
    frames = [advance(backend) for _ in range(150)]
    q, qd, effort, qd_next, tokens, wrenches = (torch.stack(values, dim=1) for values in zip(*frames, strict=True))
    reconstruct = WrenchReconstruction(layout, robot, friction=0.8)
    found = reconstruct(q, qd, qd_next, effort, ContactPoints.from_tokens(tokens, q[..., :7]))
    assert found.residual.max() < 5e-5
    truth = wrenches[..., list(reconstruct.bodies.parts), :][..., 1:, :]
    errors = torch.cat((found.force, found.torque), dim=-1)[..., 1:, :] - truth
    relative = []
    for world, regime in ((0, slice(10, 60)), (1, slice(10, 150))):
        size, error = (
            x[world, regime].square().unflatten(-1, (2, 3)).sum(-1).mean((0, 1)).sqrt() for x in (truth, errors)
        )
        relative.append((error / size).tolist())
    standing, falling = relative
    assert max(standing) < 0.01, relative
    assert max(falling) < 0.2, relative
    backend.close()


def advance(backend: NewtonBackend) -> tuple[Tensor, ...]:
    def read(array: wp.array | None, *shape: int) -> Tensor:
        assert array is not None
        return wp.to_torch(array).view(backend.num_envs, *shape, -1).clone()

    q, qd = read(backend._state.joint_q), read(backend._state.joint_qd)
    backend.step(1)
    assert backend.solver.observables is not None
    wrenches = read(backend.solver.observables.body_parent_f, 17)
    tokens = backend.sensors["contacts"].tokens.clone()
    return q, qd, read(backend._control.joint_f)[:, 6:], read(backend._state.joint_qd), tokens, wrenches
