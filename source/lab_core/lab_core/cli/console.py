"""Messages and tables of the ``lab`` command: coloured on a terminal, plain and unwrapped elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


def print_error(message: str) -> None:
    """Print ``message`` in red on standard error."""
    _print_to_stderr(f"error: {message}", "bold red")


def print_warning(message: str) -> None:
    """Print ``message`` in yellow on standard error."""
    _print_to_stderr(f"warning: {message}", "yellow")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` below ``columns``; without a terminal one line per row, in aligned columns."""
    console = Console()
    if console.is_terminal:
        names = [columns[0], *(row[0] for row in rows)]
        table = Table(Column(columns[0], no_wrap=True, min_width=max(map(len, names))), *columns[1:])
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table, crop=False)  # a name is there to be copied, whole, also from a narrow terminal
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_to_stderr(message: str, style: str) -> None:
    Console(stderr=True).print(Text(message, style=style), soft_wrap=True)
