"""Telling a solver that properties of entities were written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lab_core.errors import LabError
from lab_newton.solver import Solver
from lab_newton.state import NewtonEntity
from lab_warp import CaptureContext, CapturedStage


class PropertyNotices:
    """Writes changed properties of entities into the model, and tells its solver, by a captured stage per entity."""

    def __init__(
        self, entities: Mapping[str, NewtonEntity], solver: Callable[[], Solver], context: CaptureContext
    ) -> None:
        """Takes the entities, what gives the present solver, and where stages are captured."""
        self._entities, self._solver, self._context = entities, solver, context
        self._stages: dict[str, CapturedStage] = {}

    def tell(self, entity: str, properties: Sequence[str]) -> None:
        """Tells of ``properties`` of ``entity``.

        Raises:
            LabError: the solver cannot change one of them in a built model.
        """
        known, solver = self._entities[entity].properties, self._solver()
        flags = known.flags(properties)
        refused = [name for name in properties if known.flags([name]) & ~solver.changeable]
        if refused:
            raise LabError(f"The solver, {solver.name}, cannot change {', '.join(refused)} of a built model.")
        if entity not in self._stages:
            self._stages[entity] = CapturedStage(
                partial(self._write, entity), self._context, name=f"notify {entity}", max_captures=16
            )
        self._stages[entity](flags)

    def _write(self, entity: str, flags: int) -> None:
        self._entities[entity].properties.write(flags)
        self._solver().notify(flags)
