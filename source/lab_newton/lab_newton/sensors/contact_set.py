"""Contacts from geometry, as tokens of a fixed number of places."""

from __future__ import annotations

import newton
import warp as wp

from lab_core.sensors import ContactSetCfg, ContactSetData
from lab_newton.contact_set import ContactSearch, find_parts
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp
from lab_newton.solver import Solver


class ContactSetSensor(Sensor):
    """Shows the contact set that the backend finds before every physics substep."""

    def __init__(self, cfg: ContactSetCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown, or a number cannot be.
        """
        super().__init__(cfg, name, context)
        self._cfg = cfg
        self.contact_search = ContactSearch(cfg.distance, cfg.capacity)
        self.contact_search.check(f"scene.sensors[{name!r}]")
        self.data = self._data = ContactSetData(cfg, self.num_envs, (), self.torch_device)
        share_with_warp(self.data, {"tokens": wp.float32, "excess": wp.float32})

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        assert solver.contact_set is not None, "the backend makes what sensors ask for"
        self._contact_set = solver.contact_set
        self._data.part_names = tuple(find_parts(model, self.entity.layout.body)[1])
        self._data.tokens.zero_()
        self._data.excess.zero_()

    def before_substep(self) -> None:
        wp.copy(self.data.warp.tokens, self._contact_set.tokens)
        wp.copy(self.data.warp.excess, self._contact_set.excess)
