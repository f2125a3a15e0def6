"""The ``lab`` command and its helpers."""

from __future__ import annotations

from lab_core.cli.arguments import (
    EnvironmentOptions,
    asks_for_help,
    check_counts,
    is_given,
    option_value,
    resolve_device,
    split_subject,
    split_subjects,
    with_dashes,
)
from lab_core.cli.command import INTERRUPTED, main
from lab_core.cli.console import print_error, print_table, print_warning
from lab_core.cli.overrides import parse
from lab_core.cli.progress import ProgressDisplay
from lab_core.cli.record import record_command

__all__ = [
    "EnvironmentOptions",
    "INTERRUPTED",
    "ProgressDisplay",
    "asks_for_help",
    "check_counts",
    "is_given",
    "main",
    "option_value",
    "parse",
    "print_error",
    "print_table",
    "print_warning",
    "record_command",
    "resolve_device",
    "split_subject",
    "split_subjects",
    "with_dashes",
]
