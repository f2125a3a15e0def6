"""Times Cartpole and Ant in lab and in Isaac Lab 3.0.0 without Isaac Sim, and prints one JSON object.

    python scripts/benchmarks/peer_isaaclab.py --peer-path isaaclab_packages > isaaclab.json

Worlds and actions are the same, decimation and solver settings are each framework's own for the task. Isaac Lab's
Cartpole has our masses; its Ant is the one of Newton's examples, since its own robots lie on a server. By default Isaac
Lab does not compute the last observations of episodes, and we do: both of our timings are in the result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import tyro
from peers.compare import FRONTENDS, PeerArgs, side_by_side, time_lab, time_peer
from step_table import Case

TASKS = {"Cartpole": FRONTENDS, "Ant": FRONTENDS, "Ant-Direct": ("warp",)}
"""Task -> front ends that both frameworks have. Ours are called Lab-<task>, those of the peer Isaac-<task>."""
ROBOTS = {
    "Cartpole": "both: masses and inertias of lab_tasks/robots/cartpole/cartpole.xml",
    "Ant": "lab: lab_tasks/robots/ant/ant.xml; Isaac Lab: ant.usda of Newton's examples",
}
WITHOUT = ", without final observations"


@dataclass
class Args(PeerArgs):
    """What to time, and where the peer is installed."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """Some of Cartpole, Ant and Ant-Direct."""


def main(args: Args) -> None:
    unknown = [task for task in args.tasks if task not in TASKS]
    if unknown:
        raise SystemExit(f"Unknown tasks {', '.join(unknown)}; choose from {', '.join(TASKS)}.")
    cases = {f"{task}, {frontend}": (task, frontend) for task in args.tasks for frontend in TASKS[task]}
    settings = {key: {"task": f"Isaac-{task}", "frontend": frontend} for key, (task, frontend) in cases.items()}
    peer = time_peer("isaaclab_task.py", settings, args)
    lab = time_lab(
        {
            key + suffix: Case(f"Lab-{task}", frontend, args.num_envs, compute_final_obs)
            for key, (task, frontend) in cases.items()
            for suffix, compute_final_obs in (("", True), (WITHOUT, False))
        },
        args,
    )
    peers = peer | {key + WITHOUT: row for key, row in peer.items()}
    print(json.dumps({"robots": ROBOTS} | side_by_side(lab, peers) | {"peer": peer}, indent=2))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
