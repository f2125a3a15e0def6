"""Vectorised environments on a physics backend."""

from lab_core.envs.direct_rl_env import DirectRLEnv, DirectRLEnvCfg
from lab_core.envs.episode_log import EpisodeLog
from lab_core.envs.frontends import FrontEndChoice, check_frontend, choose_frontend, frontend_names, make_env
from lab_core.envs.manager_based_rl_env import ManagerBasedRLEnv, ManagerBasedRLEnvCfg
from lab_core.envs.observations import Observations, copy_observations, write_observations
from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.envs.stages import STEP, MarkStage, run_stages

__all__ = [
    "STEP",
    "run_stages",
    "DirectRLEnv",
    "DirectRLEnvCfg",
    "EpisodeLog",
    "FrontEndChoice",
    "ManagerBasedRLEnv",
    "ManagerBasedRLEnvCfg",
    "MarkStage",
    "Observations",
    "RLEnv",
    "RLEnvCfg",
    "check_frontend",
    "choose_frontend",
    "copy_observations",
    "frontend_names",
    "make_env",
    "write_observations",
]
