"""Export a trained policy to one ONNX file that describes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab_core.cli import parse, split_subject
from lab_core.errors import LabError
from lab_core.registry import get_task, task_ids
from lab_rl.cli import options


@dataclass(kw_only=True)
class ExportOptions:
    """Options of ``lab export``."""

    checkpoint: Path | None = None
    """Checkpoint, or run for its latest one. Without it: the run that is given, or the task's latest run in LOGS."""
    output: Path | None = None
    """The file. Without it: policy.onnx in the run folder."""
    algorithm: str | None = None
    """Only of runs of this algorithm. Without it: of any."""
    logs: Path = Path("logs")
    """Where runs are looked for: LOGS/TASK/TIME."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""


def main(argv: Sequence[str]) -> int:
    """Export a trained policy to one ONNX file."""
    subject, arguments = split_subject(options.prepare(argv), ExportOptions)
    prog = f"lab export {subject or 'TASK_OR_RUN'}"
    args = parse(ExportOptions(), arguments, prog=prog, description=_DESCRIPTION)
    if subject is None and args.checkpoint is None:
        raise LabError("Export what? Give a task id or a run folder, as in `lab export logs/Lab-Cartpole/latest`.")

    import torch
    from rich.console import Console

    from lab_rl.export import check_path, export_onnx
    from lab_rl.runs.folder import run_of
    from lab_rl.runs.trained_policy import load_trained

    if subject is None or (subject not in task_ids() and Path(subject).exists()):
        if subject is not None and args.checkpoint is not None:
            raise LabError(f"Export which? {subject} and --checkpoint {args.checkpoint} are given.")
        trained = load_trained(args.checkpoint or Path(subject or ""))
    else:
        trained = options.trained_policy(get_task(subject), args.checkpoint, args.logs, args.algorithm)

    path = args.output or run_of(trained.path).path / "policy.onnx"
    check_path(path)
    env_cfg = options.play_env_cfg(get_task(trained.cfg.task), trained.cfg)
    env_cfg.scene.num_envs = 4
    env = env_cfg.build(torch.device("cpu"))
    try:
        metadata = export_onnx(trained, trained.attach(env), path)
    finally:
        env.close()
    console = Console()
    console.print(f"Exported {trained.path} to {path}", highlight=False, soft_wrap=True)
    console.print(
        f"Input obs ({metadata['input']['width']}), output actions ({metadata['output']['width']}); checked with "
        "onnxruntime. Names, scales, gains and timing are in its metadata under 'lab'.",
        highlight=False,
        soft_wrap=True,
    )
    if not hasattr(env, "observation_manager"):
        console.print(
            "A direct environment does not say what its observations and actions are made of: the metadata hold only "
            "their widths.",
            highlight=False,
            soft_wrap=True,
        )
    return 0


_DESCRIPTION = (
    "Export a trained policy to one ONNX file that describes itself.\n\n"
    "Example: lab export logs/Lab-Cartpole/latest --output policy.onnx"
)
