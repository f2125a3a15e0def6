"""Our PPO settings in the words of rsl-rl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rsl_rl.utils import resolve_nn_activation

from lab_core.agents import PPOCfg
from lab_core.config import check_kinds
from lab_core.errors import ConfigError, LabError
from lab_rl.algorithms.ppo.distribution import Gaussian
from lab_rl.processes import Processes

RSL_RL_VERSION = "5.5.1"
"""The release whose configuration and classes this module speaks to; names there change between releases."""


def rsl_rl_cfg(cfg: PPOCfg) -> dict[str, Any]:
    """A fresh runner configuration of rsl-rl for ``cfg``.

    Raises:
        LabError: Another release of rsl-rl is installed.
        ConfigError: A field has an impossible value.
    """
    installed = version("rsl-rl-lib")
    if installed != RSL_RL_VERSION:
        raise LabError(f"lab_rl needs rsl-rl-lib {RSL_RL_VERSION}, found {installed}.")
    check_ppo_cfg(cfg)
    return {
        "num_steps_per_env": cfg.num_steps_per_env,
        "save_interval": cfg.save_interval,
        "obs_groups": {name: list(groups) for name, groups in cfg.obs_groups.items()},
        "check_for_nan": False,  # the runner checks whole iterations on the device
        "multi_gpu": None,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": cfg.num_learning_epochs,
            "num_mini_batches": cfg.num_mini_batches,
            "clip_param": cfg.clip_param,
            "gamma": cfg.gamma,
            "lam": cfg.lam,
            "value_loss_coef": cfg.value_loss_coef,
            "entropy_coef": cfg.entropy_coef,
            "learning_rate": cfg.learning_rate,
            "max_grad_norm": cfg.max_grad_norm,
            "use_clipped_value_loss": cfg.use_clipped_value_loss,
            "schedule": cfg.schedule,
            "desired_kl": cfg.desired_kl,
        },
        "actor": {
            **_network(cfg, cfg.actor_hidden_dims),
            "distribution_cfg": {"class_name": Gaussian, "init_std": cfg.init_std},
        },
        "critic": _network(cfg, cfg.critic_hidden_dims),
    }


def rsl_rl_processes(processes: Processes) -> dict[str, int] | None:
    """What rsl-rl wants to know about the processes that learn together; None for one alone."""
    if processes.world_size == 1:
        return None
    return {"global_rank": processes.rank, "local_rank": processes.rank, "world_size": processes.world_size}


def check_ppo_cfg(cfg: PPOCfg) -> None:
    """Raises ``ConfigError`` naming the first field of ``cfg`` that has an impossible value."""
    check_kinds(cfg, "agent")
    for name in ("num_steps_per_env", "max_iterations", "save_interval", "num_learning_epochs", "num_mini_batches"):
        if getattr(cfg, name) < 1:
            raise ConfigError(f"agent.{name} must be at least 1, got {getattr(cfg, name)}.")
    for name in ("init_std", "learning_rate", "desired_kl", "clip_param", "max_grad_norm"):
        if not 0.0 < getattr(cfg, name) < math.inf:
            raise ConfigError(f"agent.{name} must be positive and finite, got {getattr(cfg, name)}.")
    for name in ("entropy_coef", "value_loss_coef"):
        if not math.isfinite(getattr(cfg, name)):
            raise ConfigError(f"agent.{name} must be finite, got {getattr(cfg, name)}.")
    for name in ("actor_hidden_dims", "critic_hidden_dims"):
        widths = getattr(cfg, name)
        if not widths or min(widths) < 1:
            raise ConfigError(f"agent.{name} must be one width or more, each at least 1, got {widths}.")
    for name in ("gamma", "lam"):
        if not 0.0 <= getattr(cfg, name) <= 1.0:
            raise ConfigError(f"agent.{name} must be in 0 .. 1, got {getattr(cfg, name)}.")
    if cfg.clip_actions is not None and not cfg.clip_actions > 0.0:
        raise ConfigError(f"agent.clip_actions must be positive or None, got {cfg.clip_actions}.")
    if cfg.schedule not in ("adaptive", "fixed"):
        raise ConfigError(f"agent.schedule must be 'adaptive' or 'fixed', got {cfg.schedule!r}.")
    try:
        resolve_nn_activation(cfg.activation)
    except ValueError as error:
        raise ConfigError(f"agent.activation: {error}") from error
    if set(cfg.obs_groups) != {"actor", "critic"}:
        raise ConfigError(f"agent.obs_groups must have the keys 'actor' and 'critic', got {sorted(cfg.obs_groups)}.")
    for network, groups in cfg.obs_groups.items():
        if not groups or len(set(groups)) < len(groups):
            raise ConfigError(f"agent.obs_groups.{network} must name groups, each once, got {groups}.")


def _network(cfg: PPOCfg, hidden_dims: Sequence[int]) -> dict[str, Any]:
    return {
        "class_name": "MLPModel",
        "hidden_dims": list(hidden_dims),
        "activation": cfg.activation,
        "obs_normalization": cfg.obs_normalization,
    }
