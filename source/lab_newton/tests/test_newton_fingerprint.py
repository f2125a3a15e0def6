"""Every property that decides how a robot moves has a name in the fingerprint, and nothing else is in it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import warp as wp

from lab_core.physics import Fingerprint, differences
from lab_core.scene import GroundCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg, NewtonSolverCfg
from lab_newton.backend import NewtonBackend
from lab_newton.fingerprint import describe_model
from lab_newton.model import build_model
from lab_newton.state import make_entity
from lab_newton.terrain import Ground

pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
Describe = Callable[..., Fingerprint]
ROVER = (Path(__file__).parent / "newton_assets" / "rover.xml").read_text()


@pytest.fixture
def describe(rover_cfg, tmp_path, device) -> Describe:
    """Builds the model of a rover, no solver: ``old`` in its file becomes ``new``; keywords go to ``NewtonCfg``."""

    def call(old: str = "", new: str = "", num_envs: int = 1, entity=None, ground=None, **physics) -> Fingerprint:
        entity = entity or rover_cfg
        if old:
            assert ROVER.count(old) == 1, old
            path = tmp_path / "changed.xml"
            path.write_text(ROVER.replace(old, new))
            entity = replace(entity, asset=str(path))
        scene = SceneCfg(entities={"robot": entity}, ground=ground or GroundCfg())
        cfg = NewtonCfg(**({"dt": 0.005} | physics))
        wp.init()
        warp_device = wp.device_from_torch(device)
        entities = {"robot": make_entity(entity, "robot", num_envs, warp_device)}
        plane = Ground(scene, None, cfg.terrain, warp_device)
        model = build_model(scene, entities, cfg.gravity, num_envs, warp_device, plane, cfg.solver.prepare)
        return describe_model(model, entities, cfg, scene)

    return call


ARM, ARM_GEOM = 'pos="0 0 0.2" mass="0.5" diaginertia="0.005 0.005 0.001"', 'size="0.03 0.15" pos="0 0 0.2"'
SHOULDER = 'axis="0 1 0" range="-2 2" damping="0.1" armature="0.01"'


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        (ARM, ARM.replace("0.5", "0.6"), ["robot.robot.bodies.arm.mass: 0.6, was 0.5"]),
        (ARM, ARM.replace("0.2", "0.1"), ["bodies.arm.center_of_mass: [0.0, 0.0, 0.1], was [0.0, 0.0, 0.2]"]),
        (ARM, ARM.replace("0.001", "0.002"), ["bodies.arm.inertia: "]),
        (SHOULDER, SHOULDER.replace("0 1 0", "1 0 0"), ["joints.shoulder.axis: [1.0, 0.0, 0.0], was [0.0, 1.0, 0.0]"]),
        (SHOULDER, SHOULDER.replace("-2 2", "-1 2"), ["robot.robot.joints.shoulder.lower: -1.0, was -2.0"]),
        (SHOULDER, SHOULDER.replace("-2 2", "-2 1"), ["robot.robot.joints.shoulder.upper: 1.0, was 2.0"]),
        (SHOULDER, SHOULDER.replace('"0.1"', '"0.2"'), ["robot.robot.joints.shoulder.damping: 0.2, was 0.1"]),
        (SHOULDER, SHOULDER.replace("0.01", "0.02"), ["robot.robot.joints.shoulder.armature: 0.02, was 0.01"]),
        (SHOULDER, SHOULDER + ' frictionloss="0.3"', ["robot.robot.joints.shoulder.friction: 0.3, was 0.0"]),
        (SHOULDER, SHOULDER + ' stiffness="3"', ["robot.robot.joints.shoulder.stiffness: 3.0, was 0.0"]),
        (SHOULDER, SHOULDER + ' solreflimit="0.05 1"', ["robot.robot.joints.shoulder.limit_solref"]),
        ('<body name="hand" pos="0 0 0.4">', '<body name="hand" pos="0 0 0.5">', ["joints.wrist.frame_in_parent"]),
        ('<body name="hand" ', '<body name="hand" gravcomp="1" ', ["bodies.hand.gravity_compensation: 1.0, was 0.0"]),
        ("0.8 0.005", "0.5 0.005", [f"materials.robot.{b}.0.friction: 0.5" for b in ("base", "arm", "hand", "tail")]),
        (ARM_GEOM, ARM_GEOM + ' condim="4"', ["collision.robot.arm.0.dimensions_of_contact: 4, was 3"]),
        (ARM_GEOM, ARM_GEOM + ' priority="1"', ["materials.robot.arm.0.priority: 1, was 0"]),
        (ARM_GEOM, ARM_GEOM + ' margin="0.01"', ["collision.robot.arm.0.margin: 0.01, was 0.0"]),
        (ARM_GEOM, ARM_GEOM.replace("0.03", "0.04"), ["collision.robot.arm.0.size"]),
        (ARM_GEOM, ARM_GEOM.replace("0.2", "0.3"), ["collision.robot.arm.0.pose"]),
        (ARM_GEOM, ARM_GEOM + ' contype="2"', ["collision.robot.arm.0.type_of_contact: 2, was 1"]),
        ('type="sphere" size="0.05"', 'type="box" size="0.05 0.05 0.05"', ["collision.robot.hand.0.kind: BOX, was SP"]),
    ],
    ids=lambda value: value[0].split(":")[0] if isinstance(value, list) else "",
)
def test_a_change_of_the_model_file_is_named(describe, old, new, fields):
    found = differences(describe(old, new), describe())
    assert len(found) >= len(fields)
    for field in fields:
        assert any(field in line for line in found), found
    # Nothing of other bodies and joints.
    own = {"arm", "shoulder", "hand", "wrist"}
    assert {line.split(".")[3] for line in found if line.startswith("robot.")} <= own


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dt": 0.004}, "timing.dt: 0.004, was 0.005"),
        ({"substeps": 2}, "timing.substeps: 2, was 1"),
        ({"gravity": (0.0, 0.0, -1.6)}, "forces.gravity: [0.0, 0.0, -1.6], was [0.0, 0.0, -9.81]"),
        ({"ground": GroundCfg(friction=0.5)}, "materials.ground.0.friction: 0.5, was 1.0"),
        ({"ground": GroundCfg(collision=False)}, "collision.ground: none, was plane"),
    ],
)
def test_a_change_of_the_configuration_is_named(describe, change, field):
    assert field in differences(describe(**change), describe())


def test_what_an_entity_is_configured_to_be_is_named(describe, rover_cfg):
    fixed = differences(describe(entity=replace(rover_cfg, fixed_base=True)), describe())
    assert fixed == [
        "robot.robot.joints.fixed joint of base: present, was absent",
        "robot.robot.joints.free joint of base: absent, was present",
    ]
    touching = differences(describe(entity=replace(rover_cfg, self_collision=not rover_cfg.self_collision)), describe())
    assert len(touching) == 1 and touching[0].startswith("collision.pairs_left_out: ")
    arm = replace(rover_cfg.actuators["arm"], stiffness=21.0, max_delay=2)
    lines = differences(describe(entity=replace(rover_cfg, actuators={"other_name": arm})), describe())
    assert lines == [
        f"actuators.robot.{joint}.{line}"
        for joint in ("shoulder", "wrist")
        for line in ("max_delay: 2, was 0", "stiffness: 21.0, was 20.0")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"num_envs": 3},
        {"solver": MuJoCoSolverCfg(iterations=3, njmax=64, integrator="euler", contacts=False)},
        {"solver": NewtonSolverCfg(name="SolverFeatherstone")},
        {"max_velocity": None},
        {"old": 'name="hull"', "new": 'name="trunk_geom"'},
        {"old": 'rgba="0.2 0.6 0.3 1"', "new": 'rgba="1 0 0 1"'},
        {"old": '<geom name="arm_geom"', "new": '<geom type="sphere" size="0.3" contype="0" conaffinity="0" mass="0"/>'
         '<geom name="arm_geom"'},
    ],
)  # fmt: skip
def test_what_does_not_move_the_robot_is_left_out(describe, change):
    assert differences(describe(**change), describe()) == []


def test_a_backend_describes_what_it_was_built_with(make_rover, describe, rover_cfg):
    backend: NewtonBackend = make_rover(num_envs=2)
    built = backend.fingerprint()
    assert built["versions"] == {name: version(name) for name in ("newton", "warp-lang", "mujoco-warp")}
    assert differences(built, describe()) == []
    stored = json.loads(json.dumps(built, allow_nan=False))
    assert stored == built
    assert math.isclose(stored["robot"]["robot"]["bodies"]["base"]["mass"], 3.0)

    backend.entities["robot"].body_mass.mul_(2.0)
    backend.notify("robot", "body_mass")
    assert backend.fingerprint() == built
    backend.fingerprint()["timing"].clear()
    backend.rebuild()
    assert backend.fingerprint() == built
    assert torch.isfinite(backend.entities["robot"].joint_pos).all()
