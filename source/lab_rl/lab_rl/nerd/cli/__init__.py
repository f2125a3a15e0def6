"""``lab nerd``: record physics steps, fit a model of the robot's dynamics to them, measure it."""

from __future__ import annotations

from collections.abc import Sequence

from lab_core.config import resolve_reference
from lab_core.errors import LabError, unknown_name_message

_COMMANDS = {
    "record": "Record every physics step of a task, for `lab nerd fit`.",
    "fit": "Fit a model of a robot's dynamics to recordings.",
    "eval": "Measure a model: one step, free rollouts, a policy in it and in its teacher.",
    "export": "Write a model as a file of PhysicsNeMo.",
}


def main(argv: Sequence[str]) -> int:
    """Learn a robot's dynamics: record physics steps, fit a model, measure it."""
    if not argv or argv[0] in ("-h", "--help"):
        _print_help()
        return 0
    if argv[0] not in _COMMANDS:
        raise LabError(unknown_name_message("nerd command", argv[0], _COMMANDS))
    try:
        import lab_newton  # noqa: F401  (says whether it is there)
    except ImportError:
        raise LabError("`lab nerd` needs lab_newton: pip install 'lab_rl[nerd]'.") from None
    return resolve_reference(f"lab_rl.nerd.cli.{argv[0]}:main")(list(argv[1:]))


def _print_help() -> None:
    print(f"usage: lab nerd COMMAND ... [OPTIONS]\n\n{main.__doc__}\n\ncommands:")
    for name, text in _COMMANDS.items():
        print(f"  {name:6}  {text}")
    print(
        "\n`lab nerd COMMAND --help` explains one command.\n\nexample:\n"
        "  lab nerd record Lab-Cartpole-Explore --episodes 2000 --label exploring\n"
        "  lab nerd fit recordings/Lab-Cartpole-Explore"
    )
