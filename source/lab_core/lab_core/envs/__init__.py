"""Vectorised environments on a physics backend."""

from lab_core.envs.direct_rl_env import DirectRLEnv, DirectRLEnvCfg
from lab_core.envs.episode_log import EpisodeLog
from lab_core.envs.frontends import check_frontend, frontend_names, make_env
from lab_core.envs.manager_based_rl_env import ManagerBasedRLEnv, ManagerBasedRLEnvCfg
from lab_core.envs.observations import Observations, copy_observations, write_observations
from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.envs.stage_marks import MarkStage, StageHook

__all__ = [
    "DirectRLEnv",
    "DirectRLEnvCfg",
    "EpisodeLog",
    "ManagerBasedRLEnv",
    "ManagerBasedRLEnvCfg",
    "MarkStage",
    "Observations",
    "RLEnv",
    "RLEnvCfg",
    "StageHook",
    "check_frontend",
    "copy_observations",
    "frontend_names",
    "make_env",
    "write_observations",
]
