"""What each process does that test_rl_nerd_processes.py starts: fits to ``inputs.pt`` of the folder it is given."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from rich.console import Console

from lab_newton import FitCfg
from lab_newton.nerd import NeRDModel, RobotLayout
from lab_rl.nerd.fit import Fit, FitData
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.teacher import Teacher
from lab_rl.nerd.trainer import Trainer, prepare_model
from lab_rl.processes import Processes, joined_processes
from lab_rl.runs.folder import RunFolder

CPU = torch.device("cpu")
UPDATES = 5


def train(cfg: FitCfg, layout: RobotLayout, steps: PhysicsSteps, processes: Processes) -> dict:
    """All processes draw from the same steps, so that one process can do the same."""
    torch.manual_seed(0)
    model = NeRDModel(layout, cfg.network, cfg.options)
    trainer = Trainer(cfg, model, prepare_model(model, steps), steps, processes)
    losses = [trainer.update() for _ in range(UPDATES)]
    return {"losses": losses, **trainer.state_dict(), "sampler": trainer.sampler.state_dict()}


def fit(cfg: FitCfg, data: FitData, folder: Path, processes: Processes, checkpoint: Path | None = None) -> dict:
    """As users do: each process trains on episodes of its own."""
    fitting = Fit(cfg, data, RunFolder(folder), CPU, processes, checkpoint)
    result = fitting.run_all(Console(quiet=True), lambda update, line: None)
    trainer = fitting.trainer
    return {
        "update": result.update,
        "interrupted": result.interrupted,
        "episodes": trainer.sampler.steps.num_episodes,
        "trainer": trainer.state_dict(),
        "sampler": trainer.sampler.state_dict(),
    }


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    inputs = torch.load(folder / "inputs.pt", weights_only=True)
    cfg, layout = FitCfg(**inputs["cfg"]), RobotLayout.from_dict(inputs["layout"])
    train_steps, held_out = (PhysicsSteps(**inputs[name]) for name in ("train", "held_out"))
    data = FitData(Teacher("Lab-Closed-Form", "robot", layout, {}), train_steps, held_out, [{"sha256": "12ab"}])
    with joined_processes(CPU) as processes:
        results = {"train": train(cfg, layout, train_steps, processes)}
        results["whole"] = fit(cfg, data, folder / "run", processes)
        results["resumed"] = fit(cfg, data, folder / "again", processes, folder / "run" / "checkpoints" / "6.pt")
        results["gathered"] = processes.gather(f"from {processes.rank}")
        torch.save(results, folder / f"outputs-{processes.rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
