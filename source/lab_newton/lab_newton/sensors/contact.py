"""Contact forces on bodies, read after every solver step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np
import warp as wp

from lab_core.errors import ConfigError
from lab_core.names import match_names
from lab_core.sensors import ContactSensorCfg, ContactSensorData
from lab_newton.sensors import contact_kernels as kernels
from lab_newton.sensors.contact_times import TouchSensor
from lab_newton.sensors.sensor import SensorContext
from lab_newton.solver import Solver
from lab_newton.state import NewtonEntity

TERRAIN = "terrain"
"""Name of the static ground among the filtered parties."""
_FORCES = ("net_forces_w", "net_forces_w_history", "force_matrix_w", "force_matrix_w_history")


class ContactSensor(TouchSensor):
    """Net and filtered contact forces, their history, and how long contacts and flights last.

    The force of a physics substep is the mean over its solver steps, so that force times time is the momentum given.
    """

    def __init__(self, cfg: ContactSensorCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: an entity is unknown, or a length or threshold is impossible.
            UnknownNameError: a body is unknown.
        """
        super().__init__(cfg, name, context)
        if cfg.force_threshold < 0.0:
            raise ConfigError(f"scene.sensors[{name!r}].force_threshold must not be negative: {cfg.force_threshold}.")
        self._parties = [self._party_bodies(party, context.entities) for party in cfg.filter_entities or ()]
        self._solver_steps = context.solver_steps
        self._force_threshold = cfg.force_threshold
        self.data = data = ContactSensorData(cfg, self.num_envs, self.body_names, self.dt, self.torch_device)
        dtypes: dict[str, Any] = {field: wp.vec3 for field in _FORCES if getattr(data, field) is not None}
        self._times = self.share(data, dtypes)
        self._forces = kernels.ForceArrays()
        for field in dtypes:
            setattr(self._forces, field, getattr(data.warp, field))
        self._sums = wp.zeros((*self.dim, 1 + len(self._parties), 3), dtype=wp.int64, device=self.device)

    def _party_bodies(self, party: str, entities: Mapping[str, NewtonEntity]) -> list[int]:
        """Places of a filtered party's bodies in the slice of a world; -1 is what stands still."""
        if party == TERRAIN:
            return [-1]
        name, _, body = party.partition("/")
        if name not in entities:
            known = ", ".join([TERRAIN, *entities])
            raise ConfigError(
                f"scene.sensors[{self.name!r}].filter_entities: there is no {name!r}. There are: {known}; and bodies, "
                "as 'entity/body'."
            )
        layout = entities[name].layout
        if not body:
            return list(layout.body)
        what = f"body of {name!r} (scene.sensors[{self.name!r}].filter_entities)"
        return [layout.body[i] for i in match_names(body, layout.body_names, what=what)]

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        try:
            self._contacts = solver.measure_contacts()
        except ConfigError as error:
            raise ConfigError(f"scene.sensors[{self.name!r}]: {error}") from error
        # Worlds are equal: the geoms of world 0 tell whose they are in every world.
        shapes = self._contacts.shape_of_geom.numpy()[0]
        assert model.shape_body is not None, "a finalized model"
        body_of_geom = np.where(shapes >= 0, model.shape_body.numpy()[shapes], -1)
        row_of_geom = np.full(len(shapes), -1, dtype=np.int32)
        for row, body in enumerate(self.bodies):
            row_of_geom[body_of_geom == body] = row
        is_party = np.stack([np.isin(body_of_geom, bodies) for bodies in self._parties] or [np.zeros(len(shapes))])
        self._row_of_geom = wp.array(row_of_geom, dtype=wp.int32, device=self.device)
        self._is_party = wp.array(is_party.astype(bool), dtype=wp.bool, device=self.device)
        self._sums.zero_()
        self.clear(wp.ones(self.num_envs, dtype=wp.bool, device=self.device))

    def after_solver_step(self) -> None:
        contacts = self._contacts
        wp.launch(
            kernels.add_forces,
            dim=contacts.capacity,
            inputs=[
                contacts.count,
                contacts.world,
                contacts.geom,
                contacts.force,
                self._row_of_geom,
                self._is_party,
                len(self._parties),
            ],
            outputs=[self._sums],
            device=self.device,
        )

    def after_substep(self) -> None:
        wp.launch(
            kernels.update,
            dim=self.dim,
            inputs=[self._sums, 1.0 / self._solver_steps, self._force_threshold, self.dt],
            outputs=[self._forces, self._times],
            device=self.device,
        )

    def clear(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear,
            dim=self.dim,
            inputs=[mask],
            outputs=[self._forces, self._times],
            device=self.device,
        )
