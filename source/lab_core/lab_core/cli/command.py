"""The ``lab`` command: finds its sub-commands in the installed packages and runs one."""

from __future__ import annotations

import ast
import importlib.util
import os
import select
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import InspectLoader
from importlib.machinery import PathFinder
from typing import TextIO

from lab_core.cli.interrupts import lasting_interrupts
from lab_core.errors import LabError, nearest
from lab_core.registry import EntryPointGroup
from lab_core.trust import trust_files

COMMANDS = EntryPointGroup("lab.commands", "command")

INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
UNREAD = 141
"""Exit code when nobody reads the output any more, as after ``lab list | head -1``; as of a shell."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``lab`` with ``argv`` (default: the process's own arguments) and return its exit code.

    0 success, 1 an error that users can act upon (``LabError``, printed in one line; all of it with ``LAB_DEBUG=1``),
    2 a wrong command or option, 130 Ctrl-C, 141 when the reader of its output has gone.
    """
    if "" not in sys.path:  # last, so that `module:function` finds files of the present folder and hides nothing
        sys.path.append("")
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    try:
        try:
            with lasting_interrupts():
                return _run(list(sys.argv[1:] if argv is None else argv))
        finally:  # here, and not when Python ends, where nothing can be done about an error
            for stream in streams:
                stream.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        unread = [stream for stream in streams if _is_unread(stream)]
        if not unread:
            raise
        with open(os.devnull, "w") as nowhere:
            for stream in unread:  # Python will flush them once more
                os.dup2(nowhere.fileno(), stream.fileno())
        return UNREAD


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        _print_help()
        return 0
    if argv[0] == "--version":
        _print_versions()
        return 0
    name, arguments = argv[0], argv[1:]
    if name not in COMMANDS.names():
        _print_unknown(name)
        return 2
    try:
        with trust_files("--trust" in arguments):
            return COMMANDS.load(name)(arguments) or 0
    except LabError as error:
        if os.environ.get("LAB_DEBUG", "0") not in ("", "0"):
            traceback.print_exc()
        from lab_core.cli.console import print_error

        print_error(str(error))
        _print_hint(arguments)
        return 1
    except SystemExit as refusal:
        if refusal.code == 2:
            _print_hint(arguments)
        raise
    except KeyboardInterrupt:
        from lab_core.cli.console import print_error

        print_error("interrupted")
        return INTERRUPTED


def _print_hint(refused: Sequence[str]) -> None:
    """Helps those who come from Isaac Lab."""
    from lab_core.cli.hints import foreign_option

    if hint := foreign_option(refused):
        print(f"Hint: {hint}", file=sys.stderr)


def _is_unread(stream: TextIO) -> bool:
    """Whether ``stream`` is a pipe whose reader has gone."""
    try:
        descriptor = stream.fileno()
    except OSError:  # not a file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _print_help() -> None:
    names = COMMANDS.names()
    width = max(map(len, names), default=0)
    lines = [f"  {name:{width}}  {_summary(name)}" for name in names]
    print("usage: lab COMMAND [OPTIONS]\n\nTrain, watch and export robot policies.\n\ncommands:")
    print("\n".join(lines) or "  (none installed)")
    print("\noptions:\n  -h, --help  this text; `lab COMMAND --help` explains one command")
    print("  --version   versions of the installed packages")
    print("\nexample:\n  lab list")


def _summary(command: str) -> str:
    """First line of the docstring of a command's function or else its module, read without importing them."""
    try:
        module, _, function = COMMANDS.entry_point(command).value.partition(":")
        source = _source(module)
    except Exception as error:
        return f"(not available: {error})"
    tree = ast.parse(source)
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    text = ast.get_docstring(next(functions, tree)) or ast.get_docstring(tree) or ""
    return text.partition("\n")[0]


def _source(module: str) -> str:
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    for part in parts:  # step by step: find_spec("a.b") would import a, which may take long
        inside = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(f"{package}.{part}", inside) if inside else None
        package = f"{package}.{part}"
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
    if source is None:
        raise ModuleNotFoundError(f"no module named {module!r}")
    return source


def _print_unknown(name: str) -> None:
    from lab_core.cli.console import print_error

    close = nearest(name, COMMANDS.names())
    hint = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
    print_error(f"unknown command {name!r}.{hint} `lab --help` lists all commands.")


def _print_versions() -> None:
    from lab_core.cli.info import lab_versions

    for package, version in lab_versions().items():
        print(package, version)
