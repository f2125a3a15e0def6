"""Forces that a model does not have are left out; those that it has act."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mujoco_warp import DisableBit

from lab_core.scene import ArticulationCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

LEFT_OUT = DisableBit.ACTUATION | DisableBit.SPRING | DisableBit.DAMPER
ASSETS = Path(__file__).parents[1] / "newton_assets"
UNDAMPED = re.sub(r' damping="[\d.]+"', "", (ASSETS / "rover.xml").read_text())
WRIST, HULL, ARM = '<joint name="wrist"', '<geom name="hull"', '<body name="arm"'


@pytest.fixture
def build(tmp_path: Path, make_rover, rover_cfg: ArticulationCfg) -> Callable[[str], NewtonBackend]:
    def build(text: str) -> NewtonBackend:
        asset = tmp_path / "robot.xml"
        asset.write_text(text)
        return make_rover(num_envs=2, entity=replace(rover_cfg, asset=str(asset)))

    return build


def flags(backend: NewtonBackend) -> int:
    return backend.solver.inner.mjw_model.opt.disableflags


def motion(backend: NewtonBackend) -> torch.Tensor:
    """A rover that falls, hits the ground and swings its arm."""
    data, rows = backend.entities["robot"], []
    for step in range(40):
        data.joint_pos_target[:, 0] = (-1.0) ** (step // 10)
        backend.step(2)
        rows.append(torch.cat((data.joint_pos, data.joint_vel, data.root_link_pose_w), dim=1).clone())
    return torch.stack(rows)


def test_a_model_without_passive_forces_moves_the_same_without_their_kernels(build):
    backend = build(UNDAMPED)
    assert flags(backend) & LEFT_OUT == LEFT_OUT
    start = backend.state_dict()
    lean = motion(backend)
    backend.load_state_dict(start)
    backend.solver.inner.mjw_model.opt.disableflags &= ~LEFT_OUT
    backend.capture_context.invalidate()
    full = motion(backend)
    assert lean[:, 0, -5].min() < 0.2, "it fell to the ground"
    assert not torch.equal(lean, full), "the same kernels ran"
    torch.testing.assert_close(lean, full, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize(
    ("here", "there"),
    [
        (WRIST, f'{WRIST} damping="0.05"'),
        (WRIST, f'{WRIST} stiffness="2"'),
        (ARM, f'{ARM} gravcomp="1"'),
    ],
    ids=["damping", "stiffness", "gravcomp"],
)
def test_a_model_with_one_of_them_keeps_them(build, here, there):
    assert here in UNDAMPED
    backend = build(UNDAMPED.replace(here, there))
    assert flags(backend) & LEFT_OUT == 0


@pytest.mark.parametrize("alone", [True, False])
def test_a_free_body_without_joints_keeps_its_implicit_gyroscopic_forces(alone, tmp_path, rover_cfg):
    """Alone, and beside a robot that could do without."""
    asset = tmp_path / "robot.xml"
    asset.write_text(UNDAMPED)
    start = InitialStateCfg(pos=(0.0, 0.0, 2.0))
    entities = {"ball": ArticulationCfg(asset=str(ASSETS / "ball.xml"), init_state=start, actuators={})}
    if not alone:
        entities["robot"] = replace(rover_cfg, asset=str(asset))
    cfg = NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=96, nconmax=32))
    assert flags(NewtonBackend(cfg, SceneCfg(entities=entities), 1, torch.device("cpu"))) & LEFT_OUT == 0


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_damped_joint_slows_down(build):
    """The wrist turns freely in an undamped model."""
    backends = [build(UNDAMPED), build(UNDAMPED.replace(WRIST, f'{WRIST} damping="0.5"'))]
    speeds = []
    for backend in backends:
        data = backend.entities["robot"]
        data.joint_stiffness.zero_()
        data.joint_damping.zero_()
        data.joint_vel[:, 1] = 2.0
        backend.written.fill_(True)
        backend.step(4)
        speeds.append(data.joint_vel[0, 1].item())
    assert abs(speeds[1]) < 0.5 * abs(speeds[0])
