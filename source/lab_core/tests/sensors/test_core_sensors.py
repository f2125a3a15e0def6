"""Sensor patterns, timers and errors."""

from __future__ import annotations

import pytest
import torch

from lab_core.errors import LabError
from lab_core.names import UnknownNameError
from lab_core.sensors import (
    ContactSensorCfg,
    ContactSensorData,
    GapSensorCfg,
    GapSensorData,
    GridPatternCfg,
    RayCasterCfg,
    RayCasterData,
)
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def test_height_scan_grid_is_x_fastest():
    starts, directions = GridPatternCfg().rays()
    assert starts.shape == directions.shape == (187, 3)
    assert starts[0].tolist() == pytest.approx([-0.8, -0.5, 0.0])
    assert starts[1].tolist() == pytest.approx([-0.7, -0.5, 0.0])
    assert starts[-1].tolist() == pytest.approx([0.8, 0.5, 0.0])
    assert directions[0].tolist() == [0.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("length", "resolution", "count"), [(0.3, 0.1, 4), (0.7, 0.1, 8), (0.75, 0.1, 8), (0.0, 0.1, 1)]
)
def test_grid_keeps_its_last_row(length, resolution, count):
    starts, _ = GridPatternCfg(size=(length, 0.0), resolution=resolution).rays()
    assert len(starts) == count


def test_ray_caster_buffer_has_a_row_per_ray():
    data = RayCasterData(RayCasterCfg(body_name="base"), 5, torch.device("cpu"))
    assert data.ray_hits_w.shape == (5, 187, 3)


@pytest.mark.parametrize("kind", [(ContactSensorCfg, ContactSensorData), (GapSensorCfg, GapSensorData)])
def test_first_contact_counts_substeps(kind):
    cfg, data_of = kind
    data = data_of(cfg(), 1, ("a", "b", "c", "d"), dt=0.005, device=torch.device("cpu"))
    data.contact_steps.copy_(torch.tensor([[0, 1, 4, 5]]))
    assert data.compute_first_contact(0.02).tolist() == [[False, True, True, False]]
    with pytest.raises(LabError, match=r"at least one physics step of 0.005 s, got 0.001 s"):
        data.compute_first_contact(0.001)


def test_gaps_begin_as_far_as_the_sensor_looks():
    data = GapSensorData(GapSensorCfg(distance=0.07), 2, ("a", "b"), dt=0.005, device=torch.device("cpu"))
    assert (data.min_gap == 0.07).all() and not data.touch_history.any()
    with pytest.raises(UnknownNameError, match="No body of the gap sensor matches 'c'. There are: a, b"):
        data.find_bodies("c")


def test_unknown_names_list_what_exists():
    env = analytic_cartpole_env_cfg(1).build()
    with pytest.raises(UnknownNameError, match="unknown sensor 'contact'. Available: none"):
        env.scene.sensor("contact")
    with pytest.raises(UnknownNameError, match="unknown entity 'robt'. Did you mean 'robot'"):
        env.scene["robt"]
    data = ContactSensorData(ContactSensorCfg(), 1, ("FL_foot",), dt=0.005, device=torch.device("cpu"))
    with pytest.raises(UnknownNameError, match="No body of the contact sensor matches 'foot'. There are: FL_foot"):
        data.find_bodies("foot")
