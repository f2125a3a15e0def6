"""What engines say while they read and build, with the name of what they speak of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def told_of(subject: str) -> Iterator[None]:
    """Puts ``subject`` before each warning that is given inside, once, and repeats it behind; deprecations stay alone.

    Args:
        subject: Entity and file, such as ``Entity 'robot': 'arm.xml'``.
    """
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for category, words in dict.fromkeys((one.category, str(one.message)) for one in caught):
            is_about_code = issubclass(category, DeprecationWarning)
            warnings.warn(words if is_about_code else f"{subject}: {words}", category, stacklevel=3)
