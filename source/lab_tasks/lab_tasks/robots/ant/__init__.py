"""The ant: a round torso on four legs with two joints each (0.91 kg)."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg


def ant_cfg() -> ArticulationCfg:
    """Returns an ant with effort-driven, damped joints that starts with its feet 2 cm above the ground.

    The shapes have a density of 5 kg/m3, as in IsaacGymEnvs; other files of this robot use 1 kg/m3. The armature of
    the model file outweighs the legs either way.
    """
    return ArticulationCfg(
        asset="lab_tasks:robots/ant/ant.xml",
        init_state=InitialStateCfg(
            pos=(0.0, 0.0, 0.5),
            joint_pos={
                "(front_left|right_back)_foot": 0.785398,
                "(front_right|left_back)_foot": -0.785398,
            },
        ),
        actuators={"legs": IdealPDActuatorCfg(joint_names=(".*",), damping=0.1, effort_limit=15.0)},
        self_collision=False,
    )
