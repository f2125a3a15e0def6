"""The gate after building: what MuJoCo compiles is what is simulated, or nothing is."""

from __future__ import annotations

from collections.abc import Mapping

from newton.solvers import SolverMuJoCo

from lab_core.errors import ConfigError
from lab_newton.robot_files.comparison import compare
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.matching import Matching

_SHOWN = 12


def verify(solver: SolverMuJoCo, imported: Mapping[str, ImportedFile], self_collision: Mapping[str, bool]) -> None:
    """Compares every entity of the built model with what MuJoCo makes of its file.

    Args:
        solver: What steps the model.
        imported: Entity -> its file; those that MuJoCo does not read are passed over.
        self_collision: Entity -> whether it may touch itself.

    Raises:
        ConfigError: something differs that is not meant to; names entity, element, field and both values.
    """
    for name, one in imported.items():
        if one.file is None:
            continue
        found = compare(one, Matching(solver, one), self_collision[name])
        if found:
            listed = "".join(f"\n  - {difference}" for difference in found[:_SHOWN])
            more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise ConfigError(
                f"Entity {name!r}: {str(one.file.path)!r} cannot be simulated as MuJoCo compiles it:{listed}{more}"
            )
