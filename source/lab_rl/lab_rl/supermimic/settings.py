"""What settings must be."""

from __future__ import annotations

import math

from lab_core.agents import SuperMimicCfg
from lab_core.config import check_kinds
from lab_core.errors import ConfigError

_COUNTS = (
    "num_steps_per_env", "replay_steps", "max_iterations", "save_interval", "policy_updates", "horizon", "batch_size",
    "critic_epochs", "critic_mini_batches", "max_skipped_updates", "holdout_interval", "world_model.horizon",
    "world_model.first_horizon", "world_model.batch_size",
)  # fmt: skip
_NOT_NEGATIVE = (
    "warmup_noise", "imagined_noise", "observation_noise", "world_model.state_noise", "world_model.pose_weight",
    "world_model.event_weight", "world_model.weight_decay", "world_model_updates", "warmup_updates",
    "world_model.first_updates",
)  # fmt: skip
_POSITIVE = (
    "reward_scale", "action_limit", "learning_rate", "critic_learning_rate", "muon_learning_rate", "max_grad_norm",
    "replay_memory_gib", "world_model.learning_rate", "world_model.final_learning_rate", "world_model.max_grad_norm",
)  # fmt: skip
_SHARES = (
    "gamma", "lam", "target_decay", "ema_decay", "exploration_correlation", "world_model.failure_share",
    "world_model.newest_share", "world_model.holdout_share",
)  # fmt: skip


def check_supermimic_cfg(cfg: SuperMimicCfg) -> None:
    """Raises :class:`ConfigError` naming the first field of ``cfg`` that has an impossible value."""
    check_kinds(cfg, "agent")
    for names, holds, wanted in (
        (_COUNTS, lambda value: value >= 1, "at least 1"),
        (_NOT_NEGATIVE, lambda value: 0 <= value < math.inf, "0 or more and finite"),
        (_POSITIVE, lambda value: 0.0 < value < math.inf, "positive and finite"),
        (_SHARES, lambda value: 0.0 <= value <= 1.0, "in 0 .. 1"),
    ):
        for name in names:
            if not holds(value := _get(cfg, name)):
                raise ConfigError(f"agent.{name} must be {wanted}, got {value}.")
    if cfg.max_state_gradient is not None and not cfg.max_state_gradient > 0.0:
        raise ConfigError(f"agent.max_state_gradient must be positive or None, got {cfg.max_state_gradient}.")
    if not cfg.exploration or min(cfg.exploration) < 0.0:
        raise ConfigError(f"agent.exploration needs standard deviations of 0 or more, got {tuple(cfg.exploration)}.")
    model = cfg.world_model
    if model.failure_share + model.newest_share > 1.0:
        raise ConfigError("agent.world_model.failure_share and newest_share must not add up to more than 1.")
    longest = max(model.horizon, model.first_horizon)
    for name in ("replay_steps", "warmup_steps"):
        if getattr(cfg, name) < longest:
            raise ConfigError(
                f"agent.{name} must be at least the {longest} steps of a window, got {getattr(cfg, name)}."
            )
    for name, scale in model.context.items():
        if not scale > 0.0:
            raise ConfigError(f"agent.world_model.context[{name!r}] must be positive, got {scale}.")


def _get(cfg: SuperMimicCfg, path: str) -> float:
    value = cfg
    for name in path.split("."):
        value = getattr(value, name)
    return value  # pyright: ignore[reportReturnType]
