"""Choosing a sensor in the parameters of a term, and reading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from lab_core.env import Env
from lab_core.managers import Selection, TermError
from lab_core.managers.selections import Columns
from lab_core.names import match_names
from lab_core.scene import Scene
from lab_core.sensors import ContactSensorData, GapSensorData, SensorData

SensorT = TypeVar("SensorT", bound=SensorData)


@dataclass
class SceneSensorCfg(Selection):
    """A sensor of the scene with some of its bodies, by name; what :class:`SceneEntityCfg` is to entities.

    :attr:`body_ids` are columns of the measurement.
    """

    def resolve(self, scene: Scene) -> None:
        """Looks up the names.

        Raises:
            UnknownNameError: the scene has no such sensor, or the sensor no such body.
            TermError: bodies were given of a sensor that has none.
        """
        names = getattr(scene.sensor(self.name), "body_names", None)
        ids = list(range(len(names or ())))
        if self.body_names is not None:
            if names is None:
                raise TermError(
                    f"Sensor {self.name!r} has no bodies to choose from, got body_names={self.body_names!r}."
                )
            what = f"body of sensor {self.name!r}"
            ids = match_names(self.body_names, names, what=what, preserve_order=self.preserve_order)
        self._bodies = Columns.choose(ids, len(names or ()), scene.env_origins.device)


def sensor_data(env: Env, sensor_cfg: SceneSensorCfg, kind: type[SensorT]) -> SensorT:
    """Returns the measurements of a sensor that must be of class ``kind``.

    Raises:
        TermError: it is another kind of sensor.
    """
    sensor = env.scene.sensor(sensor_cfg.name)
    if not isinstance(sensor, kind):
        raise TermError(f"Sensor {sensor_cfg.name!r} measures {type(sensor).__name__}, expected {kind.__name__}.")
    return sensor


def peak_contact_force(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Largest norm of the net contact force over the sensor's history, per selected body (N, B) [N].

    With a history as long as the decimation, no touch between two environment steps is missed.
    """
    history = sensor_data(env, sensor_cfg, ContactSensorData).net_forces_w_history
    return history[:, :, sensor_cfg.body_ids].norm(dim=-1).amax(dim=1)


def recently_touched(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Whether a gap sensor saw a touch at some time in its history, per selected body (N, B) bool.

    With a history as long as the decimation, no touch between two environment steps is missed.
    """
    return sensor_data(env, sensor_cfg, GapSensorData).touch_history[:, :, sensor_cfg.body_ids].any(dim=1)
