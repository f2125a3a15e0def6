"""How well constraints are solved in one kernel and by MuJoCo Warp, in the states that robots come into.

Example: python scripts/benchmarks/fused_parity.py --tasks Lab-Ant Lab-Velocity-Flat-Go2 --json parity.json
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco_warp
import numpy as np
import torch
import tyro

from lab_core.envs import make_env
from lab_core.registry import get_task
from lab_core.versions import versions
from lab_newton.solvers import constraint_problems


@dataclass
class Options:
    """What to compare."""

    tasks: tuple[str, ...]
    num_envs: int = 64
    states: int = 5000
    """States of each task and setting."""
    impratios: tuple[float, ...] = (1.0, 100.0)
    cones: tuple[str, ...] = ("pyramidal", "elliptic")
    device: str = "cpu"
    json: Path | None = None


def compare(task: str, cone: str, impratio: float, options: Options) -> dict[str, Any]:
    """Throws robots about by large random actions and pushes, and solves the constraints of each state twice."""
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs, cfg.seed = options.num_envs, 1
    solver = cfg.physics.solver
    solver.cone, solver.impratio, solver.fused = cone, impratio, True
    env = make_env(cfg, options.device, "torch")
    env.reset()
    physics: Any = env.physics
    inner = physics.solver.inner
    m, d = inner.mjw_model, inner.mjw_data
    generator = torch.Generator(options.device).manual_seed(0)
    count: Counter[str] = Counter()
    worst: defaultdict[str, float] = defaultdict(float)
    iterations = np.zeros(2)
    while count["states"] < options.states:
        action = 3.0 * torch.randn(env.action_space.shape or (), device=options.device, generator=generator)
        env.step(action)
        prepare(m, d)
        mujoco_warp.solve(m, d)
        theirs, iterations[1] = d.qacc.numpy().astype(float), iterations[1] + d.solver_niter.numpy().sum()
        inner.fused()
        iterations[0] += d.solver_niter.numpy().sum()
        for world, problem in enumerate(constraint_problems(m, d)):
            count["states"] += 1
            count["most rows"] = max(count["most rows"], len(problem.reference))
            if d.nefc.numpy()[world] > d.njmax:
                count["overflows"] += 1
                continue
            own = d.qacc.numpy()[world].astype(float)
            (cost, gradient), (cost_theirs, gradient_theirs) = map(problem.cost_and_gradient, (own, theirs[world]))
            norm, norm_theirs = float(np.linalg.norm(gradient)), float(np.linalg.norm(gradient_theirs))
            allowed = problem.rounding(own)
            higher = cost - cost_theirs > 2e-7 * np.trace(problem.inertia) + 1e-6 * abs(cost_theirs)
            count["worse"] += bool(higher or norm > max(1.5 * norm_theirs, allowed))
            lower = cost_theirs - cost > 2e-7 * np.trace(problem.inertia) + 1e-6 * abs(cost_theirs)
            count["MuJoCo Warp's worse"] += bool(lower or norm_theirs > max(1.5 * norm, allowed))
            worst["residual over rounding"] = max(worst["residual over rounding"], norm / allowed)
            worst["MuJoCo Warp's"] = max(worst["MuJoCo Warp's"], norm_theirs / allowed)
            size = np.linalg.norm(theirs[world])
            apart = float(np.linalg.norm(own - theirs[world]) / size) if size else 0.0
            worst["accelerations apart"] = max(worst["accelerations apart"], apart)
    env.close()
    mean = iterations / count["states"]
    row: dict[str, Any] = {"task": task, "cone": cone, "impratio": impratio, **count}
    row |= {name: float(f"{value:.3g}") for name, value in worst.items()}
    return row | {"iterations": round(float(mean[0]), 2), "MuJoCo Warp's iterations": round(float(mean[1]), 2)}


def prepare(m: mujoco_warp.Model, d: mujoco_warp.Data) -> None:
    """Everything of a step that comes before the constraints."""
    mujoco_warp.fwd_position(m, d, factorize=False)
    mujoco_warp.fwd_velocity(m, d)
    mujoco_warp.fwd_actuation(m, d)
    mujoco_warp.fwd_acceleration(m, d, factorize=True)


def main() -> None:
    """Compares all tasks and settings, and prints a row of each."""
    options = tyro.cli(Options, description=__doc__)
    rows = []
    for task in options.tasks:
        for cone in options.cones:
            for impratio in options.impratios:
                rows.append(compare(task, cone, impratio, options))
                print(rows[-1], flush=True)
    if options.json is not None:
        result = {"num_envs": options.num_envs, "device": options.device, "rows": rows, "versions": versions()}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
