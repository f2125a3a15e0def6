"""A kind of sensor that lab_newton does not know: stepped, reset by mask, checkpointed, and rebuilt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import newton
import pytest
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import SensorCfg, SensorData
from lab_core.testing import check_masked_reset
from lab_newton import NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.sensors import Sensor, SensorContext, make_sensor, share_with_warp
from lab_newton.solvers import Solver

ASSETS = Path(__file__).parents[1] / "newton_assets"
DT = 0.005


@wp.kernel(enable_backward=False)
def add_way(
    place: wp.int32,
    bodies_per_world: wp.int32,
    dt: wp.float32,
    body_qd: wp.array[wp.spatial_vector],
    way: wp.array[wp.float32],
):
    world = wp.tid()
    way[world] = way[world] + dt * wp.length(wp.spatial_top(body_qd[world * bodies_per_world + place]))


@wp.kernel(enable_backward=False)
def forget(mask: wp.array[wp.bool], way: wp.array[wp.float32]):
    world = wp.tid()
    if mask[world]:
        way[world] = 0.0


@dataclass(kw_only=True)
class OdometerCfg(SensorCfg):
    """How far the centre of mass of a body has come."""

    body_name: str = "base"


class OdometerData(SensorData):
    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.way = torch.zeros(num_envs, device=device)
        """(N,) [m]."""


class Odometer(Sensor):
    def __init__(self, cfg: OdometerCfg, name: str, context: SensorContext) -> None:
        super().__init__(cfg, name, context)
        self._place = self.entity.layout.body[self.find_body(cfg.body_name)]
        self._dt = context.dt
        self.data = OdometerData(self.num_envs, self.torch_device)
        share_with_warp(self.data, {"way": wp.float32})

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        self._bodies_per_world = model.body_count // self.num_envs
        self._state = state

    def after_substep(self) -> None:
        self._add_way()

    def _add_way(self) -> None:
        inputs = [self._place, self._bodies_per_world, self._dt, self._state.body_qd]
        wp.launch(add_way, dim=self.num_envs, inputs=inputs, outputs=[self.data.warp.way], device=self.device)

    def clear(self, mask: wp.array) -> None:
        wp.launch(forget, dim=self.num_envs, inputs=[mask], outputs=[self.data.warp.way], device=self.device)


make_sensor.register(OdometerCfg, Odometer)


@dataclass(kw_only=True)
class EarlyOdometerCfg(OdometerCfg):
    """The same by the speed that each substep begins with."""


class EarlyOdometer(Odometer):
    reads_bodies_early = True

    def before_substep(self) -> None:
        self._add_way()

    def after_substep(self) -> None:
        pass


make_sensor.register(EarlyOdometerCfg, EarlyOdometer)


@dataclass(kw_only=True)
class TripMeterCfg(OdometerCfg):
    """Measured as what it derives from."""


@dataclass(kw_only=True)
class ThermometerCfg(SensorCfg):
    """Nothing measures it."""


def make(**sensors: SensorCfg) -> NewtonBackend:
    init = InitialStateCfg(pos=(0.0, 0.0, 5.0))
    entity = ArticulationCfg(asset=str(ASSETS / "walker.xml"), init_state=init, actuators={})
    scene = SceneCfg(entities={"robot": entity}, sensors=sensors)
    return NewtonBackend(NewtonCfg(dt=DT), scene, 3, torch.device("cpu"))


@pytest.fixture(scope="module")
def backend() -> NewtonBackend:
    return make(way=OdometerCfg(), trip=TripMeterCfg(body_name="front_left"))


def test_it_measures_in_every_substep_and_forgets_by_mask(backend):
    """In free fall the way after k substeps is g dt^2 (1 + ... + k)."""
    for _ in range(3):
        backend.step(4)
    fallen = torch.full((3,), 9.81 * DT**2 * (12 * 13 / 2))
    for name in ("way", "trip"):
        torch.testing.assert_close(backend.sensors[name].way, fallen, rtol=1e-4, atol=0.0)
    checkpoint = backend.state_dict()
    backend.reset(torch.tensor([False, True, False]))
    assert (backend.sensors["way"].way > 0.0).tolist() == [True, False, True]
    backend.load_state_dict(checkpoint)
    assert torch.equal(backend.sensors["way"].way, checkpoint["sensors.way.way"])
    changed = check_masked_reset(backend, backend.reset, 3)
    assert {"sensors.way.way", "sensors.trip.way"} <= changed


def test_it_may_look_at_the_state_that_each_substep_begins_with():
    """In free fall that is one speed less; a speed that somebody wrote just before counts."""
    backend = make(early=EarlyOdometerCfg())
    backend.step(4)
    backend.step(2)
    fallen = torch.full((3,), 9.81 * DT**2 * (5 * 6 / 2))
    torch.testing.assert_close(backend.sensors["early"].way, fallen, rtol=1e-4, atol=0.0)

    backend.reset(torch.ones(3, dtype=torch.bool))
    backend.entities["robot"].root_com_vel_w[:, :3] = torch.tensor([3.0, 0.0, 4.0])
    backend.mark_written(torch.tensor([True, True, False]))
    backend.step(1)
    torch.testing.assert_close(backend.sensors["early"].way[:2], torch.full((2,), 5.0 * DT), rtol=1e-4, atol=0.0)
    assert backend.sensors["early"].way[2] < 5.0 * DT


def test_it_survives_a_rebuild_of_the_engine(backend):
    data = backend.sensors["way"]
    backend.reset(torch.ones(3, dtype=torch.bool))
    backend.rebuild()
    backend.step(4)
    assert backend.sensors["way"] is data and (data.way > 0.0).all()


def test_an_unknown_kind_names_its_key_its_class_and_the_kinds_there_are():
    message = "scene.sensors['heat']: no sensor is registered for a ThermometerCfg, only for "
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        make(heat=ThermometerCfg())
    known = ("ContactSensorCfg", "ContactSetCfg", "EarlyOdometerCfg", "FrameTransformCfg", "ImuCfg", "JointWrenchCfg")
    assert all(name in str(raised.value) for name in (*known, "OdometerCfg", "RayCasterCfg"))
