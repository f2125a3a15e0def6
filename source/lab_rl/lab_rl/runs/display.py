"""What a training run shows: a progress bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lab_core.envs import RLEnv
from lab_rl.algorithms import Iteration
from lab_rl.processes import Processes
from lab_rl.runs.folder import RunFolder
from lab_rl.runs.result import TrainingResult

LINE_INTERVAL = 10.0
"""Seconds between two plain lines."""


class TrainingDisplay:
    """Shows the progress from iteration ``start`` to ``total``. Use it as a context manager."""

    def __init__(self, console: Console, start: int, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._start, self._total = start, total
        self._clock = clock
        self._began = self._last_line = clock()
        self._progress = Progress(
            TextColumn("[bold]{task.completed}/{task.total}[/]"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> TrainingDisplay:
        self._progress.start()
        self._task = self._progress.add_task("", total=self._total, completed=self._start, state="")
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def update(self, iteration: Iteration) -> None:
        """Shows a finished iteration; without a terminal only every ten seconds, and the first and last one."""
        state = (
            f"{iteration.steps_per_second:,.0f} steps/s  reward {number(iteration.reward)}  "
            f"length {number(iteration.episode_length)}"
        )
        terms = terms_in_words(iteration.scalars)
        if self._task is not None and self.console.is_terminal:
            shown = f"{state}\n{terms}" if terms else state
            self._progress.update(self._task, completed=iteration.number, state=escape(shown))
            return
        now = self._clock()
        first_or_last = iteration.number in (self._start + 1, self._total)
        if first_or_last or now - self._last_line >= LINE_INTERVAL:
            self._last_line = now
            left = (now - self._began) / (iteration.number - self._start) * (self._total - iteration.number)
            self.print(f"iteration {iteration.number}/{self._total}  {state}  {duration(left)} left")
            if terms:
                self.print(f"  {terms}")

    def print(self, text: str) -> None:
        """A line above the progress bar."""
        self.console.print(escape(text), soft_wrap=True, highlight=False)

    def warn(self, text: str) -> None:
        """A warning above the progress bar."""
        print_warning(self.console, text)


def terms_in_words(scalars: Mapping[str, float]) -> str:
    """Returns what each reward term gave per second, and by what share of environments episodes ended; else empty."""
    parts = []
    for title, start, form in (("rewards", "Episode_Reward/", "{:.3g}"), ("ended", "Episode_Termination/", "{:.0%}")):
        terms = [f"{name.removeprefix(start)} {form.format(value)}" for name, value in scalars.items()
                 if name.startswith(start)]  # fmt: skip
        if terms:
            parts.append(f"{title}: {', '.join(terms)}")
    return "; ".join(parts)


def print_warning(console: Console, text: str) -> None:
    """Prints a warning."""
    console.print(f"[yellow]Warning:[/] {escape(text)}", soft_wrap=True, highlight=False)


_MANAGERS = ("command", "event", "action", "observation", "reward", "termination", "curriculum", "metrics")


def show_environment(console: Console, env: RLEnv, task: str, processes: Processes) -> None:
    """The terms of all managers, and one line on how the environment runs."""
    for name in _MANAGERS:
        manager = getattr(env, f"{name}_manager", None)
        if manager is not None and manager.term_names:
            console.print(str(manager), markup=False, highlight=False)
    mode = " (deterministic)" if env.cfg.deterministic else ""
    count = f"{env.num_envs * processes.world_size} environments"
    shares = f" in {processes.world_size} processes" if processes.world_size > 1 else ""
    console.print(
        f"[bold]{escape(task)}[/]: {count}{shares} on {env.device}, {1.0 / env.step_dt:g} Hz control, "
        f"seed {env.seed}{mode}, physics: {escape(env.physics.description)}",
        soft_wrap=True,
        highlight=False,
    )


def show_result(console: Console, task: str, run: RunFolder, result: TrainingResult) -> None:
    """How a run ended, where its files are, and what to type next."""
    title = "Interrupted" if result.interrupted else "Finished"
    lines = [f"[bold]{title} after {result.iteration} iterations in {duration(result.seconds)}[/]"]
    best = f" (best {number(result.best_reward)} in iteration {result.best_iteration})" if result.best_iteration else ""
    lines.append(f"  reward      {number(result.reward)}{best}")
    lines.append(f"  length      {number(result.episode_length)} steps")
    lines.append(f"  checkpoint  {escape(str(result.checkpoint))}")
    lines.append(f"  curves      {escape(str(run.curves))}")
    if result.video is not None:
        lines.append(f"  video       {escape(str(result.video))}")
    if result.interrupted:
        commands = [f"lab train --resume {run.path}"]
    else:
        commands = [f"lab play {task} --checkpoint {run.path}", f"lab export {run.path}"]
    lines += ["Next:", *(f"  {escape(command)}" for command in commands)]
    console.print("\n".join(lines), soft_wrap=True, highlight=False)


def number(value: float | None) -> str:
    """``value`` with two decimals, a dash for None."""
    return "-" if value is None else f"{value:.2f}"


def duration(seconds: float) -> str:
    """``75`` gives ``1 min 15 s``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
