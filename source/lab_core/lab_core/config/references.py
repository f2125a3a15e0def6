"""What packages hold, as text: functions and classes (``module:qualname``), files (``package:path/inside/package``)."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from lab_core.errors import ConfigError, nearest

_packages: ContextVar[Collection[str] | None] = ContextVar("packages", default=None)
"""Top-level packages that references may name; None: any."""
_NAMES_A_PACKAGE = re.compile(r"([A-Za-z_]\w*)(\.\w+)*:[A-Za-z_]\S*")
_IS_A_FILE = re.compile(r"\w+:[^:/]+(/[^:/]+)+")
"""No name in Python: a file in a folder of a package, which is found without importing that."""


@contextmanager
def imports_only_from(packages: Collection[str] | None) -> Iterator[None]:
    """Inside, references may name only these top-level packages. None: any."""
    token = _packages.set(packages)
    try:
        yield
    finally:
        _packages.reset(token)


def check_text(text: str) -> None:
    """Raises ``ConfigError`` for text in the form of a reference to a package that must not be imported."""
    found = _NAMES_A_PACKAGE.fullmatch(text)
    if found and not _IS_A_FILE.fullmatch(text):
        _check_package(found[1], text)


def _check_package(module: Any, reference: str) -> None:
    packages = _packages.get()
    package = str(module).partition(".")[0]
    if packages is not None and package not in packages:
        raise ConfigError(
            f"{reference!r} is code of {package!r}, which announces no tasks or commands of lab "
            f"({', '.join(sorted(packages))} do). If you trust what the file would run, read it with --trust"
        )


def reference_to(obj: Any) -> str:
    """``module:qualname`` of an importable function or class.

    Raises ``ConfigError`` for what cannot be imported by name again: lambdas, local functions, callable objects.
    """
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not module or not name:
        raise ConfigError(f"{obj!r} has no importable name; use a function or class defined in a module")
    reference = f"{module}:{name}"
    if "<" in name:  # <lambda>, <locals>
        kind = "a lambda" if name.endswith("<lambda>") else "defined inside a function"
        raise ConfigError(f"{reference} is {kind} and cannot be imported again; define it at the top of a module")
    try:
        found = resolve_reference(reference)
    except ConfigError as error:
        raise ConfigError(f"{obj!r} cannot be imported again: {error}") from None
    if found is not obj and found != obj:
        raise ConfigError(f"{reference} names {found!r}, not {obj!r}")
    return reference


def resolve_reference(reference: str) -> Any:
    """Import what ``module:qualname`` names.

    Raises ``ConfigError`` saying which part does not exist, or what :func:`imports_only_from` does not allow.
    """
    module_name, separator, qualname = reference.partition(":")
    if not (module_name and separator and all(name.isidentifier() for name in qualname.split("."))):
        raise ConfigError(f"{reference!r} is not of the form 'module:name'")
    _check_package(module_name, reference)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(f"cannot import module {module_name!r}: {type(error).__name__}: {error}") from error
    found: Any = module
    for name in qualname.split("."):
        if not hasattr(found, name):
            close = nearest(name, vars(found))
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ConfigError(f"{module_name!r} has no {qualname!r}{hint}")
        found = getattr(found, name)
    _check_package(getattr(found, "__module__", None), reference)  # not os.system, which a module may have imported
    return found


def package_path(reference: str) -> Path:
    """The file that ``package:path/inside/package`` names, which need not exist. The package is not imported.

    Raises ``ConfigError`` when there is no such package.
    """
    package, _, inside = reference.partition(":")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"{reference!r}: there is no package {package!r}.")
    return Path(next(iter(spec.submodule_search_locations))) / inside
