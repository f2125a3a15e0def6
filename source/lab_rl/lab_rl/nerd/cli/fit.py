"""``lab nerd fit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_core.cli import option_value, parse, split_subjects, with_dashes
from lab_core.errors import LabError


@dataclass(kw_only=True)
class FitOptions:
    """Options of ``lab nerd fit``, before those of the fit."""

    updates: int | None = None
    """Updates of the whole fit, also when it is resumed. Without it: what the task's recipe says."""
    device: str = "auto"
    """cpu, cuda or cuda:<number>; auto takes a GPU if there is one."""
    logs: Path = Path("logs")
    """Where the run folder is made: LOGS/nerd/TASK/TIME."""
    name: str | None = None
    """Added to the name of the run folder."""
    resume: Path | None = None
    """Run or checkpoint to go on from, in its own folder, with the same recordings wherever they lie now."""
    start: Path | None = None
    """Model file of the same robot and network to begin with, whose scales stay: to make a model better, as with
    ``--fit.horizon 8``."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""


@dataclass(kw_only=True)
class FitArguments(FitOptions):
    """All options of ``lab nerd fit``."""

    fit: Any


def main(argv: Sequence[str]) -> int:
    """Fit a model of a robot's dynamics to recordings."""
    paths, arguments = split_subjects(with_dashes(list(argv)), FitOptions)
    from lab_newton import FitCfg

    resume = option_value(arguments, "--resume")
    if not paths:
        parse(FitArguments(fit=FitCfg()), arguments, prog="lab nerd fit RECORDING ...", description=_DESCRIPTION)
        raise LabError("Fit to what? Give recordings, as in `lab nerd fit recordings/Lab-Cartpole-Explore`.")

    from rich.console import Console

    from lab_core.cli import INTERRUPTED, ProgressDisplay, print_warning, resolve_device
    from lab_core.datasets import RecordedDataset
    from lab_rl.nerd.fit import Fit, load_fit_data
    from lab_rl.nerd.recipes import recipe_of
    from lab_rl.processes import joined_processes, own_device
    from lab_rl.runs.folder import RunFolder, find_checkpoint
    from lab_rl.runs.training import set_threads

    sources = [RecordedDataset(path) for path in paths]
    for notice in [notice for source in sources for notice in source.notices]:
        print_warning(notice)
    checkpoint = None if resume is None else find_checkpoint(Path(resume))
    if checkpoint is not None and option_value(arguments, "--start") is not None:
        raise LabError("A fit goes on with its own weights: give --resume or --start, not both.")
    recipe = recipe_of(sources[0], checkpoint)
    args = parse(FitArguments(fit=recipe), arguments, prog="lab nerd fit RECORDING ...", description=_DESCRIPTION)
    cfg = args.fit
    if args.updates is not None:
        cfg.updates = args.updates
    cfg.check()
    device = own_device(resolve_device(args.device))
    set_threads(device)
    console = Console()
    with joined_processes(device) as processes:
        data = load_fit_data(sources, cfg)
        if checkpoint is not None:
            run = RunFolder(checkpoint.resolve().parent.parent)
        elif processes.is_first:
            run = RunFolder.create(args.logs / "nerd" / (data.teacher.task or "unknown"), args.name)
            run.mark_latest()
        else:
            run = RunFolder(Path())
        fit = Fit(cfg, data, run, device, processes, checkpoint, args.start)
        if processes.is_first:
            console.print(fit.summary(), soft_wrap=True, highlight=False)
        with ProgressDisplay("updates", cfg.updates) as progress:
            result = fit.run_all(console, progress.update)
    if processes.is_first:
        console.print(result.summary(), soft_wrap=True, highlight=False)
    return INTERRUPTED if result.interrupted else 0


_DESCRIPTION = (
    "Fit a model of a robot's dynamics to recordings.\n\n"
    "Example: lab nerd fit recordings/Lab-Cartpole-Explore --updates 30000\n"
    "Several processes: torchrun --nproc-per-node 2 -- $(which lab) nerd fit ..."
)
