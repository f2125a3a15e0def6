"""Gate: docstrings are reStructuredText. Code stands in double backticks, names in roles.

    python tools/check_docstrings.py [--fix]

A single pair of backticks is Markdown, which reStructuredText takes for a reference. ``--fix`` doubles it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import workspace

FOLDERS = ("source", "tools", "scripts")
# Neither the end of a role (:func:`name`), nor half of a double backtick, nor a link (`text <address>`_).
MARKDOWN = re.compile(r"(?<![`:\w])`([^`\n]+)`(?![`_\w])")


def docstrings(text: str) -> Iterator[tuple[int, int]]:
    """First and last line of each docstring, and of each string that documents an attribute."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def findings(text: str) -> list[tuple[int, str]]:
    """Line number and what stands there in single backticks."""
    lines = text.splitlines()
    return [
        (number, found[0])
        for first, last in docstrings(text)
        for number in range(first, last + 1)
        for found in MARKDOWN.finditer(lines[number - 1])
    ]


def fixed(text: str) -> str:
    """The text with the findings in double backticks."""
    lines = text.splitlines(keepends=True)
    for number in {number for number, _ in findings(text)}:
        lines[number - 1] = MARKDOWN.sub(r"``\1``", lines[number - 1])
    return "".join(lines)


def python_files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (workspace.ROOT / folder).rglob("*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="double the backticks")
    fix = parser.parse_args().fix
    count = 0
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        for line, what in findings(text):
            count += 1
            if not fix:
                print(f"{path.relative_to(workspace.ROOT)}:{line}: {what} is Markdown; write `{what}`")
        if fix and fixed(text) != text:
            path.write_text(fixed(text), encoding="utf-8")
    if not count:
        print("Docstrings: all reStructuredText.")
    return 1 if count and not fix else 0


if __name__ == "__main__":
    sys.exit(main())
