"""A learned model refuses every physics but that which it learned, and says what differs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, DCMotorActuatorCfg, SceneCfg
from lab_newton import NeRDSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.nerd import save_model

pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
ARM = 'axis="0 1 0" range="-2 2" damping="0.1" armature="0.01"'


@pytest.fixture
def build(tmp_path, rover_cfg, rover, rover_layout, make_model):
    """Builds worlds of rovers whose model file and configuration were edited, which a network moves."""
    path = tmp_path / "rover.nerd"
    layout = replace(rover_layout, continuous=(False, False, False))
    save_model(path, make_model(layout), rover.fingerprint())

    def build(old: str = "", new: str = "", num_envs: int = 1, physics=None, **entity) -> NewtonBackend:
        text = Path(rover_cfg.asset).read_text()
        assert old in text
        asset = tmp_path / "edited.xml"
        asset.write_text(text.replace(old, new, 1) if old else text)
        cfg: ArticulationCfg = replace(rover_cfg, asset=str(asset), **entity)
        settings = {"dt": 0.005, "solver": NeRDSolverCfg(model=str(path))} | (physics or {})
        return NewtonBackend(NewtonCfg(**settings), SceneCfg(entities={"robot": cfg}), num_envs, torch.device("cpu"))

    return build


def test_the_same_physics_are_accepted_from_another_file_and_in_more_worlds(build, device):
    backend = build(num_envs=5)
    backend.step(3)
    assert torch.isfinite(backend.entities["robot"].joint_pos).all()
    backend.close()
    build('rgba="0.2 0.6 0.3 1"', 'rgba="0.9 0.1 0.1 1"').close()  # a colour


@pytest.mark.parametrize(
    "old, new, field",
    [
        ('mass="0.5"', 'mass="0.6"', "robot.robot.bodies.arm.mass: 0.6, was 0.5"),
        ('pos="0 0.01 0.1"', 'pos="0 0.02 0.1"', "robot.robot.bodies.hand.center_of_mass"),
        ('diaginertia="0.005 0.005 0.001"', 'diaginertia="0.006 0.005 0.001"', "robot.robot.bodies.arm.inertia"),
        (ARM, ARM.replace("0.01", "0.02"), "robot.robot.joints.shoulder.armature: 0.02, was 0.01"),
        (ARM, ARM.replace("0.1", "0.2"), "robot.robot.joints.shoulder.damping"),
        (ARM, ARM + ' frictionloss="0.1"', "robot.robot.joints.shoulder.friction"),
        (ARM, ARM.replace("-2 2", "-2 1.5"), "robot.robot.joints.shoulder.upper"),
        (ARM, ARM.replace("0 1 0", "0 0 1"), "robot.robot.joints.shoulder.axis"),
        ('<body name="hand" pos="0 0 0.4">', '<body name="hand" pos="0 0 0.5">', "joints.wrist.frame_in_parent"),
        ('<default><geom friction="0.8', '<default><geom friction="0.7', "materials.robot.base.0.friction"),
        ('size="0.2 0.1 0.05"', 'size="0.2 0.1 0.06"', "collision.robot.base.0.size"),
    ],
)
def test_a_changed_robot_is_refused_by_field(build, old, new, field, device):
    with pytest.raises(ConfigError, match=f"'rover.nerd' learned other physics: .*{field}"):
        build(old, new)


def test_a_body_that_hangs_elsewhere_is_refused_by_field(build, rover_cfg, device):
    text = Path(rover_cfg.asset).read_text()
    rest = text[text.index('      </body>\n      <body name="tail"') :]
    inside = rest.replace("      </body>\n", "", 1).replace("</worldbody>", "</body></worldbody>", 1)
    with pytest.raises(ConfigError, match="robot.robot.joints.tail.parent: arm, was base"):
        build(rest, inside)


def test_changed_actuators_are_refused_by_field(build, rover_cfg, device):
    arm = rover_cfg.actuators["arm"]
    for changed, field in (
        (replace(arm, stiffness=25.0), "actuators.robot.shoulder.stiffness: 25.0, was 20.0"),
        (replace(arm, damping=2.0), "actuators.robot.shoulder.damping: 2.0, was 1.0"),
        (replace(arm, effort_limit={"shoulder": 6.0, "wrist": 2.0}), "actuators.robot.shoulder.effort_limit"),
        (
            DCMotorActuatorCfg(
                joint_names=arm.joint_names,
                stiffness=20.0,
                damping=1.0,
                effort_limit=arm.effort_limit,
                saturation_effort=9.0,
                velocity_limit=9.0,
            ),
            "actuators.robot.shoulder.kind",
        ),
    ):
        with pytest.raises(ConfigError, match=field):
            build(actuators={"arm": changed})


def test_other_changes_of_the_scene_are_refused(build, device):
    with pytest.raises(ConfigError, match="learned other physics: .*floating: False, not True"):
        build(fixed_base=True)
    with pytest.raises(ConfigError, match="collision.pairs_left_out"):
        build(self_collision=False)
    with pytest.raises(ConfigError, match="gravity"):
        build(physics={"gravity": (0.0, 0.0, -1.62)})


def test_a_model_that_does_not_know_what_it_learned_is_refused(tmp_path, rover_layout, make_model, build, device):
    layout = replace(rover_layout, continuous=(False, False, False))
    save_model(tmp_path / "rover.nerd", make_model(layout), {})
    with pytest.raises(ConfigError, match="does not say what physics it learned"):
        build()


@pytest.mark.parametrize(
    "field, learned",
    [
        ("robot.robot.bodies.arm.flags", 99),
        ("robot.robot.joints.shoulder.kind", "PRISMATIC"),
        ("robot.robot.joints.shoulder.velocity_limit", 3.0),
        ("robot.robot.joints.shoulder.limit_stiffness", 1.0),
        ("collision.contact_gap", 0.5),
        ("collision.ground", "terrain"),
        ("timing.dt", 0.01),
        ("timing.substeps", 2),
        ("forces.gravity", [0.0, 0.0, -3.7]),
    ],
)
def test_every_other_field_counts_too(tmp_path, rover, rover_layout, make_model, build, device, field, learned):
    """A fingerprint that was learned with another value, where a file of the robot cannot say it."""
    fingerprint = rover.fingerprint()
    *path, leaf = field.split(".")
    part: dict = fingerprint
    for name in path:
        part = part[name]
    assert part[leaf] != learned
    part[leaf] = learned
    layout = replace(rover_layout, continuous=(False, False, False))
    save_model(tmp_path / "rover.nerd", make_model(layout), fingerprint)
    with pytest.raises(ConfigError, match=f"'rover.nerd' learned other physics: {re.escape(field)}"):
        build()


def test_versions_of_packages_may_differ(tmp_path, rover, rover_layout, make_model, build, device):
    layout = replace(rover_layout, continuous=(False, False, False))
    fingerprint = rover.fingerprint() | {"versions": {"newton": "0.1"}}
    save_model(tmp_path / "rover.nerd", make_model(layout), fingerprint)
    build().close()
