"""What the settings of the physics may be; nothing is built."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lab_core.config import check_kinds
from lab_core.errors import ConfigError
from lab_newton import MuJoCoSolverCfg, NewtonCfg


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"substeps": 0}, "physics.substeps: got 0, expected int at least 1"),
        ({"contact_gap": -0.1}, "physics.contact_gap: got -0.1, expected finite float at least 0"),
        ({"max_velocity": 0.0}, "physics.max_velocity: got 0.0, expected finite float above 0"),
        (
            {"solver": MuJoCoSolverCfg(impratio=math.inf)},
            "physics.solver.impratio: got inf, expected finite",
        ),
        ({"solver": MuJoCoSolverCfg(iterations=-1)}, "physics.solver.iterations: got -1, expected int at least 1"),
        ({"solver": MuJoCoSolverCfg(ls_iterations=0)}, "physics.solver.ls_iterations: got 0"),
        ({"solver": MuJoCoSolverCfg(tolerance=-1.0)}, "physics.solver.tolerance: got -1.0"),
        ({"solver": MuJoCoSolverCfg(njmax=-1)}, "physics.solver.njmax: got -1, expected int at least 1"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_kinds(NewtonCfg(dt=0.01, **settings), "physics")
