"""Dictionaries that say how to change what they show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from lab_core.errors import LabError

ValueT = TypeVar("ValueT")


class ReadOnlyDict(Mapping[str, ValueT]):
    """Shows the items of a mapping, and refuses to be written.

    For what is a view to those who read and would lose, in silence, what they write.
    """

    def __init__(self, items: Mapping[str, ValueT], advice: str) -> None:
        """
        Args:
            items: What it shows; it is not copied.
            advice: Message for those who write: what they hold, and the way that works.
        """
        self._items = items
        self._advice = advice

    def __getitem__(self, name: str) -> ValueT:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        """Stands for every method that would write.

        Raises:
            LabError: always.
        """
        del kwargs
        name = f" {args[0]!r}" if args and isinstance(args[0], str) else ""
        raise LabError(f"Nothing writes{name} here: {self._advice}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = setdefault = clear = _refuse
