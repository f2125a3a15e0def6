"""What to write here for options that people know from Isaac Lab."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SETTING = re.compile(r"(?:\+{0,2}|~)((?:env|agent)(?:\.\w+)+)=(.*)", re.DOTALL)
_OPTIONS = {
    "--task": "In `lab train` and `lab play` the task stands by itself, as in `lab train Lab-Cartpole`.",
    "--headless": "Nothing opens a window here; leave it out.",
    "--enable-cameras": "Cameras need no switch; leave it out.",
    "--livestream": "`lab play TASK` shows the robots on a web page; leave it out.",
    "--run-name": "Name the run with `--name NAME`.",
    "--experiment-name": "The folder of the runs is `--agent.experiment-name NAME`.",
    "--load-run": "Give the run itself: `lab train --resume RUN`, `lab play TASK --checkpoint RUN`.",
    "--logger": "Every run writes TensorBoard events, which W&B takes over, too; see docs/training.md.",
    "--distributed": "`--processes N` trains on N GPUs.",
}


def foreign_option(argv: Sequence[str]) -> str | None:
    """Returns what to write instead of the first argument that is in Isaac Lab's way, None where there is none.

    Args:
        argv: Arguments that a command refused.
    """
    for argument in argv:
        option = argument.partition("=")[0].replace("_", "-")
        if option in _OPTIONS:
            return f"{option}: {_OPTIONS[option]}"
        if setting := _SETTING.fullmatch(argument):
            path, value = setting.groups()
            return f"{argument} is written --{path.replace('_', '-')} {'None' if value == 'null' else value}"
    return None
