"""The configured solver is the one that runs, with its settings."""

from __future__ import annotations

import math

import pytest
import torch
from newton.solvers import SolverFeatherstone

from lab_core.config import to_dict
from lab_core.errors import ConfigError
from lab_newton import MuJoCoSolverCfg, NewtonSolverCfg
from lab_newton.solvers.mujoco import collides_by_newton


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_settings_reach_the_solver(make_rover):
    cfg = MuJoCoSolverCfg(
        iterations=7, ls_iterations=9, tolerance=1e-4, impratio=10.0, cone="elliptic", njmax=80, nconmax=24
    )
    solver = make_rover(num_envs=1, solver=cfg).solver.inner
    options = solver.mjw_model.opt
    assert (options.iterations, options.ls_iterations) == (7, 9)
    assert options.tolerance.numpy()[0] == pytest.approx(1e-4)
    assert options.impratio_invsqrt.numpy()[0] == pytest.approx(1 / math.sqrt(10.0))
    assert solver.mj_model.opt.cone == 1
    assert (solver.mjw_data.njmax, solver.mjw_data.naconmax) == (80, 24)
    assert solver.mj_model.neq == 0, "an idle weld for a switchable root costs every step"
    assert not options.warn_overflow


def test_deterministic_runs_repeat_bit_for_bit_on_every_device(make_rover):
    """With contacts, and beside a world that breaks."""
    backend = make_rover(deterministic=True)
    assert backend.solver.inner.mjw_model.opt.deterministic
    backend.step(2)
    start = backend.state_dict()
    ends = []
    for fault in (0.0, 0.0, math.nan):
        backend.load_state_dict(start)
        for step in range(30):
            backend.entities["robot"].joint_effort_target[1, 0] = fault if step == 25 else 0.0
            backend.step(4)
        assert (backend.entities["robot"].root_link_pose_w[[0, 2], 2] < 0.3).all(), "it fell to the ground"
        ends.append(backend.state_dict())
    assert all(torch.equal(ends[0][name], value) for name, value in ends[1].items())
    assert backend.health().non_finite_envs == 1
    for name, value in ends[2].items():
        if value.numel() % 3 == 0:
            rows, healthy = (x.reshape(3, -1)[[0, 2]] for x in (value, ends[0][name]))
            assert torch.equal(rows, healthy), name


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_without_contacts_a_robot_falls_through_the_ground(make_rover):
    backend = make_rover(num_envs=1, solver=MuJoCoSolverCfg(contacts=False))
    for _ in range(15):
        backend.step(10)
    fallen = 0.5 - 0.5 * 9.81 * (150 * 0.005) ** 2
    assert backend.entities["robot"].root_link_pose_w[0, 2] == pytest.approx(fallen, abs=0.1)


