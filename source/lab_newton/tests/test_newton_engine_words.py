"""What engines say is told with the entity, its file and the element."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import newton
import numpy as np
import pytest
import warp as wp

from lab_core.scene import ArticulationCfg, EntityCfg, EntityData, EntityPhysics, SceneCfg
from lab_newton import MuJoCoSolverCfg
from lab_newton.engine_words import told_of
from lab_newton.model import build_model
from lab_newton.state import EntityLayout, NewtonEntity, make_entity
from lab_newton.terrain import Ground

DEVICE = wp.get_device("cpu")


def build(entity: NewtonEntity, num_envs: int = 3) -> newton.Model:
    scene = SceneCfg(entities={entity.name: entity.cfg}, ground=None)
    ground = Ground(scene, None, "mesh", DEVICE)
    return build_model(
        scene, {entity.name: entity}, (0.0, 0.0, -9.81), num_envs, DEVICE, ground, MuJoCoSolverCfg().prepare
    )


def articulation(folder: Path, inside: str) -> NewtonEntity:
    path = folder / "arm.xml"
    path.write_text(f"<mujoco>{inside}</mujoco>")
    return make_entity(ArticulationCfg(asset=str(path), actuators={}), "robot", 3, DEVICE)


def test_a_warning_of_an_engine_gets_the_name_of_what_it_is_about() -> None:
    with pytest.warns(UserWarning) as told, told_of("Entity 'robot': 'arm.xml'"):
        for words in ("skipped tendon 0", "skipped tendon 0"):
            warnings.warn(words, newton.NewtonWarning, stacklevel=1)
        warnings.warn("use b", DeprecationWarning, stacklevel=1)
    assert [str(one.message) for one in told] == ["Entity 'robot': 'arm.xml': skipped tendon 0", "use b"]
    assert [one.category for one in told] == [newton.NewtonWarning, DeprecationWarning]


def test_warnings_before_an_error_are_not_lost() -> None:
    with pytest.warns(UserWarning, match="arm: skipped"), pytest.raises(ValueError, match="broken"), told_of("arm"):
        warnings.warn("skipped", UserWarning, stacklevel=1)
        raise ValueError("broken")


def test_what_mujocos_compiler_says_names_entity_and_file(tmp_path: Path) -> None:
    inside = '<compiler settotalmass="7"/><worldbody><body name="b"><joint/><geom size="0.1"/></body></worldbody>'
    with pytest.warns(UserWarning, match=r"Entity 'robot': '.*arm.xml': .*'settotalmass' is deprecated"):
        build(articulation(tmp_path, inside))


def test_an_inertia_that_mujoco_accepts_is_simulated_however_tiny(tmp_path: Path) -> None:
    inertial = '<inertial pos="0 0 0" mass="1e-4" diaginertia="1e-11 1e-11 1e-11"/>'
    entity = articulation(tmp_path, f'<worldbody><body name="b"><joint name="j"/>{inertial}</body></worldbody>')
    built = build(entity)
    assert built.body_inertia is not None
    np.testing.assert_allclose(built.body_inertia.numpy()[0], 1e-11 * np.eye(3), rtol=1e-5, atol=1e-15)


@dataclass(kw_only=True)
class PlateCfg(EntityCfg):
    """Two bodies, one of which has an inertia that no body can have."""

    asset: str = "plates.usd"

    def make_entity(self, name: str, physics: EntityPhysics) -> Any:
        raise NotImplementedError


class Plates(NewtonEntity[PlateCfg, EntityData]):
    data_type = EntityData

    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        bodies = [
            world.add_body(mass=1.0, inertia=wp.mat33(np.diag(inertia)), label=label)
            for label, inertia in (("sound", (1.0, 1.0, 1.0)), ("broken", (1.0, 1.0, 5.0)))
        ]
        return EntityLayout(
            joint_names=(),
            body_names=("sound", "broken"),
            joint_coord=(),
            joint_dof=(),
            body=tuple(bodies),
            root_coord=0,
            root_dof=0,
            floating=True,
        )

    def _fill_defaults(self) -> None: ...
    def write_state(self, *_) -> None: ...
    def restore_default(self, *_) -> None: ...
    def read_state(self, *_, **__) -> None: ...


def test_bodies_that_newton_corrects_are_named() -> None:
    with pytest.warns(UserWarning) as told:
        build(Plates(PlateCfg(), "plates", 3, DEVICE))
    words = ["Entity 'plates': 'plates.usd': Newton corrected mass or inertia of 'broken', which no body can have. "
             "Correct them in the file."]  # fmt: skip
    assert [str(one.message) for one in told] == words
