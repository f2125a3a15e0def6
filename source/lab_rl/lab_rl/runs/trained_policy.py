"""A trained policy together with what it was trained in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_core.registry import TaskSpec
from lab_core.rollouts import check_contract
from lab_core.trust import reading_a_file
from lab_rl.algorithms import Policy, get_algorithm
from lab_rl.runs.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from lab_rl.runs.config import RunCfg, load_run_cfg
from lab_rl.runs.folder import find_checkpoint, latest_run, run_of
from lab_rl.runs.settings import use_settings


@dataclass(frozen=True)
class TrainedPolicy:
    """A checkpoint and the configuration of its run."""

    path: Path
    checkpoint: Checkpoint
    cfg: RunCfg

    def attach(self, env: RLEnv, force: bool = False) -> Policy:
        """Returns the policy for ``env``, which is reset and takes over what a curriculum made of actions and
        observations.

        Args:
            env: Where it shall act.
            force: Whether it may act where joints, scales, timing or terms are others than in training.

        Raises:
            CheckpointError: ``env`` has observations or actions of other widths than the policy was trained with.
            ContractError: they mean something else, and ``force`` is not given.
        """
        self.checkpoint.check(self.path, self.cfg.task, env)
        with reading_a_file():
            use_settings(env, self.checkpoint.settings)
        if self.checkpoint.contract:
            groups = list(self.checkpoint.observations)
            check_contract(str(self.path), self.checkpoint.contract, env, groups, force)
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
