"""Warp's views of the table of buffers: every line of it becomes an array and a field of a kernel's struct."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import warp as wp

from lab_core.scene import ArticulationData, Buffer, Kind, Role
from lab_warp.views import DTYPES, array_struct, fill_struct, share, share_entity


class HotData(ArticulationData):
    """An articulation whose motors have a temperature."""

    motor_temperature = Buffer(Role.STATE, "joint", Kind.NUMBER, "K")
    drift_w = Buffer(Role.DERIVED, "body", Kind.VECTOR, "m/s")


HotArrays = array_struct("HotArrays", __name__, HotData.buffers(Role.STATE, Role.DERIVED))


@wp.kernel
def warm_up(data: HotArrays):
    env, joint = wp.tid()
    data.motor_temperature[env, joint] += 1.0
    data.drift_w[env, joint] = wp.vec3(0.0, 1.0, 0.0)


def test_every_kind_of_element_has_a_type_of_its_size():
    for kind in Kind:
        size = torch.Size(kind.shape).numel()
        assert wp.types.type_size(DTYPES[kind]) == size, kind


def test_a_line_of_the_table_reaches_kernels():
    wp.init()
    data = HotData(3, ("hip", "knee"), ("base", "thigh"))
    share_entity(data)
    assert vars(data.warp).keys() == HotData.buffers().keys()
    assert data.warp.drift_w.dtype is wp.vec3 and data.warp.drift_w.shape == (3, 2)
    assert data.warp.body_inertia_b.dtype is wp.mat33
    assert "motor_temperature" in HotArrays.vars and "body_mass" not in HotArrays.vars
    wp.launch(warm_up, dim=(3, 2), inputs=[fill_struct(HotArrays, data)], device="cpu")
    assert (data.motor_temperature == 1.0).all()
    assert data.drift_w[2, 1].tolist() == [0.0, 1.0, 0.0]


@dataclass
class PumpArrays:
    pressure: wp.array
    valves: wp.array


class Pump:
    def __init__(self) -> None:
        self._pressure = torch.ones(3)
        self.valves = torch.zeros(3, 2)

    @property
    def pressure(self) -> torch.Tensor:
        return self._pressure.clone()


def test_arrays_share_the_memory_of_private_and_public_tensors():
    pump = Pump()
    arrays = share(PumpArrays, pump)
    assert arrays.pressure.ptr == pump._pressure.data_ptr()
    assert arrays.valves.ptr == pump.valves.data_ptr()
