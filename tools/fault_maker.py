"""Faults made from the syntax of the code: what a tired author writes, at places chosen at random."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import workspace

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
CLIPS = ("clamp", "clip", "clamp_", "clip_")
SWAPS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Edit:
    """Characters ``start`` to ``end`` of a file become ``new``."""

    start: int
    end: int
    new: str
    what: str


class Source:
    """A file's text, with the places of its syntax as offsets into it."""

    def __init__(self, text: str):
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """``column`` counts bytes, as ast does."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0),
        )

    def code(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def edits(self) -> Iterator[Edit]:
        """All faults that fit into this file, outside of documentation and annotations."""
        for function in ast.walk(ast.parse(self.text)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for statement in function.body:
                    for node in ast.walk(statement):
                        yield from self._edits_of(node)

    def _edits_of(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            new = f"{self.code(node.left)} {COMPARISONS[type(node.ops[0])]} {self.code(node.comparators[0])}"
            yield Edit(*self.span(node), new, "another comparison")
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            start, end = self.span(node.left)[1], self.span(node.right)[0]
            old, new = OPERATORS[type(node.op)]
            if self.text[start:end].count(old) == 1:
                yield Edit(start, end, self.text[start:end].replace(old, new), "another operation")
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            start, end = self.span(node.values[0])[1], self.span(node.values[1])[0]
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield Edit(start, end, self.text[start:end].replace(*words), "another connection")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Edit(*self.span(node), f"({self.code(node.operand)})", "no negation")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield Edit(*self.span(node), str(not node.value), "the other truth")
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            yield Edit(*self.span(node), repr(node.value + 1), "one more")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield Edit(*self.span(node), "pass", "a call left out")
        elif isinstance(node, ast.Call):
            yield from self._edits_of_call(node)

    def _edits_of_call(self, node: ast.Call) -> Iterator[Edit]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CLIPS and isinstance(node.func, ast.Attribute):
            owner = self.code(node.func.value)
            if owner not in ("torch", "wp", "np", "math"):
                yield Edit(*self.span(node), owner, "no clip")
            elif node.args:
                yield Edit(*self.span(node), self.code(node.args[0]), "no clip")
        if name in SWAPS:
            end = self.span(node.func)[1]
            yield Edit(end - len(name), end, SWAPS[name], f"{SWAPS[name]} for {name}")
        if len(node.args) >= 2 and not any(isinstance(arg, ast.Starred) for arg in node.args[:2]):
            first, second = node.args[:2]
            (start, _), (_, end) = self.span(first), self.span(second)
            if self.code(first) != self.code(second):
                yield Edit(start, end, f"{self.code(second)}, {self.code(first)}", "arguments swapped")


def unique_context(text: str, edit: Edit, package_text: str) -> tuple[str, str] | None:
    """The lines of the edit, before and after, with as many around them as it takes to be the package's only ones."""
    lines = text.splitlines(keepends=True)
    first, last = text.count("\n", 0, edit.start), text.count("\n", 0, edit.end)
    for around in range(6):
        low, high = max(0, first - around), min(len(lines), last + 1 + around)
        start, end = sum(map(len, lines[:low])), sum(map(len, lines[:high]))
        old = text[start:end]
        if package_text.count(old) == 1:
            return old, text[start : edit.start] + edit.new + text[edit.end : end]
    return None


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def files_of(package: str) -> list[Path]:
    return sorted((workspace.package_dir(package) / package).rglob("*.py"))


def tests_for(package: str, path: Path) -> tuple[str, ...]:
    """The quick test modules of the folder of tests that mirrors the file's, of the whole package where none does."""
    tests = workspace.package_dir(package) / "tests"
    inside = path.relative_to(workspace.package_dir(package) / package).parent
    folder = next(
        (tests / part for part in (inside, *inside.parents) if any((tests / part).glob("**/test_*.py"))), tests
    )
    return tuple(sorted(test.name for test in folder.glob("**/test_*.py")))


def make(count: int, seed: int, words: list[str]) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """``count`` faults as package, name, old text, new text and tests, spread over the files that ``words`` choose."""
    rng = random.Random(seed)
    files = [
        (package, path)
        for package in workspace.packages()
        for path in files_of(package)
        if not words or any(word in str(path.relative_to(workspace.ROOT)) for word in words)
    ]
    texts = {name: "".join(map(read, files_of(name))) for name in workspace.packages()}
    rng.shuffle(files)
    while count > 0 and files:
        package, path = files.pop()
        source = Source(read(path))
        edits = list(source.edits())
        if not edits:
            continue
        edit = rng.choice(edits)
        if context := unique_context(source.text, edit, texts[package]):
            line = source.text.count("\n", 0, edit.start) + 1
            place = f"{path.relative_to(workspace.package_dir(package) / package)}:{line}"
            yield package, f"{place}: {edit.what}", *context, tests_for(package, path)
            count -= 1
