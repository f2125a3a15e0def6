"""Files that name code, of which only that of installed packages is imported unless somebody trusts the file.

The configuration of a run or a recording names functions and classes. To import a module is to run it, so a file from
somebody else could run anything that lies on the path. What may be imported are packages that announce something to
``lab`` through an entry point, such as tasks or commands, and those of tasks that this process registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lab_core.config.references import imports_only_from
from lab_core.registry import announced_packages

_trusts_files: ContextVar[bool] = ContextVar("trusts_files", default=False)


@contextmanager
def trust_files(trust: bool = True) -> Iterator[None]:
    """Inside, files may name any code, as with ``--trust``."""
    token = _trusts_files.set(trust)
    try:
        yield
    finally:
        _trusts_files.reset(token)


@contextmanager
def reading_a_file() -> Iterator[None]:
    """Inside, references are resolved only within announced packages, unless :func:`trust_files` surrounds it."""
    with imports_only_from(None if _trusts_files.get() else announced_packages()):
        yield
