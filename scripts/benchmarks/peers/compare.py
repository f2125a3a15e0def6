"""Runs lab and a peer one after the other, each in a process of its own, and puts their results side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRONTENDS = ("warp", "torch")
_LAB = "import sys; from lab_core.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class PeerArgs:
    """What to time, and where the peer is installed."""

    peer_path: Path | None = None
    """Folder with the peer's packages, if they are not installed in the environment of PEER_PYTHON."""
    peer_python: str = sys.executable
    """Python that runs the peer."""
    device: str = "cuda:0"
    num_envs: int = 4096
    steps: int = 200
    action_std: float = 0.5


def time_lab(task: str, frontend: str, args: PeerArgs) -> dict[str, Any]:
    """Returns the result of ``lab bench``, which refuses to time what is not valid."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        options = {
            "--frontend": frontend,
            "--device": args.device,
            "--num-envs": args.num_envs,
            "--steps": args.steps,
            "--action-std": args.action_std,
            "--json": path,
        }
        words = [str(word) for pair in options.items() for word in pair]
        _run([sys.executable, "-c", _LAB, "bench", task, *words], os.environ)
        return json.loads(path.read_text())


def time_peer(script: str, settings: dict[str, Any], args: PeerArgs) -> dict[str, Any]:
    """Returns what a script beside this one writes, run with the peer's packages before all others."""
    environment = dict(os.environ)
    if args.peer_path is not None:
        paths = [str(args.peer_path.resolve()), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    settings = settings | {
        "device": args.device,
        "num_envs": args.num_envs,
        "steps": args.steps,
        "action_std": args.action_std,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [args.peer_python, str(Path(__file__).with_name(script)), json.dumps(settings), str(path)]
        _run(command, environment)
        return json.loads(path.read_text())


def side_by_side(lab: dict[str, dict[str, Any]], peer: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns both results and how many times as many environment steps per second lab makes, by the same keys."""
    ratios = {key: round(lab[key]["env_steps_per_s"] / peer[key]["env_steps_per_s"], 2) for key in lab if key in peer}
    return {"ratios": ratios, "lab": lab, "peer": peer}


def _run(command: list[str], environment: Any) -> None:
    finished = subprocess.run(command, env=environment, stdout=sys.stderr)  # the result alone goes to our output
    if finished.returncode:
        raise SystemExit(f"{Path(command[1]).name} failed with exit code {finished.returncode}; see above.")
