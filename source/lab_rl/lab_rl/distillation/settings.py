"""Our settings of distillation in the words of rsl-rl."""

from __future__ import annotations

import math
from typing import Any

from lab_core.agents import DistillationCfg
from lab_core.config import check_kinds
from lab_core.errors import ConfigError
from lab_rl.algorithms.ppo.settings import actions_cfg, check_activation, check_memory, check_rsl_rl, network_cfg


def student_cfg(cfg: DistillationCfg) -> dict[str, Any]:
    """The student's network."""
    return {**network_cfg(cfg, cfg.student_hidden_dims), **actions_cfg(cfg.init_std)}


def check_distillation_cfg(cfg: DistillationCfg) -> None:
    """Checks settings.

    Raises:
        LabError: Another release of rsl-rl is installed.
        ConfigError: A field has an impossible value, or the teacher is missing.
    """
    check_rsl_rl()
    check_kinds(cfg, "agent")
    if cfg.teacher is None:
        raise ConfigError("agent.teacher is missing: give the teacher's run or checkpoint, as in --agent.teacher RUN.")
    for name in ("num_steps_per_env", "max_iterations", "save_interval", "num_learning_epochs", "gradient_length"):
        if getattr(cfg, name) < 1:
            raise ConfigError(f"agent.{name} must be at least 1, got {getattr(cfg, name)}.")
    for name in ("init_std", "learning_rate"):
        if not 0.0 < getattr(cfg, name) < math.inf:
            raise ConfigError(f"agent.{name} must be positive and finite, got {getattr(cfg, name)}.")
    for name in ("clip_actions", "max_grad_norm"):
        value = getattr(cfg, name)
        if value is not None and not value > 0.0:
            raise ConfigError(f"agent.{name} must be positive or None, got {value}.")
    if cfg.num_learning_epochs * cfg.num_steps_per_env % cfg.gradient_length:
        raise ConfigError(
            f"agent.gradient_length must divide num_learning_epochs * num_steps_per_env = "
            f"{cfg.num_learning_epochs * cfg.num_steps_per_env}, or its last steps teach nothing; "
            f"got {cfg.gradient_length}."
        )
    if not cfg.student_hidden_dims or min(cfg.student_hidden_dims) < 1:
        raise ConfigError(
            f"agent.student_hidden_dims must be one width or more, each at least 1, got {cfg.student_hidden_dims}."
        )
    check_activation(cfg.activation)
    check_memory(cfg.recurrent)
    groups = cfg.obs_groups.get("student", ())
    if set(cfg.obs_groups) != {"student"} or not groups or len(set(groups)) < len(groups):
        raise ConfigError(f"agent.obs_groups must have the key 'student' with groups, each once, got {cfg.obs_groups}.")
