"""Measure the library code: a table with a row per package.

    python tools/measure.py [FOLDER]

FOLDER is a checkout, by default this one: compare two with it. Lines are those of Python files with what is neither
blank nor a comment, documentation included; words such as ``Any`` are counted where they are names, not in text.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from dataclasses import dataclass, fields
from pathlib import Path

import workspace

PRAGMA = re.compile(r"# (pyright|mypy|ruff|type):\s*(?!ignore\[)\S+")


@dataclass
class Figures:
    files: int = 0
    lines: int = 0
    longest_file: int = 0
    longest_function: int = 0
    any: int = 0
    files_with_pragmas: int = 0
    state_exclude: int = 0

    def add(self, other: Figures) -> None:
        for field in fields(self):
            combine = max if field.name.startswith("longest") else sum
            setattr(self, field.name, combine((getattr(self, field.name), getattr(other, field.name))))


def measure_file(text: str) -> Figures:
    """The figures of one Python file."""
    rows = [line.strip() for line in text.splitlines()]
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    names = [token.string for token in tokens if token.type == tokenize.NAME]
    comments = [token for token in tokens if token.type == tokenize.COMMENT and token.line.strip() == token.string]
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return Figures(
        files=1,
        lines=sum(1 for row in rows if row and not row.startswith("#")),
        longest_file=len(rows),
        longest_function=max(((node.end_lineno or 0) - node.lineno + 1 for node in functions), default=0),
        any=names.count("Any") - len(re.findall(r"^from typing import .*\bAny\b", text, re.MULTILINE)),
        files_with_pragmas=int(any(PRAGMA.match(comment.string) for comment in comments)),
        state_exclude=len(re.findall(r"^\s+_state_exclude\b.*=", text, re.MULTILINE)),
    )


def measure(root: Path) -> dict[str, Figures]:
    """The figures of each package of a checkout, and their sum."""
    table = {}
    total = Figures()
    for package in workspace.packages():
        table[package] = Figures()
        for path in (root / "source" / package / package).rglob("*.py"):
            table[package].add(measure_file(path.read_text(encoding="utf-8")))
        total.add(table[package])
    return table | {"all": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=workspace.ROOT)
    table = measure(parser.parse_args().folder)
    names = [field.name for field in fields(Figures)]
    print("| package |", " | ".join(name.replace("_", " ") for name in names), "|")
    print("|---|" + "--:|" * len(names))
    for package, figures in table.items():
        print(f"| {package} |", " | ".join(f"{getattr(figures, name):,}" for name in names), "|")


if __name__ == "__main__":
    main()
