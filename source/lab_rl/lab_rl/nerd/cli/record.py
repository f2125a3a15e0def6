"""``lab nerd record``."""

from __future__ import annotations

from collections.abc import Sequence

from lab_core.cli import record_command


def main(argv: Sequence[str]) -> int:
    """Record every physics step of a task, for ``lab nerd fit``."""
    from lab_core.recorder import physics_step_terms

    return record_command(list(argv), "lab nerd record", _TITLE, physics_step_terms)


_TITLE = "Record every physics step of a task, for `lab nerd fit`."
