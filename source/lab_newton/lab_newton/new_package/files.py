"""The files of a package that trains, made of templates and of what the robot is."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from lab_newton.new_package.robot_facts import RobotFacts

_INDENT = " " * 12
_FALLEN = "0.8"
"""Angle of the root at which an episode ends [rad]."""


def package_files(package: str, robot_file: str, facts: RobotFacts) -> dict[str, str]:
    """Returns path in the new folder -> text.

    Args:
        package: Name of the package.
        robot_file: Name of the model file, without folders.
        facts: What the robot is.
    """
    values = {"package": package, "file": robot_file, "task": task_id(package), **_robot(facts), **_task(facts)}
    targets = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "init.py": f"{package}/__init__.py",
        "robot.py": f"{package}/robot.py",
        "task.py": f"{package}/task.py",
        "test_task.py": f"tests/test_{package}.py",
    }
    folder = files("lab_newton.new_package") / "templates"
    return {
        target: Template((folder / f"{name}.txt").read_text()).substitute(values) for name, target in targets.items()
    }


def task_id(package: str) -> str:
    """Returns the id of the task of a package: ``my_robot`` has ``MyRobot-Stay``."""
    return "".join(word.capitalize() for word in package.split("_")) + "-Stay"


def _robot(facts: RobotFacts) -> dict[str, str]:
    x, y, z = facts.root_pos
    starts = [f"pos=({x:.4g}, {y:.4g}, {z + facts.lift:.4g})"] if facts.lift else []
    if facts.moved_joints:
        joints = "".join(f'{_INDENT}    "{joint}": {pos:g},\n' for joint, pos in facts.moved_joints.items())
        starts.append(f"joint_pos={{\n{joints}{_INDENT}}}")
    init = ", ".join(starts)
    if facts.file_drives:
        lines = f'{_INDENT}"file": FileActuatorCfg(),'
        return {"actuator_class": "FileActuatorCfg", "actuators": lines, "init": init}
    groups = {"hinges": (facts.hinges, facts.stiffness), "slides": (facts.slides, facts.slide_stiffness)}
    lines = []
    for group, (joints, stiffness) in groups.items():
        if joints:
            names = "".join(f'{_INDENT}        "{joint}",\n' for joint in joints)
            lines.append(
                f'{_INDENT}"{group}": IdealPDActuatorCfg(\n{_INDENT}    joint_names=(\n{names}{_INDENT}    ),\n'
                f"{_INDENT}    stiffness={stiffness:g},\n{_INDENT}    damping={stiffness / 20:g},\n"
                f"{_INDENT}    effort_limit={stiffness:g},\n{_INDENT}),"
            )
    return {"actuator_class": "IdealPDActuatorCfg", "actuators": "\n".join(lines), "init": init}


def _task(facts: RobotFacts) -> dict[str, str]:
    observations = ["projected_gravity", "base_ang_vel"] if facts.floats else []
    rewards = {"alive": ("is_alive", 1.0), "still": ("joint_deviation_l1", -0.1), "calm": ("action_rate_l2", -0.01)}
    terminations = ['"time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),']
    if facts.floats:
        rewards["upright"] = ("flat_orientation_l2", -1.0)
        terminations.append(
            f'"fallen": TerminationTermCfg(func=mdp.bad_orientation, params={{"limit_angle": {_FALLEN}}}),'
        )
    observed = [*observations, "joint_pos_rel", "joint_vel_rel", "last_action"]
    deep = " " * 20
    distance, height = 2.0 * facts.size, facts.root_pos[2] + facts.lift
    return {
        "action": _action(facts),
        "observations": "\n".join(f'{deep}"{name}": ObservationTermCfg(func=mdp.{name}),' for name in observed),
        "rewards": "\n".join(
            f'{_INDENT}"{name}": RewardTermCfg(func=mdp.{func}, weight={weight}),'
            for name, (func, weight) in rewards.items()
        ),
        "terminations": "\n".join(_INDENT + line for line in terminations),
        "eye": f"({distance:.3g}, {-distance:.3g}, {height + 0.5 * distance:.3g})",
        "target": f"(0.0, 0.0, {height:.3g})",
    }


def _action(facts: RobotFacts) -> str:
    joints = ", ".join(f'"{name}"' for name in (*facts.hinges, *facts.slides))
    names = f"joint_names=[{joints}]"
    if not facts.by_effort:
        return f"JointPositionActionCfg({names}, scale=0.25)"
    limits = ", ".join(f'"{name}": {_scale(limit):g}' for name, limit in facts.effort_limits.items())
    return f"JointEffortActionCfg({names}, scale={{{limits}}})"


def _scale(limit: float) -> float:
    return limit if 0.0 < limit < 1e6 else 1.0
