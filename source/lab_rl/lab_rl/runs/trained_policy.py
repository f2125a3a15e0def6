"""A trained policy together with what it was trained in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_core.registry import TaskSpec
from lab_rl.algorithms import Policy, get_algorithm
from lab_rl.runs.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from lab_rl.runs.config import RunCfg, load_run_cfg
from lab_rl.runs.folder import find_checkpoint, latest_run, run_of


@dataclass(frozen=True)
class TrainedPolicy:
    """A checkpoint and the configuration of its run."""

    path: Path
    checkpoint: Checkpoint
    cfg: RunCfg

    def attach(self, env: RLEnv) -> Policy:
        """Returns the policy for ``env``, which is reset.

        Raises:
            CheckpointError: ``env`` has other observations or actions than the policy was trained with.
        """
        self.checkpoint.check(self.path, self.cfg.task, env)
        try:
            return get_algorithm(self.cfg.agent.algorithm).load_policy(env, self.cfg.agent, self.checkpoint.runner)
        except RuntimeError as error:
            raise CheckpointError(f"The networks in {self.path} do not fit its config.yaml: {error}") from error


def load_trained(path: Path) -> TrainedPolicy:
    """The policy that a user means by ``path``: a checkpoint within a run, or a run for its latest one.

    Raises:
        LabError: There is none, or it cannot be read.
    """
    path = find_checkpoint(path)
    cfg = load_run_cfg(run_of(path).config)
    return TrainedPolicy(path, load_checkpoint(path), cfg)


def load_latest(root: Path, task: TaskSpec, algorithm: str | None = None) -> TrainedPolicy:
    """Returns the latest checkpoint of the latest run below ``root``, of ``algorithm`` where one is named.

    Raises:
        LabError: There is none; the message says how to train.
    """
    run = latest_run(root, algorithm)
    if run is None:
        by = f" by {algorithm}" if algorithm else ""
        how = f"lab train {task.id}" + (f" --algorithm {algorithm}" if algorithm else "")
        demo = f" `lab play {task.id} --policy demo` shows the one that comes with the task." if task.demo else ""
        raise LabError(
            f"No trained policy for {task.id}{by} in {root}. Train one with `{how}`, or give one with "
            f"--checkpoint.{demo}"
        )
    return load_trained(run.path)
