"""``lab cache``: compiled kernels, carried from one machine to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab_core.cli import parse, split_subjects
from lab_core.errors import LabError


@dataclass(kw_only=True)
class CacheOptions:
    """``lab cache`` has no options."""


def main(argv: Sequence[str]) -> int:
    """Pack compiled kernels into a file, or unpack them, so that another machine need not compile."""
    subjects, arguments = split_subjects(list(argv), CacheOptions)
    parse(CacheOptions(), arguments, prog="lab cache pack|unpack FILE", description=_DESCRIPTION)
    if len(subjects) != 2 or subjects[0] not in ("pack", "unpack"):
        raise LabError("Give `lab cache pack FILE` or `lab cache unpack FILE`.")
    from lab_warp.kernel_cache import cache_folder, pack, unpack

    action, path = subjects[0], Path(subjects[1])
    if action == "pack":
        count = pack(path)
        print(f"Packed {count} kernel modules of {cache_folder()} into {path}")
    else:
        new, known = unpack(path)
        print(f"Unpacked {new} kernel modules into {cache_folder()}; {known} were there already")
    return 0


_DESCRIPTION = (
    "Pack compiled kernels into a file, or unpack them, so that another machine need not compile.\n\n"
    "They serve the same versions of lab, Newton and Warp, and the same kind of processor or GPU; others are compiled "
    "as if they were not there.\n\nExample: lab cache pack kernels.tar.gz"
)