def test_with_contacts_it_comes_to_rest_on_the_ground(rover):
    for _ in range(100):
        rover.step(4)
    data = rover.entities["robot"]
    assert ((data.root_link_pose_w[:, 2] > 0.03) & (data.root_link_pose_w[:, 2] < 0.2)).all()
    assert data.root_com_vel_w.abs().max() < 0.2


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_the_contact_gap_counts_near_shapes_as_contacts_that_do_not_push(make_rover):
    """On the way down from 0.5 m the hull, 0.1 m thick, is closer than 0.3 m long before it touches."""
    ends = []
    for gap, contacts in ((None, 0), (0.0, 0), (0.3, 4)):
        backend = make_rover(num_envs=1, contact_gap=gap, solver=MuJoCoSolverCfg(njmax=96, nconmax=64))
        assert backend._model.shape_gap.numpy().max() == pytest.approx(gap or 0.0)
        assert backend.fingerprint()["collision"]["contact_gap"] == gap
        backend.step(36)  # 0.16 m
        assert (backend.solver.inner.mjw_data.nacon.numpy()[0] >= 4) == bool(contacts)
        ends.append(backend.state_dict())
    for other in ends[1:]:
        assert all(torch.equal(ends[0][name], value) for name, value in other.items())


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_the_contact_gap_of_other_solvers(make_rover):
    for gap, expected in ((None, 0.1), (0.02, 0.02)):
        backend = make_rover(num_envs=1, contact_gap=gap, solver=NewtonSolverCfg(name="SolverXPBD", coordinates="body"))
        assert backend._model.shape_gap.numpy() == pytest.approx(expected)
    for gap in (-0.1, math.nan, math.inf):
        with pytest.raises(ConfigError, match="physics.contact_gap: got .*, expected finite float at least 0"):
            make_rover(contact_gap=gap)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_another_newton_solver_by_name(make_cart_pole):
    """The pole falls as in the default solver; after an odd and an even number of steps."""
    featherstone = NewtonSolverCfg(name="SolverFeatherstone", contacts=False)
    angles = []
    for backend in (make_cart_pole(substeps=16), make_cart_pole(substeps=16, solver=featherstone)):
        data = backend.entities["robot"]
        data.joint_pos[:, 1] = 0.3
        backend.written.fill_(True)
        backend.step(3)
        backend.step(1)
        angles.append(data.joint_pos[:, 1] - 0.3)
    assert (angles[0] > 0.002).all()
    torch.testing.assert_close(angles[1], angles[0], rtol=0.02, atol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_another_newton_solver_collides_with_the_ground(make_rover):
    cfg = NewtonSolverCfg(name="SolverXPBD", coordinates="body", options={"iterations": 8})
    backend = make_rover(num_envs=1, solver=cfg, substeps=4)
    for _ in range(30):
        backend.step(4)
    data = backend.entities["robot"]
    assert data.root_link_pose_w[0, 2] == pytest.approx(0.05, abs=1e-3), "it lies on its hull, 0.1 m thick"
    assert data.root_com_vel_w[0, :3].abs().max() < 0.15


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_an_unknown_solver_is_refused_with_what_exists(make_cart_pole):
    with pytest.raises(ConfigError, match="no 'SolverMagic'.*SolverFeatherstone"):
        make_cart_pole(solver=NewtonSolverCfg(name="SolverMagic"))
    with pytest.raises(ConfigError, match="options of SolverXPBD.*wings"):
        make_cart_pole(solver=NewtonSolverCfg(name="SolverXPBD", options={"wings": 2}))


@pytest.mark.parametrize("collisions", ["auto", "mujoco", "newton"])
@pytest.mark.parametrize("terrain", [None, "mesh", "heightfield"])
@pytest.mark.parametrize("sorts", [False, True])
def test_who_finds_the_contacts(collisions, terrain, sorts):
    """A deterministic run on a GPU sorts its contacts, which only Newton can."""
    assert not collides_by_newton(MuJoCoSolverCfg(contacts=False, collisions=collisions), terrain, sorts)
    cfg = MuJoCoSolverCfg(collisions=collisions)
    if collisions == "mujoco" and terrain == "mesh":
        with pytest.raises(ConfigError, match="takes a mesh for its convex hull"):
            collides_by_newton(cfg, terrain, sorts)
        return
    expected = {"mujoco": False, "newton": True, "auto": terrain is not None or sorts}[collisions]
    assert collides_by_newton(cfg, terrain, sorts) == expected


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_deterministic_run_asks_newton_to_sort_its_contacts(make_rover, deterministic):
    backend = make_rover(deterministic=deterministic, solver=MuJoCoSolverCfg(collisions="newton"))
    assert backend.solver._collisions.deterministic == deterministic


def test_a_class_is_found_by_reference():
    assert NewtonSolverCfg(name="newton.solvers:SolverFeatherstone").find_class() is SolverFeatherstone
    assert to_dict(NewtonSolverCfg(name=SolverFeatherstone))["name"].endswith(":SolverFeatherstone")
    with pytest.raises(ConfigError, match="is no subclass of newton.solvers.SolverBase"):
        NewtonSolverCfg(name="pathlib:Path").find_class()
    with pytest.raises(ConfigError, match="cannot import module 'nowhere'"):
        NewtonSolverCfg(name="nowhere:Solver").find_class()
