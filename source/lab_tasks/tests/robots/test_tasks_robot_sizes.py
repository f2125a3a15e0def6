"""The estimated sizes of the solver's buffers hold for every robot that is dropped, acts at random, and lies there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lab_core.envs import make_env
from lab_core.registry import get_task
from lab_core.scene import ArticulationCfg, ArticulationData, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.robots.ant import ant_cfg
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.cartpole import cartpole_cfg
from lab_tasks.robots.g1 import g1_cfg
from lab_tasks.robots.go2 import go2_cfg

ROBOTS: dict[str, Callable[[], ArticulationCfg]] = {
    "ant": ant_cfg,
    "anymal_c": anymal_c_cfg,
    "cartpole": cartpole_cfg,
    "g1": g1_cfg,
    "go2": go2_cfg,
}
NUM_ENVS = 16


def random_positions(data: ArticulationData, generator: torch.Generator) -> torch.Tensor:
    low, high = (data.joint_pos_limits[..., side].clamp(-2.0, 2.0) for side in (0, 1))
    return low + (high - low) * torch.rand(data.joint_pos.shape, generator=generator)


def drop(backend: NewtonBackend, generator: torch.Generator) -> None:
    """Puts the robots above the ground, anyhow, their joints near the default."""
    data = backend.entities["robot"]
    assert isinstance(data, ArticulationData)
    if not data.fixed_base:
        quat = torch.randn(NUM_ENVS, 4, generator=generator)
        data.root_link_pose_w[:, 2] = 0.7
        data.root_link_pose_w[:, 3:] = quat / quat.norm(dim=-1, keepdim=True)
        data.root_link_vel_w.zero_()
    mean, drawn = data.default_joint_pos, random_positions(data, generator)
    data.joint_pos.copy_(mean + 0.3 * (drawn - mean))
    data.joint_vel.zero_()
    backend.mark_written(torch.ones(NUM_ENVS, dtype=torch.bool))
    backend.forward()


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("robot", ROBOTS)
def test_the_estimated_sizes_hold_for_a_dropped_robot(robot: str, cone):
    scene = SceneCfg(entities={"robot": ROBOTS[robot]()})
    solver = MuJoCoSolverCfg(cone=cone, strict_capacity=True)
    backend = NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, NUM_ENVS, torch.device("cpu"))
    data, generator = backend.entities["robot"], torch.Generator().manual_seed(3)
    assert isinstance(data, ArticulationData)
    for is_limp in (False, True):
        drop(backend, generator)
        for _ in range(40):
            data.joint_pos_target.copy_(data.joint_pos if is_limp else random_positions(data, generator))
            backend.step(5)
            backend.health()  # raises where something was lost
    backend.close()


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_too_small_sizes_are_told_in_the_first_steps(frontend: str):
    cfg = get_task("Lab-Ant").make_env_cfg()
    cfg.scene.num_envs = 2
    cfg.physics.solver.njmax = 1
    env = make_env(cfg, "cpu", frontend)
    with pytest.warns(UserWarning, match=r"overflowed.*raise physics\.solver\.njmax from \d+ to at least \d+"):
        for _ in range(100):
            env.step(torch.rand(2, 8) * 2.0 - 1.0)
    env.close()
