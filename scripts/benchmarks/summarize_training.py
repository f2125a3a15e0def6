"""Summarises finished runs of one task, one per seed, as one JSON object.

python scripts/benchmarks/summarize_training.py logs/Lab-Cartpole/*_seed* > training.json
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro


@dataclass
class Args:
    """Run folders of one task."""

    runs: tyro.conf.Positional[list[Path]]
    reward: float = 0.0
    """Threshold of the mean return."""
    length: float = 0.0
    """Threshold of the mean episode length [steps]."""


def main(args: Args) -> None:
    runs = [summary(folder, args) for folder in args.runs]
    tasks = {folder.parent.name for folder in args.runs}
    if len(tasks) != 1:
        raise SystemExit(f"The runs are of several tasks: {', '.join(sorted(tasks))}")
    versions = json.loads((args.runs[0] / "versions.json").read_text())[-1]
    versions.pop("command")  # it names folders of the machine
    result = {
        "task": tasks.pop(),
        **{key: spread([run[key] for run in runs]) for key in ("reward", "episode_length", "env_steps_per_s")},
        "runs": runs,
        "versions": versions,
    }
    print(json.dumps(result, indent=2))


def summary(folder: Path, args: Args) -> dict[str, Any]:
    """Reads one run: its last values, its speed with learning, and where it stood on the way."""
    rows = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    last = rows[-1]
    reached = [
        row for row in rows if (row["reward"] or 0) >= args.reward and (row["episode_length"] or 0) >= args.length
    ]
    terrain = {name: last[name] for name in last if name.startswith("Curriculum/")}
    return {
        "run": folder.name,
        "iterations": last["iteration"],
        "env_steps": last["env_steps"],
        "seconds": last["elapsed_s"],
        "reward": last["reward"],
        "episode_length": last["episode_length"],
        "env_steps_per_s": round(statistics.median(row["Perf/total_fps"] for row in rows)),
        "non_finite_envs": sum(row["Physics/non_finite_envs"] for row in rows),
        "thresholds": {"reward": args.reward, "episode_length": args.length},
        "reached_in_iteration": reached[0]["iteration"] if reached else None,
        "reached_after_s": reached[0]["elapsed_s"] if reached else None,
        "reward_at": {row["iteration"]: row["reward"] for row in rows if row["iteration"] in (50, 100, 150, 300, 1000)},
        **terrain,
    }


def spread(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation over the runs."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 3), "std": round(deviation, 3)}


if __name__ == "__main__":
    main(tyro.cli(Args))
