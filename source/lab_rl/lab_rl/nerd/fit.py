"""A fit from its recordings to a model file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from lab_core.config import dump_yaml
from lab_core.datasets import RecordedDataset
from lab_core.errors import ConfigError, LabError
from lab_core.versions import versions
from lab_newton import FitCfg
from lab_newton.nerd import NETWORKS, NeRDModel, check_fingerprint, check_robot, load_model, save_model
from lab_rl.nerd.checkpoint import FitCheckpoint, load_checkpoint, save_checkpoint
from lab_rl.nerd.curves import FitCurves
from lab_rl.nerd.metrics import OneStepError, OneStepEvaluator
from lab_rl.nerd.physics_steps import PhysicsSteps, describe_sources, read_physics_steps
from lab_rl.nerd.teacher import Teacher, find_teacher
from lab_rl.nerd.trainer import Trainer, prepare_model
from lab_rl.processes import Processes
from lab_rl.runs.display import duration
from lab_rl.runs.files import write_file
from lab_rl.runs.folder import RunFolder
from lab_rl.runs.stop_signal import StopSignal

MODEL_FILE = "model.nerd"
_FIXED = ("network", "options", "precision", "holdout", "seed")
"""Settings that a fit goes on with: others make another model, or train on what was held out."""


@dataclass(frozen=True)
class FitResult:
    """How a fit ended."""

    update: int
    interrupted: bool
    error: OneStepError
    seconds: float
    model: Path
    checkpoint: Path

    def summary(self) -> str:
        """Returns how it ended, where its files are, and what to type next, for people."""
        title = "Interrupted" if self.interrupted else "Finished"
        lines = [
            f"{title} after {self.update} updates in {duration(self.seconds)}",
            f"  held out    {self.error.all_channels:.3g} {self.error.name}, velocity {self.error.velocity:.3g}",
            f"  model       {self.model}",
            f"  checkpoint  {self.checkpoint}",
            "Next:",
        ]
        if self.interrupted:
            return "\n".join([*lines, f"  lab nerd fit --resume {self.model.parent} RECORDING ..."])
        return "\n".join([*lines, f"  lab nerd eval {self.model.parent}"])


@dataclass(frozen=True)
class FitData:
    """Recorded steps in two parts, and what they are of."""

    teacher: Teacher
    train: PhysicsSteps
    held_out: PhysicsSteps
    sources: list[dict[str, Any]]


def load_fit_data(sources: Sequence[RecordedDataset], cfg: FitCfg) -> FitData:
    """Reads recordings and splits them by episode, the same way every time.

    Raises:
        DatasetError: they are not what a model can be fitted to.
    """
    teacher = find_teacher(sources)
    layout = teacher.layout
    steps = read_physics_steps(sources, teacher.entity, layout.joint_names, layout.floating, cfg.sees_contacts)
    held_out = held_out_rows(steps, cfg.holdout, cfg.seed)
    return FitData(teacher, steps.select(~held_out), steps.select(held_out), describe_sources(sources))


def held_out_rows(steps: PhysicsSteps, share: float, seed: int) -> Tensor:
    """Returns a mask (R,) of the steps to hold out: whole episodes, of each regime the same share, at least one, not
    all."""
    first = torch.ones(len(steps), dtype=torch.bool)
    first[1:] = steps.episode[1:] != steps.episode[:-1]
    regime = steps.regime[first]
    chosen = torch.zeros(steps.num_episodes, dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    for label in range(len(steps.regimes)):
        episodes = (regime == label).nonzero()[:, 0]
        if len(episodes) < 2:
            raise LabError(
                f"{len(episodes)} episode of {steps.regimes[label]!r}: none is left to hold out. Record more."
            )
        order = episodes[torch.randperm(len(episodes), generator=generator)]
        chosen[order[: min(max(1, round(share * len(order))), len(order) - 1)]] = True
    return chosen[steps.episode]


class Fit:
    """A fit in a run folder.

    Args:
        cfg: Settings.
        data: Recorded steps.
        run: Where files go; only the first process writes.
        device: Where to compute.
        processes: Which process this is.
        checkpoint: To go on from.
        start: Model file to begin with, whose scales stay.

    Raises:
        ConfigError: the checkpoint, or the model to begin with, is of something else, or the network needs masses that
            the robot does not tell.
    """

    def __init__(
        self,
        cfg: FitCfg,
        data: FitData,
        run: RunFolder,
        device: torch.device,
        processes: Processes | None = None,
        checkpoint: Path | None = None,
        start: Path | None = None,
    ) -> None:
        cfg.check()
        self.cfg, self.data, self.run = cfg, data, run
        self.processes = processes or Processes()
        torch.manual_seed(cfg.seed)
        model = _make_model(cfg, data.teacher)
        pose_scale = prepare_model(model, data.train)
        self._began_with: str | None = None
        """SHA-256 of the model that it began with."""
        if start is not None:
            pose_scale = self._begin_with(start, model)
        stored = None if checkpoint is None else self._load(checkpoint, model)
        if stored is not None:
            pose_scale = stored.pose_scale
        model.to(device)
        self._pose_scale = pose_scale.to(device)
        mine = data.train
        if self.processes.world_size > 1:
            mine = mine.select(mine.episode % self.processes.world_size == self.processes.rank)
        self.trainer = Trainer(cfg, model, self._pose_scale, mine.to(device), self.processes)
        if stored is not None:
            self.trainer.load_state_dict(stored.trainer)
            self.trainer.sampler.load_state_dict(stored.samplers[self.processes.rank])
        self.evaluator = OneStepEvaluator(data.held_out.to(device), model.network.context, self._pose_scale)

    def summary(self) -> str:
        """Returns what is fitted to what, for people."""
        data, network = self.data, self.trainer.model.network
        size = sum(parameter.numel() for parameter in network.parameters())
        regimes = ", ".join(data.train.regimes)
        seen, left_out = data.train.contact_valid, data.train.incomplete
        contacts = "" if seen is None else f", with up to {seen.shape[1]} contacts"
        notice = f"; {left_out:,} more are left out, because some of their contacts found no place" if left_out else ""
        return (
            f"{data.teacher.task}: {self.cfg.network} with {size:,} weights, {len(data.train):,} steps of "
            f"{data.teacher.layout.dt * 1000:g} ms ({regimes}) to train on, {len(data.held_out):,} held out"
            f"{contacts}{notice}"
        )

    def run_all(self, console: Console, show: Callable[[int, str], None]) -> FitResult:
        """Makes all updates that are left. Ctrl-C ends a fit in one process after a checkpoint, others at once.

        Args:
            console: For messages.
            show: Told updates made, and a line on how it goes.

        Raises:
            LabError: the loss is not finite; the last checkpoint stays.
        """
        trainer, cfg, start = self.trainer, self.cfg, self.trainer.update_count
        checkpoint, error = self.run.checkpoint(start), self.evaluator(trainer.averaged)
        self._describe()
        curves = FitCurves(self.run, start, self.processes.is_first)
        stop = StopSignal(lambda: console.print("Stopping after this update; Ctrl-C again stops at once."))
        losses: list[Tensor] = []
        with curves, stop if self.processes.world_size == 1 else nullcontext():
            while trainer.update_count < cfg.updates and not stop.requested:
                losses.append(trainer.update())
                if self._is_due(cfg.eval_interval):
                    error, loss = self.evaluator(trainer.averaged), float(torch.stack(losses).mean())
                    losses.clear()
                    self._refuse_non_finite(loss, error, checkpoint)
                    curves.add(trainer.update_count, self._scalars(loss, error))
                    show(trainer.update_count, f"loss {loss:.3g}  held out {error.all_channels:.3g}")
                if self._is_due(cfg.save_interval):
                    checkpoint = self.save()
            interrupted = trainer.update_count < cfg.updates
            if interrupted and trainer.update_count != start:
                checkpoint, error = self.save(), self.evaluator(trainer.averaged)
        model = self.save_model(error)
        return FitResult(trainer.update_count, interrupted, error, curves.elapsed, model, checkpoint)

    def save(self) -> Path:
        """Writes a checkpoint; every process takes part, the first one writes."""
        samplers = self.processes.gather(self.trainer.sampler.state_dict())
        path = self.run.checkpoint(self.trainer.update_count)
        if not self.processes.is_first:
            return path
        teacher = self.data.teacher
        save_checkpoint(
            path,
            FitCheckpoint(
                cfg=self.cfg,
                layout=teacher.layout,
                fingerprint=teacher.fingerprint,
                sources=self.data.sources,
                pose_scale=self._pose_scale.cpu(),
                trainer=self.trainer.state_dict(),
                samplers=samplers,
            ),
        )
        return path

    def save_model(self, error: OneStepError) -> Path:
        """Writes the averaged model, with what it was made of and how well it predicts; the first process does."""
        path = self.run.path / MODEL_FILE
        if not self.processes.is_first:
            return path
        teacher = self.data.teacher
        extra = {
            "task": teacher.task,
            "fit": asdict(self.cfg),
            "updates": self.trainer.update_count,
            "transitions": len(self.data.train),
            "incomplete": self.data.train.incomplete,
            "sources": self.data.sources,
            "began_with": self._began_with,
            "pose_scale": self._pose_scale.tolist(),
            "held_out": {error.name: error.all_channels, "velocity": error.velocity, "steps": error.count},
        }
        save_model(path, self.trainer.averaged, teacher.fingerprint, extra)
        return path

    def _begin_with(self, path: Path, model: NeRDModel) -> Tensor:
        """Gives ``model`` the weights and scales of a file, and returns the scale of changes of pose."""
        start, known = load_model(path)
        what = f"The model {str(path)!r} to begin with"
        check_robot(what, start.layout, model.layout)
        check_fingerprint(what, known.fingerprint, self.data.teacher.fingerprint)
        made, wanted = ((each.network_name, dict(each.options)) for each in (start, model))
        if json.dumps(made) != json.dumps(wanted):
            raise ConfigError(f"{what} is the network {made[0]} {made[1]}, and the fit is of {wanted[0]} {wanted[1]}.")
        model.load_state_dict(start.state_dict())
        self._began_with = known.sha256
        return torch.tensor(known.extra["pose_scale"])

    def _load(self, path: Path, model: NeRDModel) -> FitCheckpoint:
        stored = load_checkpoint(path)
        world_size = self.processes.world_size
        if len(stored.samplers) != world_size:
            raise ConfigError(
                f"{path} is of {len(stored.samplers)} processes and goes on with as many, not {world_size}."
            )
        if changed := model.layout.differences(stored.layout):
            raise ConfigError(f"{path} is of another robot: {'; '.join(changed)}.")
        if [source["sha256"] for source in self.data.sources] != [source["sha256"] for source in stored.sources]:
            raise ConfigError(f"{path} was fitted to other files than these; a fit goes on with the same data.")
        wanted, made = (json.loads(json.dumps(asdict(cfg))) for cfg in (self.cfg, stored.cfg))
        if changed := [f"{name}: {wanted[name]}, was {made[name]}" for name in _FIXED if wanted[name] != made[name]]:
            raise ConfigError(f"{path} is of a fit with other settings, which cannot change: {'; '.join(changed)}.")
        if stored.update >= self.cfg.updates:
            raise ConfigError(
                f"{path} has made {stored.update} of {self.cfg.updates} updates; give more with --updates."
            )
        return stored

    def _is_due(self, interval: int) -> bool:
        return self.trainer.update_count % interval == 0 or self.trainer.update_count == self.cfg.updates

    def _scalars(self, loss: float, error: OneStepError) -> dict[str, float]:
        channels = {f"Velocity/{name}": value for name, value in error.velocities.items()}
        rate = self.cfg.learning_rate_at(self.trainer.update_count - 1)
        return {
            "Fit/loss": loss,
            f"Fit/{error.name}": error.all_channels,
            "Fit/velocity": error.velocity,
            "Fit/learning_rate": rate,
            **channels,
        }

    def _refuse_non_finite(self, loss: float, error: OneStepError, checkpoint: Path) -> None:
        if math.isfinite(loss) and math.isfinite(error.all_channels):
            return
        kept = f"The last checkpoint is {checkpoint}." if checkpoint.exists() else "No checkpoint was written."
        raise LabError(f"The loss is not finite after update {self.trainer.update_count}. {kept}")

    def _describe(self) -> None:
        if not self.processes.is_first:
            return
        run = self.run
        write_file(run.config, dump_yaml(self.cfg))
        entries = json.loads(run.versions.read_text()) if run.versions.exists() else []
        entries.append({"from_iteration": self.trainer.update_count, **versions()})
        write_file(run.versions, json.dumps(entries, indent=2) + "\n")


def _make_model(cfg: FitCfg, teacher: Teacher) -> NeRDModel:
    network = NETWORKS.get(cfg.network)
    if network is not None and network.needs_masses and teacher.robot is None:
        raise ConfigError(f"{cfg.network} needs the masses of the robot, and there are none: {teacher.no_masses}")
    search = teacher.search if cfg.sees_contacts else None
    return NeRDModel(teacher.layout, cfg.network, cfg.options, search, teacher.robot)
