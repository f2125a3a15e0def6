"""Environments whose step is Warp code: one graph where everything in it can be captured."""

from __future__ import annotations

from lab_warp.envs.direct_rl_env_warp import DirectRLEnvWarp
from lab_warp.envs.frontend import build_env
from lab_warp.envs.manager_based_rl_env_warp import ManagerBasedRLEnvWarp
from lab_warp.envs.warp_rl_env import WarpRLEnv

__all__ = ["DirectRLEnvWarp", "ManagerBasedRLEnvWarp", "WarpRLEnv", "build_env"]
