"""What commands share in reading their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab_core.errors import LabError

if TYPE_CHECKING:
    import torch


def split_subject(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The task, file or folder that a command is about, which stands first, and the other arguments."""
    if argv and not argv[0].startswith("-"):
        return argv[0], list(argv[1:])
    return None, list(argv)


def resolve_device(name: str) -> torch.device:
    """The torch device called `name`; `auto` is the first GPU, or the CPU without one.

    Raises `LabError` when there is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LabError(f"Unknown device {name!r}; use cpu, cuda or cuda:<number>.") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            found = f"torch finds {count} GPU{'s' if count != 1 else ''}"
            raise LabError(f"Device {name!r} does not exist: {found}. Use --device cpu to run without.")
        device = torch.device("cuda", device.index or 0)
    elif device.type != "cpu":
        raise LabError(f"Device {name!r} is not supported; use cpu, cuda or cuda:<number>.")
    return device
