"""Select the test jobs for a change: prints a JSON list of {"name", "tests"} for the CI matrix.

    git diff --name-only BASE HEAD | python tools/ci_jobs.py

A package that others build on runs every job, and so does anything that is not known to be harmless: the tools, the
root configuration, an empty list. A leaf package runs its own tests, and those of the tools, which read the files of
every package. Documentation runs none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

import workspace

# Tests that reach sideways through the task registry, where no declared dependency shows it.
ALSO_TESTED_BY = {"lab_tasks": {"lab_rl"}}

# Tests that read the files of every package: documents name what exists, listed faults and gates hold everywhere.
READS_ALL_PACKAGES = "tools"

DOCUMENTATION = ("docs", "LICENSE")


def jobs() -> dict[str, str]:
    """Each job's name and its folder of tests."""
    return {package: f"source/{package}/tests" for package in workspace.packages()} | {"tools": "tools/tests"}


def job_of(test_file: str) -> str | None:
    """The job that runs a test file, None when no job does."""
    path = PurePosixPath(test_file)
    return next((name for name, folder in jobs().items() if path.is_relative_to(folder)), None)


def jobs_for(path: str) -> set[str]:
    """The jobs that a change of one file asks for."""
    parts = PurePosixPath(path).parts
    if parts[0] in DOCUMENTATION or path.endswith(".md"):
        return set()
    package = parts[1] if len(parts) > 2 and parts[0] == "source" else None
    if package not in workspace.packages() or is_hub(package):
        return set(jobs())
    return {package, READS_ALL_PACKAGES} | ALSO_TESTED_BY.get(package, set())


def is_hub(package: str) -> bool:
    """Whether another package of the workspace builds on this one."""
    return any(package in workspace.siblings(other) for other in workspace.packages())


def select(changed: Iterable[str]) -> list[str]:
    """Names of the jobs to run for the changed paths, in their fixed order."""
    paths = [path for path in changed if path]
    chosen = set().union(*map(jobs_for, paths)) if paths else set(jobs())
    return [name for name in jobs() if name in chosen]


def main() -> int:
    chosen = select(sys.stdin.read().splitlines())
    print(json.dumps([{"name": name, "tests": jobs()[name]} for name in chosen]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
