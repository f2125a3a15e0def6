"""A walker that MuJoCo Warp moves, with what it says about forces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
import warp as wp
from torch import Tensor

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSetCfg, JointWrenchCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.nerd import RobotLayout
from lab_newton.nerd.wrenches import RobotProperties

WORLDS = 4


class Teacher(NamedTuple):
    backend: NewtonBackend
    layout: RobotLayout
    robot: RobotProperties


class Motion(NamedTuple):
    """Steps (T, N, ...) and the wrenches (T, N, B, 6) that the solver found, world frame, about centres of mass."""

    q: Tensor
    qd: Tensor
    effort: Tensor
    tokens: Tensor
    qd_next: Tensor
    wrenches: Tensor


@pytest.fixture(scope="session")
def teacher() -> Iterator[Teacher]:
    from pathlib import Path

    asset = Path(__file__).parents[2] / "newton_assets" / "walker.xml"
    hips = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=20.0, damping=0.5, effort_limit=10.0)
    robot = ArticulationCfg(
        asset=str(asset), init_state=InitialStateCfg(pos=(0.0, 0.0, 0.25)), actuators={"hips": hips}
    )
    sensors = {
        "wrench": JointWrenchCfg(entity="robot", body_names=(".*",)),
        "contacts": ContactSetCfg(entity="robot"),
    }
    scene = SceneCfg(entities={"robot": robot}, sensors=sensors)
    physics = NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=96, nconmax=32))
    backend = NewtonBackend(physics, scene, WORLDS, torch.device("cpu"))
    layout = RobotLayout.from_model(backend._model, backend.dt)
    yield Teacher(backend, layout, RobotProperties.from_model(backend._model, backend._entities["robot"]))
    backend.close()


@pytest.fixture(scope="session")
def record(teacher: Teacher) -> Callable[[int], Motion]:
    """Moves walkers from rest on the ground and from thrown states, with targets that jump."""

    def record(steps: int) -> Motion:
        backend = teacher.backend
        data = backend.entities["robot"]
        generator = torch.Generator().manual_seed(0)
        data.root_link_pose_w[2:, 2] += 0.1
        data.root_com_vel_w[2:] = torch.randn(WORLDS - 2, 6, generator=generator)
        data.joint_vel[2:] = torch.randn(WORLDS - 2, 4, generator=generator)
        backend.mark_written(torch.ones(WORLDS, dtype=torch.bool))
        backend.forward()

        def read(array: wp.array | None, *shape: int) -> Tensor:
            assert array is not None
            return wp.to_torch(array).view(WORLDS, *shape, -1).clone()

        frames = []
        for step in range(steps):
            if step % 40 == 0:
                data.joint_pos_target[1::2] = 0.4 * torch.randn(WORLDS // 2, 4, generator=generator)
            before = read(backend._state.joint_q), read(backend._state.joint_qd)
            backend.step(1)
            assert backend.solver.observables is not None
            effort = read(backend._control.joint_f)[:, 6:]
            tokens = backend.sensors["contacts"].tokens.clone()
            found = read(backend.solver.observables.body_parent_f, 5)
            frames.append((*before, effort, tokens, read(backend._state.joint_qd), found))
        return Motion(*(torch.stack(values) for values in zip(*frames, strict=True)))

    return record
