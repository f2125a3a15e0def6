"""Vectorised environments on a physics backend."""

from lab_core.envs.direct_rl_env import DirectRLEnv, DirectRLEnvCfg
from lab_core.envs.frontends import check_frontend, frontend_names, make_env
from lab_core.envs.manager_based_rl_env import ManagerBasedRLEnv, ManagerBasedRLEnvCfg
from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg

__all__ = [
    "DirectRLEnv",
    "DirectRLEnvCfg",
    "ManagerBasedRLEnv",
    "ManagerBasedRLEnvCfg",
    "RLEnv",
    "RLEnvCfg",
    "check_frontend",
    "frontend_names",
    "make_env",
]
