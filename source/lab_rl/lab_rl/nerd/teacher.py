"""What recorded physics steps were made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab_core.config import parse_yaml
from lab_core.datasets import DatasetError, RecordedDataset
from lab_core.envs import make_env
from lab_core.errors import LabError
from lab_core.physics import differences
from lab_core.scene import Articulation, actuated_joints
from lab_core.sensors import ContactSetCfg
from lab_core.trust import reading_a_file
from lab_newton.backend import NewtonBackend
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import RobotLayout, RobotProperties


@dataclass(frozen=True)
class Teacher:
    """The robot of a recording, and the physics that moved it."""

    task: str
    entity: str
    layout: RobotLayout
    fingerprint: dict[str, Any]
    """Of its physics; ``"other_actuators"`` are those of recordings whose actuators differ from the first one's."""
    robot: RobotProperties | None = None
    """Its masses; None where forces of its joints do not follow from motion."""
    no_masses: str = ""
    """Why there are none."""
    cfg: Any = None
    """Configuration of its environment, as recorded."""

    @property
    def search(self) -> ContactSearch | None:
        """Which contacts were recorded; None where none were."""
        return _search(self.cfg)


def find_teacher(sources: Sequence[RecordedDataset]) -> Teacher:
    """Builds the environment of the first recording once more, with one world, and returns what moved in it.

    Others may have other actuators on the same joints: a model is told their efforts.

    Raises:
        DatasetError: a recording does not say what it was made with, they differ in more than actuators, or the physics
            that the first one's configuration builds today is another one.
    """
    first = sources[0]
    if not first.config:
        raise DatasetError(f"{first.path} lacks the configuration of its environment; record it again.")
    cfg = _configuration(first)
    cfg.scene.num_envs = 1
    env = make_env(cfg, "cpu", "torch")
    try:
        if not isinstance(env.physics, NewtonBackend):
            raise DatasetError(f"{first.path} was recorded with the physics {cfg.physics.backend!r}, not with Newton.")
        entities = list(env.scene)
        if len(entities) != 1:
            raise DatasetError(f"{first.path} holds the entities {', '.join(entities)}; a model learns one robot.")
        fingerprint: dict[str, Any] = env.physics.fingerprint()
        for source in sources:
            _check_physics(source, fingerprint, exactly=source is first)
            _check_search(source, _search(cfg))
        robot = env.scene[entities[0]]
        if not isinstance(robot, Articulation):
            raise DatasetError(f"{first.path} holds the {robot.kind} {robot.name!r}; a model learns an articulation.")
        driven = actuated_joints(robot.name, robot.cfg.actuators, robot.joint_names)
        actuated = [robot.joint_names[joint] for joints in driven.values() for joint in joints]
        layout = RobotLayout.from_model(env.physics.model, env.physics_dt, actuated)
        masses, why = _masses(env.physics, robot.name)
    finally:
        env.close()
    task = str(first.parsed_attribute("env_args", {}).get("env_name", ""))
    if others := _other_actuators(sources):
        fingerprint["other_actuators"] = others
    return Teacher(task, entities[0], layout, fingerprint, masses, why, cfg)


def _configuration(source: RecordedDataset) -> Any:
    with reading_a_file():
        return parse_yaml(source.config or "", f"configuration in {source.path}")


def _masses(physics: NewtonBackend, entity: str) -> tuple[RobotProperties | None, str]:
    """Returns the masses, or why there are none: not every network needs them."""
    try:
        return physics.robot_properties(entity), ""
    except LabError as error:
        return None, str(error)


def _search(cfg: Any) -> ContactSearch | None:
    sensors = [] if cfg is None else [value for value in cfg.scene.sensors.values() if isinstance(value, ContactSetCfg)]
    return ContactSearch(sensors[0].distance, sensors[0].capacity) if sensors else None


def _check_search(source: RecordedDataset, expected: ContactSearch | None) -> None:
    found = _search(_configuration(source)) if source.config else None
    distances = [None if search is None else search.distance for search in (found, expected)]
    if distances[0] != distances[1]:
        told = ["no contacts" if distance is None else f"contacts up to {distance:g} m" for distance in distances]
        raise DatasetError(f"{source.path} holds {told[0]}, the first recording {told[1]}; a model sees one kind.")


def _check_physics(source: RecordedDataset, fingerprint: dict[str, Any], exactly: bool) -> None:
    recorded = _recorded_fingerprint(source)
    if not recorded:
        raise DatasetError(
            f"{source.path} does not name the physics it was recorded with, field by field; record it again."
        )
    if exactly:
        changed = differences(recorded, fingerprint)
    else:
        shared = [
            {name: part for name, part in whole.items() if name != "actuators"} for whole in (recorded, fingerprint)
        ]
        changed = differences(*shared)
        joints = [
            {entity: sorted(moved) for entity, moved in whole["actuators"].items()} for whole in (recorded, fingerprint)
        ]
        changed += differences(*joints)
    if changed:
        than = "its configuration builds here" if exactly else "the first recording"
        raise DatasetError(f"{source.path} was recorded with other physics than {than}: {'; '.join(changed)}.")


def _other_actuators(sources: Sequence[RecordedDataset]) -> list[dict[str, Any]]:
    """Returns actuators of recordings that differ from the first one's, each once."""
    found: list[dict[str, Any]] = []
    for source in sources:
        actuators = _recorded_fingerprint(source)["actuators"]
        if all(differences(actuators, known) for known in found):
            found.append(actuators)
    return found[1:]


def _recorded_fingerprint(source: RecordedDataset) -> dict[str, Any]:
    return source.parsed_attribute("physics_fingerprint", {})
