"""Run the gates that every change must pass, all of them or those named.

    python tools/gates.py [NAME ...] [--base REF]

Each gate judges this checkout, not what happens to be installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import workspace

Command = tuple[list[str], Path]  # arguments and the folder to run in


def gates(base: str) -> dict[str, list[Command]]:
    root = workspace.ROOT

    def tool(name: str, *arguments: str) -> list[Command]:
        return [([sys.executable, str(root / "tools" / name), *arguments], root)]

    return {
        "lint": [([workspace.program("ruff"), "check", "."], root)],
        "format": [([workspace.program("ruff"), "format", "--check", "."], root)],
        "types": [([workspace.program("pyright"), "--pythonpath", sys.executable], root)],
        "imports": [([workspace.program("lint-imports"), "--no-logo", "--no-cache"], root)],
        "public-imports": tool("check_public_imports.py"),
        "circles": tool("check_circles.py"),
        "docstrings": tool("check_docstrings.py"),
        "references": tool("check_references.py"),
        "import-time": tool("check_import_time.py"),
        "dependencies": [
            ([workspace.program("deptry"), "."], workspace.package_dir(name)) for name in workspace.packages()
        ],
        "changelog": tool("changelog.py", "check", "--base", base),
    }


def environment() -> dict[str, str]:
    """The environment with this checkout's packages before installed ones."""
    paths = [str(workspace.package_dir(package)) for package in workspace.packages()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> int:
    known = gates("")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--base", default="origin/main", help="revision that the changelog gate compares with")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(known)):
        parser.error(f"no gate {', '.join(unknown)}; there are {', '.join(known)}")
    failed = []
    for name, commands in gates(arguments.base).items():
        if arguments.names and name not in arguments.names:
            continue
        print(f"--- {name}", flush=True)
        results = [subprocess.run(command, cwd=folder, env=environment()) for command, folder in commands]
        if any(result.returncode != 0 for result in results):
            failed.append(name)
    print(f"Gates failed: {', '.join(failed)}" if failed else "Gates passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
