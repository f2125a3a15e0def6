"""Gaps of bodies, from the contacts that geometry shows before every physics step."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from lab_core.errors import ConfigError
from lab_core.sensors import GapSensorCfg, GapSensorData
from lab_newton.arrays import present
from lab_newton.contact_set import ContactSearch
from lab_newton.sensors import gap_kernels as kernels
from lab_newton.sensors.contact_times import TouchSensor
from lab_newton.sensors.sensor import SensorContext
from lab_newton.solver import Solver

_DTYPES: dict[str, Any] = {"min_gap": wp.float32, "touch_history": wp.bool}


class GapSensor(TouchSensor):
    """Smallest gaps, touches, and how long those last; works with every solver, as nobody is asked for forces."""

    def __init__(self, cfg: GapSensorCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown, or a length or distance is impossible.
            UnknownNameError: a body is unknown.
        """
        super().__init__(cfg, name, context)
        if not cfg.touch_threshold < cfg.distance:
            raise ConfigError(
                f"scene.sensors[{name!r}].touch_threshold must be smaller than distance, or everything would touch: "
                f"got {cfg.touch_threshold} and {cfg.distance}."
            )
        self.contact_search = ContactSearch(cfg.distance, cfg.capacity)
        self.contact_search.check(f"scene.sensors[{name!r}]")
        self._cfg = cfg
        self.data = data = GapSensorData(cfg, self.num_envs, self.body_names, self.dt, self.torch_device)
        self._times = self.share(data, _DTYPES)
        self._gaps = kernels.GapArrays()
        for field in _DTYPES:
            setattr(self._gaps, field, getattr(data.warp, field))
        self._closest = wp.zeros(self.dim, dtype=wp.float32, device=self.device)

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        assert solver.contact_set is not None, "the backend makes what sensors ask for"
        self._contact_set = solver.contact_set
        self._shape_body = present(model.shape_body)
        row_of_body = np.full(model.body_count // self.num_envs, -1, dtype=np.int32)
        row_of_body[self.bodies] = np.arange(len(self.bodies))
        self._row_of_body = wp.array(row_of_body, dtype=wp.int32, device=self.device)
        self._closest.fill_(self._cfg.distance)
        self.clear(wp.ones(self.num_envs, dtype=wp.bool, device=self.device))

    def before_substep(self) -> None:
        contacts, gaps = self._contact_set.contacts, self._contact_set.gaps
        wp.launch(
            kernels.find_closest,
            dim=len(gaps),
            inputs=[
                contacts.rigid_contact_count,
                contacts.rigid_contact_shape0,
                contacts.rigid_contact_shape1,
                gaps,
                self._shape_body,
                self._row_of_body,
            ],
            outputs=[self._closest],
            device=self.device,
        )
        wp.launch(
            kernels.update,
            dim=self.dim,
            inputs=[self._closest, self._cfg.distance, self._cfg.touch_threshold, self.dt],
            outputs=[self._gaps, self._times],
            device=self.device,
        )

    def clear(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear,
            dim=self.dim,
            inputs=[mask, self._cfg.distance],
            outputs=[self._gaps, self._times],
            device=self.device,
        )
