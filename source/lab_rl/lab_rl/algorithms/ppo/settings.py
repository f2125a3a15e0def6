"""Our PPO settings in the words of rsl-rl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol

from rsl_rl.utils import resolve_nn_activation

from lab_core.agents import CuriosityCfg, PPOCfg, RecurrentCfg, SymmetryCfg
from lab_core.config import MISSING, check_kinds
from lab_core.errors import ConfigError, LabError
from lab_rl.algorithms.ppo.distribution import Gaussian
from lab_rl.processes import Processes

RSL_RL_VERSION = "5.5.1"
"""The release whose configuration and classes this module speaks to; names there change between releases."""


def rsl_rl_cfg(cfg: PPOCfg, step_dt: float = 1.0) -> dict[str, Any]:
    """A fresh runner configuration of rsl-rl for ``cfg``, in an environment that is stepped every ``step_dt`` [s].

    Raises:
        LabError: Another release of rsl-rl is installed.
        ConfigError: A field has an impossible value.
    """
    check_rsl_rl()
    check_ppo_cfg(cfg)
    return {
        "num_steps_per_env": cfg.num_steps_per_env,
        "save_interval": cfg.save_interval,
        "obs_groups": {name: list(groups) for name, groups in groups_read(cfg).items()},
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
            "rnd_cfg": None if cfg.curiosity is None else _rnd(cfg.curiosity, step_dt),
            "symmetry_cfg": None if cfg.symmetry is None else _symmetry(cfg.symmetry),
        },
        "actor": {**network_cfg(cfg, cfg.actor_hidden_dims), **actions_cfg(cfg.init_std)},
        "critic": network_cfg(cfg, cfg.critic_hidden_dims),
    }


def check_rsl_rl() -> None:
    """Raises ``LabError`` where another release of rsl-rl is installed."""
    installed = version("rsl-rl-lib")
    if installed != RSL_RL_VERSION:
        raise LabError(f"lab_rl needs rsl-rl-lib {RSL_RL_VERSION}, found {installed}.")


def groups_read(cfg: PPOCfg) -> dict[str, Sequence[str]]:
    """The observation groups that each network reads, by the names that rsl-rl gives these."""
    curious = {} if cfg.curiosity is None else {"rnd_state": cfg.curiosity.groups}
    return {**cfg.obs_groups, **curious}


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
    check_memory(cfg.recurrent)
    _check_extensions(cfg)
    for name in ("gamma", "lam"):
        if not 0.0 <= getattr(cfg, name) <= 1.0:
            raise ConfigError(f"agent.{name} must be in 0 .. 1, got {getattr(cfg, name)}.")
    if cfg.clip_actions is not None and not cfg.clip_actions > 0.0:
        raise ConfigError(f"agent.clip_actions must be positive or None, got {cfg.clip_actions}.")
    if cfg.schedule not in ("adaptive", "fixed"):
        raise ConfigError(f"agent.schedule must be 'adaptive' or 'fixed', got {cfg.schedule!r}.")
    check_activation(cfg.activation)
    if set(cfg.obs_groups) != {"actor", "critic"}:
        raise ConfigError(f"agent.obs_groups must have the keys 'actor' and 'critic', got {sorted(cfg.obs_groups)}.")
    for network, groups in cfg.obs_groups.items():
        if not groups or len(set(groups)) < len(groups):
            raise ConfigError(f"agent.obs_groups.{network} must name groups, each once, got {groups}.")


def check_memory(cfg: RecurrentCfg | None) -> None:
    """Raises ``ConfigError`` where the sizes of a memory are impossible."""
    for name in () if cfg is None else ("hidden_dim", "num_layers"):
        if getattr(cfg, name) < 1:
            raise ConfigError(f"agent.recurrent.{name} must be at least 1, got {getattr(cfg, name)}.")


def check_activation(name: str) -> None:
    """Raises ``ConfigError`` where rsl-rl knows no activation of this name."""
    try:
        resolve_nn_activation(name)
    except ValueError as error:
        raise ConfigError(f"agent.activation: {error}") from error


def _check_extensions(cfg: PPOCfg) -> None:
    if cfg.symmetry is not None:
        if cfg.symmetry.function is MISSING:
            raise ConfigError("agent.symmetry.function is missing: give what mirrors, as module:name.")
        if cfg.recurrent is not None:
            raise ConfigError("agent.symmetry and agent.recurrent do not go together: a memory cannot be mirrored.")
    if cfg.curiosity is not None and not math.isfinite(cfg.curiosity.weight):
        raise ConfigError(f"agent.curiosity.weight must be finite, got {cfg.curiosity.weight}.")


class NetworkSettings(Protocol):
    """What settings say about all of their networks."""

    activation: str
    obs_normalization: bool
    recurrent: RecurrentCfg | None


def network_cfg(cfg: NetworkSettings, hidden_dims: Sequence[int]) -> dict[str, Any]:
    """A network of rsl-rl with these hidden layers."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(hidden_dims),
        "activation": cfg.activation,
        "obs_normalization": cfg.obs_normalization,
    }
    if (memory := cfg.recurrent) is None:
        return network
    sizes = {"rnn_hidden_dim": memory.hidden_dim, "rnn_num_layers": memory.num_layers}
    return {**network, "class_name": "RNNModel", "rnn_type": memory.type, **sizes}


def actions_cfg(init_std: float) -> dict[str, Any]:
    """What a network of rsl-rl needs to give actions."""
    return {"distribution_cfg": {"class_name": Gaussian, "init_std": init_std}}


def _rnd(cfg: CuriosityCfg, step_dt: float) -> dict[str, Any]:
    """rsl-rl scales the weight by the step itself, but not the one that it becomes."""
    schedule: dict[str, Any] | None = None
    if cfg.schedule != "constant":
        schedule = {"mode": cfg.schedule, "final_step": cfg.final_step, "final_value": cfg.final_weight * step_dt}
    if cfg.schedule == "linear":
        schedule = {**(schedule or {}), "initial_step": cfg.first_step}
    return {
        "num_outputs": cfg.num_outputs,
        "predictor_hidden_dims": list(cfg.predictor_hidden_dims),
        "target_hidden_dims": list(cfg.target_hidden_dims),
        "activation": cfg.activation,
        "state_normalization": cfg.state_normalization,
        "reward_normalization": cfg.reward_normalization,
        "weight": cfg.weight,
        "weight_schedule": schedule,
        "learning_rate": cfg.learning_rate,
    }


def _symmetry(cfg: SymmetryCfg) -> dict[str, Any]:
    return {
        "data_augmentation_func": cfg.function,
        "use_data_augmentation": cfg.data_augmentation,
        "use_mirror_loss": cfg.mirror_loss_coef != 0.0,
        "mirror_loss_coeff": cfg.mirror_loss_coef,
    }
