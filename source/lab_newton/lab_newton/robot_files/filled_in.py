"""A configuration with what its model file says, where it asks for that."""

from __future__ import annotations

from dataclasses import replace

from lab_core.errors import ConfigError
from lab_core.names import match_names
from lab_core.scene import ActuatorCfg, ArticulationCfg, FileActuatorCfg, actuated_joints
from lab_newton.robot_files.file_actuators import actuators_of_file, warn_of_idle_joints
from lab_newton.robot_files.followers import followers_in
from lab_newton.robot_files.imported import ImportedFile


def fill_in(entity: str, cfg: ArticulationCfg, imported: ImportedFile) -> ArticulationCfg:
    """Returns ``cfg`` with the root pose of the file where it states none, and the file's actuators where it asks.

    Raises:
        ConfigError: a group drives a joint that follows another one, or takes over what is no servo of a joint.
    """
    x, y, z, *quat = imported.root_pose
    init = cfg.init_state
    init = replace(init, pos=init.pos or (x, y, z), quat=init.quat or (quat[0], quat[1], quat[2], quat[3]))
    names = imported.layout.joint_names
    others = {group: one for group, one in cfg.actuators.items() if not isinstance(one, FileActuatorCfg)}
    taken = {names[i] for joints in actuated_joints(entity, others, names).values() for i in joints}
    actuators: dict[str, ActuatorCfg] = {}
    for group, actuator in cfg.actuators.items():
        if isinstance(actuator, FileActuatorCfg):
            asked = [names[i] for i in match_names(actuator.joint_names, names, what=f"joint of {entity!r}")]
            free = [joint for joint in asked if joint not in taken]
            actuator = actuators_of_file(entity, group, actuator, imported, free)
            taken |= set(actuator.joint_names)
        actuators[group] = actuator
    for follower, leader, _ in followers_in(imported):
        if follower in taken:
            raise ConfigError(
                f"Entity {entity!r}: joint {follower!r} follows {leader!r}. Leave it out of the actuators: what drives "
                "the one moves both."
            )
    warn_of_idle_joints(entity, imported, taken)
    return replace(cfg, init_state=init, actuators=actuators)
