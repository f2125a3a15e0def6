"""Times what a recorder adds to a step, and how quickly episodes reach the disk, and prints one JSON object.

    python scripts/benchmarks/recorder.py --device cuda:0 > recorder.json
    python scripts/benchmarks/recorder.py --task Lab-Cartpole --num-envs 64 --device cpu

Steps without a recorder, with one that only hands its transitions on, and with one that keeps episodes too, are timed
in turn in one process; the recorder has all terms of the task. The writer gets the episodes that a recording handed out
and has finished when all files are complete and synchronised; plain h5py writes the same arrays to the same folder.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import torch
import tyro

from lab_core.datasets import DatasetCfg, DatasetWriter, describe
from lab_core.envs import RLEnv, make_env
from lab_core.recorder import EpisodeBatch, EpisodeCollector, RecorderCfg, RecorderManager, RetentionCfg, task_terms
from lab_core.registry import get_task
from lab_core.rollouts import synchronize
from lab_core.versions import versions


@dataclass
class Args:
    """What to record."""

    task: str = "Lab-Velocity-Flat-AnymalC"
    num_envs: int = 4096
    device: str = "cuda:0"
    frontend: str = "warp"
    steps: int = 50
    """Steps per repetition and mode, timed together."""
    repetitions: int = 20
    warmup: int = 30
    action_std: float = 0.5
    memory_limit_gib: float = 32.0
    """Of the ring."""
    write_rounds: int = 2
    """Times that the episodes of all environments are handed out."""
    write_steps: int = 200
    """Length of the episodes that are written."""
    write_limit_mb: float = 256.0
    """Of what is handed out, so much is written again by the writer and by h5py."""
    write_repetitions: int = 3
    folder: Path | None = None
    """Where to write; None: a temporary folder. Everything that is written is removed again."""


class Stepper:
    """Steps an environment with actions drawn beforehand."""

    def __init__(self, env: RLEnv, std: float) -> None:
        self._env = env
        shape = (64, env.num_envs, gymnasium.spaces.flatdim(env.single_action_space))
        generator = torch.Generator(env.device).manual_seed(0)
        self._actions = std * torch.randn(shape, device=env.device, generator=generator)
        self._made = 0

    def __call__(self, steps: int) -> None:
        for _ in range(steps):
            self._made += 1
            self._env.step(self._actions[self._made % len(self._actions)])

    def timed_ms(self, steps: int) -> float:
        """Returns the mean duration of a step, by the device's own clock."""
        device = self._env.device
        synchronize(device)
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(torch.cuda.current_stream(device))
            self(steps)
            end.record(torch.cuda.current_stream(device))
            synchronize(device)
            return begin.elapsed_time(end) / steps
        start = time.perf_counter()
        self(steps)
        return (time.perf_counter() - start) / steps * 1e3


def main(args: Args) -> None:
    with torch.inference_mode():
        steps = time_modes(args)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            written = time_writing(args, Path(folder))
    found = versions()
    del found["command"]  # it names folders of the machine
    settings = {name: getattr(args, name) for name in ("task", "num_envs", "device", "frontend")}
    print(json.dumps({**settings, "step": steps, "writing": written, "versions": found}, indent=2))
    if steps["overflows"] or written["overflows"]:
        raise SystemExit("Solver buffers overflowed: the timing is not valid.")


def time_modes(args: Args) -> dict[str, Any]:
    """Times steps without recorder, streaming, and with retention, in turn: in equal environments, since one would
    record its step anew whenever the recorder changes."""
    modes: dict[str, RecorderCfg | None] = {"without": None}
    modes["streaming"] = RecorderCfg(retention=None)
    modes["retention"] = RecorderCfg(retention=RetentionCfg(memory_limit_gib=args.memory_limit_gib))
    envs = {mode: build(args, recorder) for mode, recorder in modes.items()}
    steppers = {mode: Stepper(env, args.action_std) for mode, env in envs.items()}
    times = {mode: [] for mode in modes}
    for stepper in steppers.values():
        stepper(args.warmup)
    for _ in range(args.repetitions):
        for mode, stepper in steppers.items():
            times[mode].append(stepper.timed_ms(args.steps))
    health = [env.health() for env in envs.values()]
    recorder = envs["retention"].recorder_manager
    assert isinstance(recorder, RecorderManager) and recorder.retention is not None
    graphs = {mode: launches(env) for mode, env in envs.items()}
    result = {
        "step_ms": {mode: round(statistics.median(values), 4) for mode, values in times.items()},
        "spread_ms": {mode: round(max(values) - min(values), 4) for mode, values in times.items()},
        "capture_ms": difference(times["streaming"], times["without"]),
        "insertion_ms": difference(times["retention"], times["streaming"]),
        "graphs_per_step": {mode: number for mode, (number, _) in graphs.items()},
        "islands": {mode: islands for mode, (_, islands) in graphs.items()},
        "ring": recorder.retention.description,
        "overflows": {name: text for report in health for name, text in report.overflows.items()},
        "non_finite_envs": sum(report.non_finite_envs for report in health),
        "steps": args.steps,
        "repetitions": args.repetitions,
    }
    for env in envs.values():
        env.close()
    return result


