"""The answer to "can it?", with the reason why not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Capability:
    """Says whether something can be done; true where it can.

    Whatever may or may not become part of a graph has one, called ``capturable``.

    Attributes:
        ok: Whether it can.
        reason: Why not, in words for a report.
    """

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


CAPABLE = Capability(True)


def all_capable(capabilities: Iterable[Capability]) -> Capability:
    """Returns whether something whose parts have these capabilities can: the first one that cannot says why not."""
    return next((capability for capability in capabilities if not capability), CAPABLE)
