"""What cannot be imagined."""

from __future__ import annotations

from collections.abc import Mapping

from lab_core.managers import TermError


class ImaginationError(TermError):
    """Terms need more than imagination has, or were asked for something that was not given.

    Attributes:
        reasons: Term, as in ``"reward term 'feet_air_time'"`` -> why not.
    """

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = dict(reasons or {})
