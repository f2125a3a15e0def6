"""The marker of a value that the user must still give, and the check that none is left."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from lab_core.errors import IncompleteConfigError


class _Missing:
    """Type of ``MISSING``. There is one instance, also after copying and unpickling."""

    _instance: Self | None = None

    def __new__(cls) -> Self:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        raise TypeError("MISSING has no truth value; compare with `is MISSING`")

    def __reduce__(self) -> str:
        return "MISSING"  # copy and pickle both take this as "the global of that name"


MISSING: Final[Any] = _Missing()
"""Default of a required field. Typed ``Any``, so that it fits any annotation."""


def missing_fields(cfg: object) -> list[str]:
    """Dotted paths of all ``MISSING`` values in dataclasses, mappings, lists and tuples, e.g. ``terms.alive.func``."""
    return list(_missing_fields(cfg, ""))


def check_complete(cfg: object) -> None:
    """Raise ``IncompleteConfigError`` naming every value of ``cfg`` that is still ``MISSING``."""
    holes = missing_fields(cfg)
    if holes:
        listing = "".join(f"\n  {hole or '(the whole configuration)'}" for hole in holes)
        raise IncompleteConfigError(f"{type(cfg).__name__} is incomplete; give a value to:{listing}")


def _missing_fields(value: object, path: str) -> Iterator[str]:
    if value is MISSING:
        yield path
        return
    for key, child in children(value):
        yield from _missing_fields(child, join(path, key))


def children(value: object) -> Iterator[tuple[str | int, object]]:
    """The named (dataclass fields, mapping keys) or numbered (list, tuple) entries of ``value``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield str(key), child
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)


def join(path: str, key: str | int) -> str:
    """``path`` extended by one step: ``a`` and ``b`` give ``a.b``, ``a`` and ``1`` give ``a[1]``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
