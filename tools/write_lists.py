"""Writes docs/terms.md: the terms, and the fields of a robot's data, out of the code and its docstrings.

Usage::

    python tools/write_lists.py           # writes it
    python tools/write_lists.py --check   # exit code 1 if it is not up to date
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import workspace
from lab_core import mdp
from lab_core.mdp import curriculums, events, metrics, observations, rewards, terminations
from lab_core.scene import ArticulationData
from lab_core.scene.buffers import Buffer, Kind
from lab_warp.twins import find_twin
from lab_warp.views import DTYPES

TARGET = workspace.ROOT / "docs" / "terms.md"
MODULES = {
    "Observations": observations,
    "Rewards": rewards,
    "Terminations": terminations,
    "Events": events,
    "Curricula": curriculums,
    "Metrics": metrics,
}
HEAD = """# Terms and data

What `lab_core.mdp` offers, and what terms read. `tools/write_lists.py` writes this file out of the code.

N is the number of environments, J of joints, B of bodies. `_w` is the world frame, `_b` the root-link frame, or the
body's own for fields of bodies. A term has a twin where the Warp front end runs it as a kernel; others run there as
torch functions.
"""
LEADING = ("env", "mask", "self")


def write() -> str:
    """Returns the document."""
    parts = [HEAD, "## Data of an articulation\n", *_table(("Field", "Shape", "Unit", "Warp type", "Is"), _fields())]
    for title, module in MODULES.items():
        terms = _terms(module)
        parts += [f"\n## {title}\n", *_table(("Term", "Parameters", "Twin", "Is"), map(_term_row, terms))]
    return "\n".join(parts) + "\n"


def _fields() -> Iterator[tuple[str, ...]]:
    for cls in reversed(ArticulationData.__mro__):
        texts = _texts_of(cls)
        for name, buffer in vars(cls).items():
            if isinstance(buffer, Buffer):
                yield f"`{name}`", _shape(buffer), buffer.unit, _warp_type(buffer.kind), texts.get(name, "")


def _shape(buffer: Buffer) -> str:
    rows = {"root": (), "joint": ("J",), "body": ("B",)}[buffer.per]
    return f"({', '.join(map(str, ('N', *rows, *buffer.kind.shape)))}{'' if rows or buffer.kind.shape else ','})"


def _warp_type(kind: Kind) -> str:
    return f"`{DTYPES[kind].__name__}`"


def _terms(module: Any) -> list[Callable[..., Any]]:
    """Returns what the module defines and ``lab_core.mdp`` offers as a term, in the order of the module."""
    offered = {getattr(mdp, name) for name in mdp.__all__}
    found = [value for value in vars(module).values() if inspect.isfunction(value) or _is_class_term(value)]
    return [value for value in found if value in offered and value.__module__ == module.__name__]


def _is_class_term(value: Any) -> bool:
    return isinstance(value, type) and "__call__" in vars(value)


def _term_row(term: Callable[..., Any]) -> tuple[str, ...]:
    called = vars(term)["__call__"] if isinstance(term, type) else term
    names = [name for name in inspect.signature(called).parameters if name not in LEADING]
    return (
        f"`{term.__name__}`",
        ", ".join(f"`{name}`" for name in names),
        "yes" if find_twin(term) else "",
        _summary(inspect.getdoc(term) or ""),
    )


def _summary(docstring: str) -> str:
    """Returns the first paragraph, as Markdown in one line."""
    text = " ".join(docstring.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
    while ":`" in text:  # a role, such as :func:`name`
        before, _, after = text.partition(":`")
        text = f"{before.rpartition(':')[0]}`{after}"
    return text


def _texts_of(cls: type) -> dict[str, str]:
    """Returns field -> the string below it in the body of the class."""
    if cls.__module__.startswith("builtins"):
        return {}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.targets[0].id: _summary(inspect.cleandoc(text.value.value))
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.Assign) and isinstance(field.targets[0], ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _table(columns: tuple[str, ...], rows: Any) -> list[str]:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def main() -> int:
    text = write()
    if "--check" in sys.argv:
        return 0 if TARGET.is_file() and TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