def difference(more: Sequence[float], less: Sequence[float]) -> float:
    """Returns the median over repetitions of what one mode takes longer than the other one just before it."""
    return round(statistics.median(a - b for a, b in zip(more, less, strict=True)), 4)


def time_writing(args: Args, folder: Path) -> dict[str, Any]:
    """Records short episodes, once straight to files, then writes what was handed out by the writer and by h5py."""
    env = build(args, episode_steps=args.write_steps)
    stepper, steps = Stepper(env, args.action_std), args.write_rounds * args.write_steps
    retention, dataset = RetentionCfg(memory_limit_gib=args.memory_limit_gib), DatasetCfg(folder=folder / "recording")
    cfg = RecorderCfg(terms=task_terms(env.cfg), retention=retention, dataset=dataset)
    batches = Batches(args.write_limit_mb)
    stepper(args.warmup)
    env.reset()  # the episodes that are written are whole
    recorder = RecorderManager(cfg, env, [batches])
    env.set_recorder(recorder)
    stepping_s = timed(lambda: stepper(steps), env.device)
    closing_s = timed(recorder.close, env.device)
    health = env.health()

    episodes = [episode for batch in batches.taken for episode in batch.views()]
    arrays = [
        {key: value.cpu().numpy() for key, value in (episode.steps | episode.initial).items()} for episode in episodes
    ]
    megabytes = sum(array.nbytes for episode in arrays for array in episode.values()) / 1e6
    recorded = megabytes * batches.steps / sum(len(episode) for episode in episodes)
    provenance = describe(env, args.task)
    writer_s, plain_s = [], []
    for i in range(args.write_repetitions):
        plain_s.append(timed(lambda path=folder / f"plain-{i}.hdf5": write_plainly(path, arrays), env.device))
        dataset = DatasetCfg(folder=folder / f"writer-{i}")
        writer_s.append(timed(lambda dataset=dataset: write(DatasetWriter(dataset, provenance), batches), env.device))
    env.close()
    writer, plain = (megabytes / statistics.median(seconds) for seconds in (writer_s, plain_s))
    return {
        "recorded_megabytes": round(recorded, 2),
        "recording_s": round(stepping_s, 3),
        "closing_s": round(closing_s, 3),
        "recording_mb_per_s": round(recorded / (stepping_s + closing_s), 2),
        "written_megabytes": round(megabytes, 2),
        "written_episodes": len(episodes),
        "writer_mb_per_s": round(writer, 1),
        "h5py_mb_per_s": round(plain, 1),
        "writer_over_h5py": round(writer / plain, 3),
        "overflows": health.overflows,
    }


class Batches(EpisodeCollector):
    """Keeps what a recording hands out, as it is, up to a limit."""

    def __init__(self, limit_mb: float) -> None:
        super().__init__()
        self._room = limit_mb * 1e6
        self.taken: list[EpisodeBatch] = []
        self.steps = 0
        """Also those that were not kept."""

    def write(self, batch: EpisodeBatch) -> None:
        self.steps += sum(info.length for info in batch.infos)
        if self._room > 0.0:
            self.taken.append(batch)
            self._room -= sum(packed.rows.nbytes for packed in (*batch.steps, batch.initial))


def write(writer: DatasetWriter, batches: Batches) -> None:
    for batch in batches.taken:
        writer.write(batch)
    writer.close()


def write_plainly(path: Path, episodes: Sequence[dict[str, np.ndarray]]) -> None:
    """Writes all arrays to one file, as a short program would, and waits until they are on the disk."""
    with h5py.File(path, "w") as file:
        for i, episode in enumerate(episodes):
            group = file.create_group(f"data/demo_{i}")
            for key, array in episode.items():
                group.create_dataset(key, data=array)
    with open(path, "rb") as written:
        os.fsync(written.fileno())


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Returns how long a call takes [s]."""
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def launches(env: RLEnv) -> tuple[int | None, tuple[str, ...]]:
    """Returns graphs per step and what runs between them; None for a front end that records no graphs."""
    report = getattr(env, "capture_report", None)
    if report is None:
        return None, ()
    (step,) = (stage for stage in report() if stage.stage.endswith("._step"))
    return step.num_graphs, step.islands


def build(args: Args, recorder: RecorderCfg | None = None, episode_steps: int | None = None) -> RLEnv:
    """Builds the task with this recorder, which gets all terms of the task."""
    cfg = get_task(args.task).make_env_cfg()
    cfg.scene.num_envs = args.num_envs
    if recorder is not None:
        cfg.recorder = replace(recorder, terms=task_terms(cfg))
    if episode_steps is not None:
        cfg.episode_length_s = episode_steps * cfg.decimation * cfg.physics.dt
    print(f"Building {args.task} with {args.num_envs} environments on {args.device} ...", file=sys.stderr)
    return make_env(cfg, args.device, args.frontend)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
