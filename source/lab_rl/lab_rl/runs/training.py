"""A training run from its configuration to its last picture."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from lab_core.config import dump_yaml
from lab_core.envs import RLEnv, choose_frontend, make_env
from lab_core.errors import ConfigError, LabError
from lab_core.rollouts import describe_contract, describe_step
from lab_core.trust import reading_a_file
from lab_core.versions import versions
from lab_rl.algorithms import Iteration, get_algorithm
from lab_rl.algorithms.merge import merge_iterations
from lab_rl.play.video import record_clip
from lab_rl.processes import is_lost_connection, present_processes
from lab_rl.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from lab_rl.runs.config import RunCfg
from lab_rl.runs.display import TrainingDisplay, print_warning, show_environment
from lab_rl.runs.files import write_file
from lab_rl.runs.folder import RunFolder
from lab_rl.runs.journal import Journal
from lab_rl.runs.result import TrainingResult
from lab_rl.runs.resume import describe, edited_settings
from lab_rl.runs.settings import settings_in_use
from lab_rl.runs.shares import check_processes, gather_state, keep_counters, lone_state, own_env_cfg, state_for
from lab_rl.runs.stop_signal import StopSignal
from lab_rl.term_widths import action_terms, observation_terms


def train(
    cfg: RunCfg,
    run: RunFolder,
    *,
    console: Console,
    checkpoint: Path | None = None,
    video: Path | None = None,
    video_steps: int = 300,
) -> TrainingResult:
    """Trains in the folder ``run``, which exists.

    Of processes that were joined (:func:`lab_rl.processes.joined_processes`) each trains its share of the environments,
    and the first one writes files. They end together: when one is told to stop, when one fails, and when one is gone.

    Args:
        cfg: What to train. ``cfg.agent.max_iterations`` counts from the start of the run; ``cfg.env.seed`` is the seed
            of all of it, and the run's ``config.yaml`` says which one was drawn for -1.
        run: Where to.
        console: Shows the progress.
        checkpoint: A checkpoint of this run to go on from. None: a new run, whose folder goes away again if the
            environment cannot be built.
        video: File for a clip of the trained policy. None: no clip.
        video_steps: Length of the clip [environment steps].

    Raises:
        LabError: The configuration does not work, the checkpoint is of something else, a value was not finite (the
            last checkpoint stays), another process failed, or a file cannot be written.
    """
    processes = present_processes()
    with ExitStack() as if_the_start_fails:
        if checkpoint is None and processes.is_first:
            if_the_start_fails.callback(shutil.rmtree, run.path, ignore_errors=True)
        with processes.failing_together():
            algorithm = get_algorithm(cfg.agent.algorithm)
            algorithm.check(cfg.agent)  # refuses wrong settings before anything is built
            check_processes(algorithm, processes)
            set_threads(torch.device(cfg.device))
            choice = choose_frontend(cfg.frontend, cfg.env)
            cfg = dataclasses.replace(cfg, frontend=choice.name)
            with torch.no_grad():
                env = make_env(own_env_cfg(cfg.env, torch.device(cfg.device), processes), cfg.device, cfg.frontend)
        if_the_start_fails.callback(env.close)
        with processes.failing_together():
            session = _Session(cfg, run, env, console, checkpoint)
        console.print(f"Front end {choice.name} ({choice.reason})", soft_wrap=True, highlight=False)
        if_the_start_fails.pop_all()
    try:
        return session.run_all(video, video_steps)
    finally:
        env.close()


def set_threads(device: torch.device) -> None:
    """Lets torch use one core: networks of this size gain nothing from a second one, and the physics wants it."""
    if device.type == "cpu":
        torch.set_num_threads(1)


class _Session:
    def __init__(self, cfg: RunCfg, run: RunFolder, env: RLEnv, console: Console, checkpoint: Path | None) -> None:
        self.processes = present_processes()
        seed = self.processes.from_first(env.seed)
        self.cfg = cfg = dataclasses.replace(cfg, env=dataclasses.replace(cfg.env, seed=seed))
        self.run, self.env, self.console = run, env, console
        self.algorithm = get_algorithm(cfg.agent.algorithm)
        self.runner = self.algorithm.make_runner(env, cfg.agent)
        self.config_hash = cfg.hash()
        self.edits: list[str] = []
        if checkpoint is not None:
            self._resume(checkpoint)
        elif cfg.agent.init_at_random_ep_len:
            self.runner.randomize_episode_ages()
        self.start = self.runner.iteration
        if self.processes.is_first:
            write_file(run.config, dump_yaml(cfg))
            self._write_versions()
            if checkpoint is None:
                run.mark_latest()
        self._warned: set[str] = set()
        show_environment(console, env, cfg.task, self.processes)

    @property
    def num_envs(self) -> int:
        """Of all processes."""
        return self.env.num_envs * self.processes.world_size

    def _resume(self, path: Path) -> None:
        stored = load_checkpoint(path)
        stored.check(path, self.cfg.task, self.env)
        if stored.num_envs != self.num_envs:
            raise ConfigError(
                f"{path} was trained with {stored.num_envs} environments and can go on only with as many, "
                f"got {self.num_envs}."
            )
        if stored.iteration >= self.cfg.agent.max_iterations:
            raise ConfigError(
                f"{path} has finished {stored.iteration} of {self.cfg.agent.max_iterations} iterations; "
                "give a larger total with --max-iterations."
            )
        self.edits = describe(edited_settings(stored, path, self.cfg))
        state, begins_anew = state_for(stored, self.runner, self.processes)
        with reading_a_file():  # what a curriculum changed may name code
            self.runner.load_state_dict(state)
            if begins_anew:
                keep_counters(stored, self.env)
        if begins_anew:
            print_warning(self.console, begins_anew)
        if self.edits:
            self.console.print("Goes on with edited settings:", highlight=False)
            for edit in self.edits:
                self.console.print(f"  {edit}", highlight=False, soft_wrap=True, markup=False)
        if self.processes.is_first:
            for superseded in self.run.set_aside_checkpoints(after=stored.iteration):
                self.console.print(f"A later checkpoint is now {superseded}", highlight=False, soft_wrap=True)

    def run_all(self, video: Path | None, video_steps: int) -> TrainingResult:
        display = TrainingDisplay(self.console, self.start, self.cfg.agent.max_iterations)
        title = f"{self.cfg.task}  {self.run.path.name}"
        journal = Journal(self.run if self.processes.is_first else None, self.start, title, self.algorithm.panels)
        try:
            with display, StopSignal(lambda: display.print(_STOPPING)) as stop:
                checkpoint, interrupted = self._iterate(display, journal, stop)
        finally:
            journal.close()
        shown = video if self.processes.is_first and not interrupted else None
        clip = None if shown is None else self._record(shown, video_steps)
        rewards = [(row["reward"], row["iteration"]) for row in journal.rows if row["reward"] is not None]
        best = max(rewards, key=lambda pair: pair[0], default=(None, None))
        last = journal.rows[-1]
        return TrainingResult(
            iteration=self.runner.iteration,
            interrupted=interrupted,
            reward=last["reward"],
            best_reward=best[0],
            best_iteration=best[1],
            episode_length=last["episode_length"],
            seconds=journal.elapsed,
            checkpoint=checkpoint,
            video=clip,
        )

    def _iterate(self, display: TrainingDisplay, journal: Journal, stop: StopSignal) -> tuple[Path, bool]:
        """Returns the last checkpoint, and whether somebody stopped the run."""
        agent, stopping = self.cfg.agent, False
        began = time.perf_counter() - journal.elapsed
        checkpoint = self.run.checkpoint(self.start)
        while self.runner.iteration < agent.max_iterations and not stopping:
            iteration, stopping = self._next(checkpoint, stop)
            if iteration.number == self.start + 1:
                display.print(f"{describe_step(self.env)} {self.runner.describe()}".rstrip())
            journal.add(iteration, time.perf_counter() - began)
            self._warn(display, iteration)
            display.update(iteration)
            last = iteration.number == agent.max_iterations or stopping
            if last or iteration.number % agent.save_interval == 0:
                checkpoint = self._save()
                journal.draw()
        return checkpoint, stopping

    def _next(self, checkpoint: Path, stop: StopSignal) -> tuple[Iteration, bool]:
        """Makes an iteration, and returns what all processes did and whether one of them is told to stop."""
        try:
            with self.processes.failing_together():
                iteration = self.runner.iterate()
            reports = self.processes.gather((iteration, stop.requested))
        except LabError as error:
            error.args = (f"{error} {_kept(checkpoint)}",)
            raise
        except RuntimeError as error:
            if self.processes.world_size == 1 or not is_lost_connection(error):
                raise
            checkpoint = self._save_alone(checkpoint)
            reason = f"Process {self.processes.rank} lost the others, one of which has ended."
            raise LabError(f"{reason} {_kept(checkpoint)}") from error
        parts, stops = zip(*reports, strict=True)
        return merge_iterations(parts), any(stops)

    def _save_alone(self, last: Path) -> Path:
        """Writes a checkpoint without the other processes, unless another one does or one of now exists."""
        path = self.run.checkpoint(self.runner.iteration)
        if self.runner.iteration == self.start or path.exists():
            return last
        claim = path.with_suffix(".claim")
        try:
            claim.touch(exist_ok=False)
        except OSError:
            return path
        self._write(path, *lone_state(self.runner, self.processes))
        claim.unlink(missing_ok=True)
        return path

    def _save(self) -> Path:
        path = self.run.checkpoint(self.runner.iteration)
        states = gather_state(self.runner, self.processes)
        if self.processes.is_first:
            self._write(path, *states)
        return path

    def _write(self, path: Path, state: dict[str, Any], own_states: list[Any]) -> None:
        groups, terms = self.runner.groups, observation_terms(self.env)
        save_checkpoint(
            path,
            Checkpoint(
                task=self.cfg.task,
                config_hash=self.config_hash,
                num_envs=self.num_envs,
                observations={name: widths for name, widths in terms.items() if name in groups},
                actions=action_terms(self.env),
                config=dump_yaml(self.cfg.problem()),
                settings=settings_in_use(self.env),
                contract=describe_contract(self.env, [name for name in terms if name in groups]),
                runner=state,
                processes=own_states,
            ),
        )

    def _warn(self, display: TrainingDisplay, iteration: Iteration) -> None:
        """Shows each kind of trouble in the physics once; its course is in the logs."""
        health = iteration.health
        messages = {f"{buffer} overflowed": text for buffer, text in health.overflows.items()}
        if health.non_finite_envs:
            messages["non-finite environments"] = (
                f"{health.non_finite_envs} environments became non-finite or too fast in iteration {iteration.number} "
                "and were reset; see Physics/non_finite_envs in the logs."
            )
        for kind in messages.keys() - self._warned:
            display.warn(f"{kind}: {messages[kind]}")
        self._warned |= messages.keys()

    def _record(self, video: Path, steps: int) -> Path | None:
        """A clip of the trained policy. A failure is told, but a finished training never fails for it."""
        policy = self.runner.policy()
        try:
            with self.console.status("Recording a video"), torch.inference_mode():
                self.env.reset()
                record_clip(self.env, policy, video, steps)
        except LabError as error:
            self.console.print(f"No video: {error}", highlight=False, soft_wrap=True)
            return None
        return video

    def _write_versions(self) -> None:
        """Appends to ``versions.json``: one entry for the start of the run and one for every time it was resumed, with
        the settings that were edited then."""
        entries = json.loads(self.run.versions.read_text()) if self.start else []
        edits = {"edited": self.edits} if self.edits else {}
        entries.append({"from_iteration": self.start, **edits, **versions(self.cfg.task)})
        write_file(self.run.versions, json.dumps(entries, indent=2) + "\n")


_STOPPING = "Stopping after this iteration; press Ctrl-C again to stop at once, without a checkpoint."


def _kept(checkpoint: Path) -> str:
    return f"The last good checkpoint is {checkpoint}." if checkpoint.exists() else "No checkpoint was written."
