"""Plain keyword-only dataclasses as configuration: completeness, YAML files and overrides."""

from __future__ import annotations

from lab_core.config.missing import MISSING, check_complete, missing_fields

__all__ = ["MISSING", "check_complete", "missing_fields"]
