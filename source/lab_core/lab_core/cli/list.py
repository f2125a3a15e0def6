"""``lab list``: which tasks are installed."""

from __future__ import annotations

from dataclasses import dataclass

from lab_core.cli.console import print_table, print_warning
from lab_core.cli.overrides import parse
from lab_core.errors import PluginError
from lab_core.registry import get_task, task_ids, task_package


@dataclass(kw_only=True)
class ListArgs:
    """Options of ``lab list``."""

    keyword: str = ""
    """Show only tasks with this in their id or description (upper or lower case)."""


def main(argv: list[str]) -> int:
    """List the tasks that the installed packages offer."""
    args = parse(ListArgs(), argv, prog="lab list", description=f"{main.__doc__}\n\nExample: lab list --keyword go2")
    rows, problems = [], []
    for task_id in task_ids():
        try:
            spec = get_task(task_id)
        except PluginError as error:
            problems.append(str(error))
            continue
        if args.keyword.lower() in f"{task_id} {spec.description}".lower():
            rows.append((task_id, task_package(task_id), ", ".join(spec.agents), spec.description))
    if rows:
        print_table(("task", "package", "agents", "description"), rows)
    else:
        print(f"no task matches {args.keyword!r}" if args.keyword else "no task is installed")
    for problem in problems:
        print_warning(problem)
    return 0
