"""Which numbers a setting may be, beyond its type: metadata of annotations, such as ``Annotated[float, Within(0.0)]``.

:func:`lab_core.config.check_kinds` and the options of commands read them, in fields of configurations and in the
parameters of terms. They mean nothing to type checkers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Within:
    """Allows finite numbers from ``low`` to ``high``, with ``low`` and ``high`` themselves unless ``is_open``."""

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False

    def allows(self, value: float) -> bool:
        """Returns whether a number is one of them; NaN never is."""
        inside = self.low < value < self.high if self.is_open else self.low <= value <= self.high
        return inside and math.isfinite(value)

    def __str__(self) -> str:
        if math.isinf(self.low):
            return ""
        if math.isinf(self.high):
            return f"{'above' if self.is_open else 'at least'} {self.low:g}"
        between = "between" if self.is_open else "in"
        return f"{between} {self.low:g} {'and' if self.is_open else '..'} {self.high:g}"


@dataclass(frozen=True)
class Ordered:
    """Allows pairs ``(low, high)`` with ``low <= high``, which may be infinite."""

    def allows(self, value: Sequence[float]) -> bool:
        """Returns whether a pair is one of them."""
        return value[0] <= value[1]

    def __str__(self) -> str:
        return "(low, high) with low <= high"


Limit = Within | Ordered

Finite = Annotated[float, Within()]
Positive = Annotated[float, Within(0.0, is_open=True)]
NonNegative = Annotated[float, Within(0.0)]
Share = Annotated[float, Within(0.0, 1.0)]
PositiveInt = Annotated[int, Within(1)]
NonNegativeInt = Annotated[int, Within(0)]
Interval = Annotated[tuple[float, float], Ordered()]
"""The numbers from the first to the second."""
