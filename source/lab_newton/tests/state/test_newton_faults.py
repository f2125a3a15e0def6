"""Worlds that break, and buffers that are too small."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.physics import CapacityError
from lab_newton import MuJoCoSolverCfg

NEIGHBOURS = [0, 2]


def with_rows(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Everything that belongs to worlds."""
    return {name: value for name, value in state.items() if value.numel() % 3 == 0}


def author(backend, buffer: str, column: int, value: float) -> None:
    """Writes into the state of world 1."""
    getattr(backend.entities["robot"], buffer)[1, column] = value
    backend.mark_written(torch.tensor([False, True, False], device=backend.device))
    backend.forward()


def with_infinities(state: dict[str, torch.Tensor]) -> set[str]:
    """What holds a NaN or an infinity: limits that do not exist, and else nothing."""
    return {name for name, value in state.items() if not value.isfinite().all()}


def break_effort(backend, value: float) -> None:
    backend.entities["robot"].joint_effort_target[1, 0] = value


def break_gain(backend, value: float) -> None:
    backend.entities["robot"].joint_pos_target[1, 1] = value


def break_position(backend, value: float) -> None:
    author(backend, "joint_pos", 2, value)


def break_base(backend, value: float) -> None:
    author(backend, "root_com_vel_w", 4, value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("fault", [break_effort, break_gain, break_position, break_base])
def test_a_broken_world_is_put_back_and_its_neighbours_never_notice(rover, assert_same, fault, value):
    for _ in range(40):  # until they lie on the ground, with contacts and warm starts
        rover.step(4)
    start = rover.state_dict()
    rover.step(2)
    rover.step(2)
    healthy = rover.state_dict()

    rover.load_state_dict(start)
    rover.health()
    fault(rover, value)
    rover.step(2)
    data = rover.entities["robot"]
    assert rover.non_finite.tolist() == [False, True, False]
    assert torch.equal(data.joint_pos[1], data.default_joint_pos[1])
    assert torch.equal(data.body_link_pose_w[1, 0], data.default_root_pose[1])
    assert not data.joint_acc[1].any()
    assert rover.health().non_finite_envs == 1
    assert with_infinities(rover.state_dict()) == with_infinities(start)
    rover.step(2)
    assert not rover.non_finite.any(), "the fault outlived the restored state"
    assert_same(with_rows(rover.state_dict()), with_rows(healthy), rows=NEIGHBOURS)


def test_non_finite_envs_are_counted_once_per_call_until_they_are_read(rover):
    for _ in range(2):
        rover.entities["robot"].joint_effort_target[0, 0] = float("nan")
        rover.entities["robot"].joint_effort_target[2, 0] = float("nan")
        rover.step(3)
    report = rover.health()
    assert report.non_finite_envs == 4
    assert not report.ok
    assert rover.health().ok


def throw(backend, speed: float) -> None:
    author(backend, "root_com_vel_w", 0, speed)


def spin(backend, speed: float) -> None:
    author(backend, "joint_vel", 2, -speed)


@pytest.mark.parametrize("fault", [throw, spin])
def test_a_world_that_is_too_fast_is_put_back_and_its_neighbours_never_notice(rover, assert_same, fault):
    start = rover.state_dict()
    rover.step(2)
    healthy = rover.state_dict()

    rover.load_state_dict(start)
    fault(rover, 1.0e6)
    rover.step(2)
    assert rover.non_finite.tolist() == [False, True, False]
    assert rover.health().non_finite_envs == 1
    data = rover.entities["robot"]
    assert torch.equal(data.joint_pos[1], data.default_joint_pos[1])
    assert torch.equal(data.joint_vel[1], data.default_joint_vel[1])
    assert torch.equal(data.body_link_pose_w[1, 0], data.default_root_pose[1])
    assert not data.root_com_vel_w[1].any()
    assert_same(with_rows(rover.state_dict()), with_rows(healthy), rows=NEIGHBOURS)
    rover.step(2)
    assert not rover.non_finite.any()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_the_limit_of_velocity_is_that_of_the_configuration(make_rover):
    """None leaves what is finite alone."""
    flying = MuJoCoSolverCfg(contacts=False)
    slow, unlimited = (make_rover(solver=flying, max_velocity=limit) for limit in (20.0, None))
    for backend in (slow, unlimited):
        data = backend.entities["robot"]
        data.root_com_vel_w[0, 1] = 15.0
        data.root_com_vel_w[1, 1] = -25.0
        data.root_com_vel_w[2, 0] = 1.0e6
        backend.written.fill_(True)
        backend.step(1)
    assert slow.non_finite.tolist() == [False, True, True]
    assert slow.health().non_finite_envs == 2
    assert not unlimited.non_finite.any() and unlimited.health().ok
    assert unlimited.entities["robot"].root_com_vel_w[2, 0] > 0.9e6
    break_base(unlimited, float("inf"))
    unlimited.step(1)
    assert unlimited.non_finite.tolist() == [False, True, False]


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_an_impossible_limit_of_velocity_is_refused(make_rover, limit):
    with pytest.raises(ConfigError, match="physics.max_velocity: got .*, expected finite float above 0"):
        make_rover(max_velocity=limit)


@pytest.fixture(scope="module")
def cramped(make_rover, rover_cfg):
    """Rovers that start in the air, in a solver with hardly any room for contacts."""

    def make(**capacity):
        entity = replace(rover_cfg, init_state=replace(rover_cfg.init_state, pos=(0.0, 0.0, 2.0)))
        return make_rover(entity=entity, solver=MuJoCoSolverCfg(**capacity))

    return make


def lay_on_the_ground(backend, worlds: list[bool]) -> None:
    mask = torch.tensor(worlds, device=backend.device)
    backend.entities["robot"].root_link_pose_w[mask, 2] = 0.04
    backend.mark_written(mask)
    backend.forward()


def test_too_few_constraint_rows_are_reported_with_the_number_needed(cramped):
    backend = cramped(njmax=5, nconmax=32)
    backend.step(1)
    assert backend.health().ok
    lay_on_the_ground(backend, [False, True, False])
    backend.step(1)
    backend.step(1)
    report = backend.health()
    text = report.overflows["constraint rows"]
    assert text.startswith("1 of 3 worlds, raise physics.solver.njmax from 5 to at least ")
    needed = int(text.rsplit(" ", 1)[1])
    assert needed > 5
    assert not report.ok

    roomy = cramped(njmax=needed, nconmax=32)
    lay_on_the_ground(roomy, [False, True, False])
    roomy.step(1)
    assert roomy.health().ok, "the number that the report asked for is not enough"


def lift(backend) -> None:
    backend.entities["robot"].root_link_pose_w[:, 2] = 2.0
    backend.mark_written(torch.ones(3, dtype=torch.bool, device=backend.device))
    backend.forward()


@pytest.mark.parametrize(
    ("capacity", "buffer"),
    [({"njmax": 5, "nconmax": 32}, "constraint rows"), ({"njmax": 200, "nconmax": 1}, "contacts")],
)
def test_an_overflow_of_an_early_step_is_kept_until_it_is_read(cramped, capacity, buffer):
    """With the number that was needed then, whatever the steps after it need."""
    backend = cramped(**capacity)
    lay_on_the_ground(backend, [True, False, True])
    backend.step(1)
    at_once = backend.health().overflows
    lift(backend)
    backend.step(1)
    assert backend.health().ok, "in the air nothing overflows"

    lay_on_the_ground(backend, [True, False, True])
    backend.step(1)
    lift(backend)
    backend.step(3)
    later = backend.health().overflows
    assert later.keys() == at_once.keys() == {buffer}
    if backend.device.type == "cpu":
        assert later == at_once
    assert backend.health().ok


def test_too_few_contacts_are_reported_with_the_number_needed(cramped):
    """Pairs that found no room were not collided, so that following the advice may take a second round."""
    capacity, rounds = 1, 0
    while True:
        backend = cramped(njmax=200, nconmax=capacity)
        lay_on_the_ground(backend, [True, True, True])
        backend.step(1)
        overflows = backend.health().overflows
        if not overflows:
            break
        text = overflows["contacts"]
        assert text.startswith(f"the pool of all 3 worlds, raise physics.solver.nconmax from {capacity} to at least ")
        capacity = int(text.rsplit(" ", 1)[1])
        rounds += 1
    assert 1 <= rounds <= 3


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_strict_capacity_makes_an_overflow_an_error(cramped):
    backend = cramped(njmax=5, nconmax=32, strict_capacity=True)
    lay_on_the_ground(backend, [True, False, False])
    backend.step(1)
    with pytest.raises(CapacityError, match="njmax from 5 to at least"):
        backend.health()
