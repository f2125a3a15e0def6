"""Times flat velocity tracking of our Go2 in lab, with both front ends, and in mjlab, and prints one JSON object.

    python scripts/benchmarks/peer_mjlab.py --peer-path mjlab_packages > mjlab.json

Both step the same MJCF file with the same gains, motor curves, solver settings, buffers, decimation, number of worlds
and actions, one after the other on one device. The tasks around it are each framework's own.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import tyro
from peers.compare import FRONTENDS, PeerArgs, side_by_side, time_lab, time_peer
from step_table import Case

from lab_core.registry import get_task

TASK = "Lab-Velocity-Flat-Go2"
SOLVER = ("solver", "integrator", "cone", "jacobian", "impratio", "iterations", "ls_iterations", "tolerance")
ACTUATOR = ("joint_names", "stiffness", "damping", "effort_limit", "saturation_effort", "velocity_limit")


def settings() -> dict[str, Any]:
    """What mjlab needs to know of our task."""
    cfg = get_task(TASK).make_env_cfg()
    robot, solver = cfg.scene.entities["robot"], cfg.physics.solver
    package, _, path = robot.asset.partition(":")
    return {
        "mjcf": str(files(package) / path),
        "pos": robot.init_state.pos,
        "joint_pos": robot.init_state.joint_pos,
        "soft_joint_pos_limit_factor": robot.soft_joint_pos_limit_factor,
        "actuators": [{name: getattr(group, name) for name in ACTUATOR} for group in robot.actuators.values()],
        "action_scale": cfg.actions["joint_pos"].scale,
        "decimation": cfg.decimation * cfg.physics.substeps,
        "episode_length_s": cfg.episode_length_s,
        "njmax": solver.njmax,
        "nconmax": solver.nconmax,
        "solver": {name: getattr(solver, name) for name in SOLVER}
        | {"timestep": cfg.physics.dt / cfg.physics.substeps, "ccd_iterations": solver.ccd_iterations},
    }


def main(args: PeerArgs) -> None:
    peer = time_peer("mjlab_velocity.py", {"mjlab": settings()}, args)["mjlab"]
    lab = time_lab({frontend: Case(TASK, frontend, args.num_envs) for frontend in FRONTENDS}, args)
    print(json.dumps(side_by_side(lab, dict.fromkeys(FRONTENDS, peer)), indent=2))


if __name__ == "__main__":
    main(tyro.cli(PeerArgs, description=__doc__))
