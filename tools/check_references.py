"""Gate: strings respect the import order too, and every "module:attribute" string of ours resolves.

import-linter sees import statements only. A string such as "lab_core.registry:get_task", in code or in an entry
point, is an import at run time and obeys the same order. Docstrings are prose and are left out.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path

import workspace

OPTIONAL = {"physicsnemo"}
"""What an entry point may import when it is used, and only an extra installs."""
REFERENCE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*")


def code_strings(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and value of each string of a Python file that is not a docstring or bare statement."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def package_strings(package: str) -> Iterator[tuple[str, str]]:
    """Place and value of each string in the package's code and entry points."""
    folder = workspace.package_dir(package)
    for path in sorted((folder / package).rglob("*.py")):
        for line, text in code_strings(path):
            yield f"{path.relative_to(workspace.ROOT)}:{line}", text
    project = workspace.project(package)
    groups = {"scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    for group, entries in groups.items():
        for name, target in entries.items():
            yield f"{(folder / 'pyproject.toml').relative_to(workspace.ROOT)} [{group}] {name}", target


def named_packages(text: str) -> set[str]:
    """The packages of this workspace that a string names, in either spelling (lab_core, lab-core)."""
    names = "|".join(name.replace("_", "[_-]") for name in workspace.packages())
    return {found.replace("-", "_") for found in re.findall(rf"(?<![\w-])({names})(?![\w-])", text)}


@cache
def resolution_error(reference: str) -> str | None:
    """Why "module:attribute" cannot be resolved, or None when it can."""
    module, _, attribute = reference.partition(":")
    try:
        reduce(getattr, attribute.split("."), importlib.import_module(module))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        return None if missing in OPTIONAL else f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever the imported module raises is the finding
        return f"{type(error).__name__}: {error}"
    return None


def problems() -> Iterator[str]:
    for package in workspace.packages():
        allowed = workspace.importable_from(package)
        for place, text in package_strings(package):
            named = named_packages(text)
            for name in sorted(named - allowed):
                yield f"{place}: {text!r} names {name}; {package} may name only {', '.join(sorted(allowed))}"
            if named and REFERENCE.fullmatch(text) and (error := resolution_error(text)):
                yield f"{place}: {text!r} does not resolve ({error})"


def main() -> int:
    found = list(problems())
    print("\n".join(found) or "String references: all resolve and point one way.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
