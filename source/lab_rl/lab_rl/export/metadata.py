"""What a robot's control program must know besides the network.

Everything is in SI units and full precision; null stands for "none" or "unlimited". What observations and actions mean
is described by :func:`lab_core.rollouts.describe_contract`.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from lab_core.envs import RLEnv
from lab_core.rollouts import action_terms, describe_contract
from lab_core.versions import git_revision, package_versions
from lab_rl.algorithms import Policy
from lab_rl.runs.trained_policy import TrainedPolicy

FORMAT = "lab policy 1"


def policy_metadata(policy: Policy, trained: TrainedPolicy) -> dict[str, Any]:
    """Describes ``policy``, which is ``trained`` attached to an environment, as plain JSON values."""
    env = policy.env
    contract = describe_contract(env, policy.groups)
    width = sum(width for _, width in action_terms(env))
    return {
        "format": FORMAT,
        "task": trained.cfg.task,
        "run": trained.path.resolve().parent.parent.name,
        "iteration": trained.checkpoint.iteration,
        "config_hash": trained.checkpoint.config_hash,
        "conventions": {
            "units": "SI (m, rad, s, kg, N, N m)",
            "world_frame": "z up",
            "quaternions": "xyzw",
            "history": "oldest first",
        },
        "timing": contract["timing"],
        "input": {"name": "obs", "width": sum(term["width"] for term in contract["observations"])},
        "memory": [
            {"input": f"{name}_in", "output": f"{name}_out", "layers": layers, "width": numbers}
            for name, (layers, numbers) in policy.memory.items()
        ],
        "observations": contract["observations"],
        "output": {"name": "actions", "width": width, "clipped_to": policy.clip_actions},
        "actions": contract["actions"],
        "commands": _commands(env),
        "entities": contract["entities"],
        "sensors": contract["sensors"],
        "versions": {**package_versions(), "python": platform.python_version()},
        "git": git_revision(),
    }


def mjlab_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The part that deployment programs for mjlab read, under its keys: comma-separated values.

    Joints are those of the first entity that has any.
    """
    robot = next(entity for entity in metadata["entities"].values() if "joint_names" in entity)
    terms, actions = metadata["observations"], metadata["actions"]
    return {
        "run_path": metadata["run"],
        "joint_names": _csv(robot["joint_names"]),
        "joint_stiffness": _csv(robot["joint_stiffness"]),
        "joint_damping": _csv(robot["joint_damping"]),
        "default_joint_pos": _csv(robot["default_joint_pos"]),
        "command_names": _csv(metadata["commands"]),
        "observation_names": _csv(term["name"] for term in terms),
        "observation_terms_scale": _csv(1.0 if (scale := term.get("scale")) is None else scale for term in terms),
        "observation_terms_clip": _csv(term.get("clip") for term in terms),
        "observation_terms_history_length": _csv(term.get("history_length", 0) for term in terms),
        "observation_terms_flatten_history_dim": _csv(term.get("flatten_history", True) for term in terms),
        "action_scale": _csv(scale for term in actions for scale in term.get("scale", [])),
    }


def _commands(env: RLEnv) -> list[str]:
    manager = getattr(env, "command_manager", None)
    return [] if manager is None else list(manager.term_names)


def _csv(values: Any) -> str:
    return ",".join(";".join(map(str, value)) if isinstance(value, list) else str(value) for value in values)
