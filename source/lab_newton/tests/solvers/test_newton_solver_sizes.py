"""The estimate of constraint rows and contacts, part by part."""

from __future__ import annotations

from pathlib import Path

import newton
import pytest
import warp as wp

from lab_core.scene import ArticulationCfg, GroundCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg
from lab_newton.model import build_model
from lab_newton.solvers import sizes
from lab_newton.solvers.sizes import Sizes, estimate_sizes
from lab_newton.state import make_entity
from lab_newton.terrain import Ground

BALL = '<geom size="0.1" mass="1"/>'


@pytest.fixture
def estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Returns the estimate for a file, without its least values."""
    monkeypatch.setattr(sizes, "LEAST_ROWS", 0)
    monkeypatch.setattr(sizes, "LEAST_CONTACTS", 0)

    def estimate(bodies: str, rest: str = "", cone="pyramidal", ground: GroundCfg | None = None) -> Sizes | None:
        return estimate_sizes(build(tmp_path, bodies, rest, ground), cone)

    return estimate


def build(folder: Path, bodies: str, rest: str, ground: GroundCfg | None) -> newton.Model:
    path = folder / "robot.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody>{rest}</mujoco>")
    cfg, device = ArticulationCfg(asset=str(path), actuators={}), wp.get_device("cpu")
    scene, entity = SceneCfg(entities={"robot": cfg}, ground=ground), make_entity(cfg, "robot", 3, device)
    where = Ground(scene, None, "mesh", device)
    return build_model(scene, {"robot": entity}, (0.0, 0.0, -9.81), 3, device, where, MuJoCoSolverCfg().prepare)


def body(name: str, inside: str, joint: str = '<joint name="{name}" axis="0 1 0"/>') -> str:
    return f'<body name="{name}">{joint.format(name=name)}{inside}</body>'


def test_limits_dry_friction_equalities_and_tendons_have_their_rows(estimate):
    limited = '<joint name="{name}" range="-1 1" frictionloss="0.1"/>'
    bodies = body("a", BALL + body("b", BALL, limited) + body("c", BALL + "<site name='s'/>"), limited)
    still = '<default><geom contype="0" conaffinity="0"/></default>'
    assert estimate(bodies, still) == Sizes(rows=4, contacts=0)
    relations = still + (
        '<equality><connect body1="b" body2="c" anchor="0 0 0"/><weld body1="b" body2="c"/><joint joint1="b" '
        'joint2="c"/></equality><tendon><fixed range="0 1" limited="true"><joint joint="a" coef="1"/></fixed></tendon>'
    )
    assert estimate(bodies, relations) == Sizes(rows=4 + 3 + 6 + 1 + 1, contacts=0)


@pytest.mark.parametrize(
    ("shape", "contacts"),
    [
        ('<geom size="0.1"/>', 1),
        ('<geom type="capsule" size="0.1 0.1"/>', 2),
        ('<geom type="box" size="0.1 0.1 0.1"/>', 4),
        ('<geom type="cylinder" size="0.1 0.1"/>', 4),
    ],
)
def test_each_shape_lies_on_the_ground(estimate, shape: str, contacts: int):
    free = "<freejoint/>"
    on_ground = estimate(body("a", shape, free), ground=GroundCfg())
    assert on_ground == Sizes(rows=4 * contacts, contacts=contacts)
    assert estimate(body("a", shape, free), cone="elliptic", ground=GroundCfg()) == Sizes(3 * contacts, contacts)
    assert estimate(body("a", shape, free)) == Sizes(0, 0), "without ground"


def test_contacts_with_more_dimensions_have_more_rows(estimate):
    rolling = '<geom size="0.1" condim="6"/>'
    assert estimate(body("a", rolling, "<freejoint/>"), ground=GroundCfg()) == Sizes(rows=10, contacts=1)


def test_shapes_that_may_touch_each_other_do_so_in_pairs(estimate):
    arms = body("a", BALL, "<freejoint/>").replace("</body>", body("b", BALL) + body("c", BALL) + "</body>")
    # Of the pairs, parents and children are none: b and c alone.
    assert estimate(arms) == Sizes(rows=4, contacts=1)


def test_height_fields_are_left_to_mujoco_warp(estimate):
    field = '<geom type="hfield" hfield="h"/>'
    asset = '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 0.1 0.1" elevation="0 1 1 0"/></asset>'
    assert estimate(field + body("a", BALL, "<freejoint/>"), asset) is None


def test_small_models_get_a_least_size(tmp_path: Path):
    assert estimate_sizes(build(tmp_path, body("a", BALL), "", None), "elliptic") == Sizes(64, 48)


def test_bodies_without_shapes_need_the_rows_of_their_joints(estimate):
    mass = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    assert estimate(body("a", mass, '<joint name="{name}" range="-1 1"/>')) == Sizes(rows=1, contacts=0)
