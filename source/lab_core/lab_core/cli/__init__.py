"""The `lab` command and its helpers."""

from __future__ import annotations

from lab_core.cli.command import main

__all__ = ["main"]
