"""``lab nerd export``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab_core.cli import parse, split_subject, with_dashes
from lab_core.errors import LabError


@dataclass(kw_only=True)
class ExportOptions:
    """Options of ``lab nerd export``."""

    output: Path | None = None
    """File to write, NAME.mdlus. Without it: beside the model, by its name."""


def main(argv: Sequence[str]) -> int:
    """Write a model as a file of PhysicsNeMo (.mdlus), which needs ``pip install 'lab_newton[nerd]'``."""
    subject, arguments = split_subject(with_dashes(list(argv)), ExportOptions)
    example = "lab nerd export logs/nerd/Lab-Cartpole-Explore/latest"
    description = f"{main.__doc__}\n\nExample: {example}"
    args = parse(ExportOptions(), arguments, prog="lab nerd export MODEL_OR_RUN", description=description)
    if subject is None:
        raise LabError(f"Which model? Give its file, or the run of its fit, as in `{example}`.")

    from lab_newton.nerd import load_model, save_mdlus
    from lab_rl.nerd.fit import MODEL_FILE

    path = Path(subject)
    path = path / MODEL_FILE if path.is_dir() else path
    model, known = load_model(path)
    output = args.output or path.with_suffix(".mdlus")
    try:
        digest = save_mdlus(output, model, known.fingerprint, known.extra)
    except ModuleNotFoundError as error:
        raise LabError(str(error)) from error
    print(f"{model.network_name} of {known.extra.get('task') or 'a robot'}: {output}\nSHA-256: {digest}")
    return 0
