"""Plain keyword-only dataclasses as configuration: completeness, YAML files and overrides."""

from __future__ import annotations

from lab_core.config.kinds import check_kinds
from lab_core.config.limits import (
    Finite,
    Interval,
    NonNegative,
    NonNegativeInt,
    Ordered,
    Positive,
    PositiveInt,
    Share,
    Within,
)
from lab_core.config.mapping import (
    changes_between,
    differences_between,
    equal_values,
    same_values,
    to_dict,
    update_from_dict,
)
from lab_core.config.missing import MISSING, check_complete, missing_fields
from lab_core.config.references import package_path, reference_to, resolve_reference
from lab_core.config.settings import Settings
from lab_core.config.signatures import parameter_types
from lab_core.config.yaml_files import config_hash, dump_yaml, load_yaml, parse_yaml, save_yaml

__all__ = [
    "Finite",
    "Interval",
    "MISSING",
    "NonNegative",
    "NonNegativeInt",
    "Ordered",
    "Positive",
    "PositiveInt",
    "Settings",
    "Share",
    "Within",
    "changes_between",
    "check_complete",
    "check_kinds",
    "config_hash",
    "differences_between",
    "dump_yaml",
    "equal_values",
    "load_yaml",
    "parse_yaml",
    "missing_fields",
    "package_path",
    "parameter_types",
    "reference_to",
    "resolve_reference",
    "same_values",
    "save_yaml",
    "to_dict",
    "update_from_dict",
]
