"""The cart-pole in a learned model, beside the solver that it learned from."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lab_tasks
from lab_core.envs import make_env
from lab_core.errors import LabError
from lab_core.registry import get_task
from lab_newton import MuJoCoSolverCfg
from lab_newton.nerd import load_model

MODEL = Path(lab_tasks.__file__).parent / "cartpole" / "cartpole.nerd"
FRONTENDS = ("torch", "warp")


def rollout(cfg, frontend: str, steps: int, start: torch.Tensor) -> torch.Tensor:
    """Returns joint positions (steps, N, 2) without an action."""
    cfg.scene.num_envs, cfg.terminations, cfg.episode_length_s = len(start), {}, 1000.0
    env = make_env(cfg, "cpu", frontend)
    try:
        state = env.scene.get_state()
        state["articulation"]["robot"]["joint_position"] = start
        state["articulation"]["robot"]["joint_velocity"] = torch.zeros_like(start)
        env.reset_to(state)
        positions = []
        for _ in range(steps):
            env.step(torch.zeros(len(start), 1))
            positions.append(env.scene["robot"].data.joint_pos.clone())
        return torch.stack(positions)
    finally:
        env.close()


def test_the_model_is_small_and_says_what_it_is_of():
    assert MODEL.stat().st_size < 2_000_000
    model, known = load_model(MODEL)
    assert model.layout.joint_names == ("slider_to_cart", "cart_to_pole")
    assert known.extra["updates"] == 30_000 and known.extra["task"] == "Lab-Cartpole-Explore"
    error = next(value for name, value in known.extra["held_out"].items() if name.startswith("nmse["))
    assert error < 3.6e-6


@pytest.mark.slow
@pytest.mark.parametrize("frontend", FRONTENDS)
def test_the_model_moves_as_its_teacher_does(frontend):
    start = torch.stack((torch.linspace(-1.0, 1.0, 16), torch.linspace(-math.pi, math.pi, 17)[:16]), dim=1)
    learned = rollout(get_task("Lab-Cartpole-Learned").make_env_cfg(), frontend, 100, start)
    true = rollout(get_task("Lab-Cartpole").make_env_cfg(), frontend, 100, start)
    cart, pole = (learned - true).abs().mean(dim=(0, 1)).tolist()
    assert cart < 0.0005 and pole < 0.002
    assert (true - true[0]).abs().max() > 1.0, "the poles should have swung"


def test_both_front_ends_move_alike():
    start = torch.tensor([[0.0, 0.5], [0.3, -2.0]])
    torch_end, warp_end = (rollout(get_task("Lab-Cartpole-Learned").make_env_cfg(), f, 20, start) for f in FRONTENDS)
    torch.testing.assert_close(torch_end, warp_end, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda cfg: setattr(cfg.scene.entities["robot"].actuators["cart"], "damping", 12.0), "damping"),
        (lambda cfg: setattr(cfg.physics, "dt", 1 / 100), "dt"),
        (lambda cfg: setattr(cfg.physics, "gravity", (0.0, 0.0, -3.7)), "gravity"),
    ],
    ids=["actuator", "time step", "gravity"],
)
def test_other_physics_is_refused_by_name(change, field):
    cfg = get_task("Lab-Cartpole-Learned").make_env_cfg()
    cfg.scene.num_envs = 2
    change(cfg)
    with pytest.raises(LabError, match=field):
        cfg.build("cpu")


def test_exploring_covers_all_angles_and_ends_before_the_rail_does():
    cfg = get_task("Lab-Cartpole-Explore").make_env_cfg()
    cfg.scene.num_envs = 256
    env = cfg.build("cpu")
    assert isinstance(cfg.physics.solver, MuJoCoSolverCfg)
    data = env.scene["robot"].data
    angles = data.joint_pos[:, 1]
    assert all(((angles > low) & (angles < low + 1.0)).any() for low in (-3.1, -1.5, 0.0, 2.0))
    furthest = 0.0
    for _ in range(60):
        env.step(2.0 * torch.rand(256, 1) - 1.0)
        furthest = max(furthest, float(data.joint_pos[:, 0].abs().max()))
    assert 3.0 < furthest < 4.0
    env.close()


def test_settings_of_a_learned_model_are_read_without_loading_newton():
    code = "import sys, lab_tasks.cartpole.cartpole_dynamics_cfg as cfg; cfg.cartpole_learned_env_cfg()"
    loaded = "sys.exit('newton' in sys.modules or 'warp' in sys.modules)"
    subprocess.run([sys.executable, "-c", f"{code}; cfg.cartpole_fit_cfg(); {loaded}"], check=True)
