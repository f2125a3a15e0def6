"""Runs lab and a peer on one device and puts their results side by side.

The processes of the peer start together; once each has warmed up, one after the other times its steps while the rest
wait. Those of lab follow in the same way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import step_table
from step_table import Case

from lab_core.versions import versions

FRONTENDS = ("warp", "torch")


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


def time_lab(cases: Mapping[str, Case], args: PeerArgs) -> dict[str, dict[str, Any]]:
    """Returns the result of every case, as of ``lab bench``, which refuses to time what is not valid."""
    table = step_table.Args(device=args.device, steps=args.steps, action_std=args.action_std)
    rows = step_table.time_side_by_side(list(cases.values()), table)
    if failed := [f"{row['task']}, {row['frontend']}: {row['error']}" for row in rows if "error" in row]:
        raise SystemExit("\n".join(failed))
    return dict(zip(cases, rows, strict=True))


def time_peer(script: str, settings: Mapping[str, dict[str, Any]], args: PeerArgs) -> dict[str, dict[str, Any]]:
    """Returns what a script beside this one writes for each of ``settings``, run with the peer's packages before all
    others."""
    environment = dict(os.environ)
    if args.peer_path is not None:
        paths = [str(args.peer_path.resolve()), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    path_of_script = str(Path(__file__).with_name(script))
    common = {name: getattr(args, name) for name in ("device", "num_envs", "steps", "action_std")}
    with tempfile.TemporaryDirectory() as folder:
        files = {key: Path(folder) / f"{number}.json" for number, key in enumerate(settings)}
        processes = {
            key: subprocess.Popen(
                [args.peer_python, path_of_script, json.dumps(settings[key] | common), str(file)],
                env=environment,
                stdout=sys.stderr,  # the result alone goes to our output
            )
            for key, file in files.items()
        }
        try:
            for key, file in files.items():
                while processes[key].poll() is None and not file.with_suffix(".ready").exists():
                    time.sleep(0.1)
            for key, file in files.items():
                file.with_suffix(".go").touch()
                if processes[key].wait():
                    raise SystemExit(f"{script} failed with exit code {processes[key].returncode}; see above.")
        finally:
            for process in processes.values():
                process.kill()
        return {key: json.loads(file.read_text()) for key, file in files.items()}


def side_by_side(lab: dict[str, dict[str, Any]], peer: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns both results and how many times as many environment steps per second lab makes, by the same keys."""
    ratios = {
        key: round(row["env_steps_per_s"] / peer[key]["env_steps_per_s"], 2) for key, row in lab.items() if key in peer
    }
    found = versions()
    found.pop("command")  # it names folders of the machine
    return {"ratios": ratios, "lab": lab, "peer": peer, "versions": found}
