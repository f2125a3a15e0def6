"""Checks that users and every package run on their own managers, terms and buffers."""

from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg
from lab_core.testing.clips import CartClipCommand, CartClipCommandCfg, clip_cartpole_env_cfg, reset_to_clip
from lab_core.testing.reset_harness import check_masked_reset

__all__ = [
    "AnalyticCartpoleBackend",
    "CartClipCommand",
    "CartClipCommandCfg",
    "CartClipCommandCfg",
    "analytic_cartpole_env_cfg",
    "check_masked_reset",
    "clip_cartpole_env_cfg",
    "clip_cartpole_env_cfg",
    "reset_to_clip",
]
