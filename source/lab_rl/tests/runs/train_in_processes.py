"""What each process does that test_rl_runs_processes.py starts: a scenario, in the folder that it is given."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from lab_core import mdp
from lab_core.agents import PPOCfg
from lab_core.errors import LabError
from lab_core.managers import CurriculumTermCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.processes import Processes, joined_processes
from lab_rl.runs import RunCfg, RunFolder
from lab_rl.runs.training import train

ENVS = 8


def make_cfg(iterations: int, num_envs: int = ENVS) -> RunCfg:
    env = analytic_cartpole_env_cfg(num_envs=num_envs, episode_length_s=0.1)
    params = {"term_name": "alive", "weight": 2.0, "num_steps": 6}
    env.curriculum = {"later": CurriculumTermCfg(func=mdp.modify_reward_weight, params=params)}
    agent = PPOCfg(
        max_iterations=iterations, num_steps_per_env=4, save_interval=2, obs_normalization=True,
        actor_hidden_dims=(8,), critic_hidden_dims=(8,),
    )  # fmt: skip
    return RunCfg(task="Task", device="cpu", env=env, agent=agent)


class Scenarios:
    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        self.runners: list[PPORunner] = []
        make = PPORunner.__init__

        def remember(runner: PPORunner, *args: Any) -> None:
            make(runner, *args)
            self.runners.append(runner)

        PPORunner.__init__ = remember

    def train(self, name: str, iterations: int, from_iteration: int | None = None, **changes: Any) -> dict[str, Any]:
        """Trains in the run ``name`` and returns what came of it."""
        run = RunFolder(self.folder / name)
        if self.processes.is_first and from_iteration is None:
            run.checkpoints.mkdir(parents=True)
        self.processes.gather(None)
        console = Console(file=io.StringIO(), width=200)
        outcome: dict[str, Any] = {"iteration": None, "interrupted": None, "error": None}
        checkpoint = None if from_iteration is None else run.checkpoint(from_iteration)
        try:
            result = train(make_cfg(iterations, **changes), run, console=console, checkpoint=checkpoint)
            outcome |= {"iteration": result.iteration, "interrupted": result.interrupted}
        except LabError as error:
            outcome["error"] = f"{type(error).__name__}: {error}"
        runner = self.runners[-1] if self.runners else None
        if runner is not None:
            outcome |= {
                "state": runner.alg.save(), "rate": runner.alg.learning_rate, "envs": runner.env.num_envs,
                "seed": runner.env.seed, "positions": runner.env.scene["robot"].data.joint_pos.clone(),
            }  # fmt: skip
        return outcome | {"text": console.file.getvalue()}

    def in_one(self, rank: int, at: int, act: Callable[[], None]) -> Callable[[], None]:
        """Lets process ``rank`` do something at the beginning of iteration ``at``, until what is returned is called."""
        iterate = PPORunner.iterate

        def patched(runner: PPORunner) -> Any:
            if self.processes.rank == rank and runner.iteration == at - 1:
                act()
            return iterate(runner)

        PPORunner.iterate = patched
        return lambda: setattr(PPORunner, "iterate", iterate)


def together(scenarios: Scenarios) -> dict[str, Any]:
    """Whatever leaves both processes alive."""
    found = {"whole": scenarios.train("whole", 4), "part": scenarios.train("part", 2)}
    torch.manual_seed(99)
    found["resumed"] = scenarios.train("part", 4, from_iteration=2)
    found["uneven"] = scenarios.train("uneven", 1, num_envs=7)
    undo = scenarios.in_one(1, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    found["stopped"] = scenarios.train("stopped", 5)
    undo()
    undo = scenarios.in_one(1, 3, lambda: _poison(scenarios.runners[-1]))
    found["poisoned"] = scenarios.train("poisoned", 5)
    undo()
    return found


def alone(scenarios: Scenarios) -> dict[str, Any]:
    """One process goes on where two have been."""
    return {"alone": scenarios.train("whole", 5, from_iteration=4)}


def killed(scenarios: Scenarios) -> dict[str, Any]:
    """The second process is killed in iteration 4, after the checkpoint of iteration 2."""
    scenarios.in_one(1, 4, lambda: os.kill(os.getpid(), signal.SIGKILL))
    return {"killed": scenarios.train("killed", 9)}


def _poison(runner: PPORunner) -> None:
    env: Any = runner.env
    env.reward_manager.get_term_cfg("alive").weight = float("nan")


def main(name: str, folder: Path) -> None:
    torch.set_num_threads(1)
    with joined_processes(torch.device("cpu")) as processes:
        found = {"together": together, "alone": alone, "killed": killed}[name](Scenarios(folder, processes))
        torch.save(found, folder / f"{name}-{processes.rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
