"""The front end that runs an environment's configuration as Warp code."""

from __future__ import annotations

import torch

from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv, RLEnvCfg
from lab_core.errors import ConfigError
from lab_warp.envs.manager_based_rl_env_warp import ManagerBasedRLEnvWarp
from lab_warp.twins import find_twin


def why_not(cfg: RLEnvCfg) -> str:
    """Returns why no Warp environment can run a configuration; nothing if one can.

    Only an environment that is a class needs a twin as a whole: terms without one run at their place in torch.
    """
    if isinstance(cfg, ManagerBasedRLEnvCfg) or find_twin(type(cfg)) is not None:
        return ""
    return f"the environment of {type(cfg).__name__} has no Warp twin"


def build_env(cfg: RLEnvCfg, device: str | torch.device = "cpu") -> RLEnv:
    """Returns the Warp environment of a configuration.

    Raises:
        ConfigError: it configures an environment that is a class, and the class has no twin.
    """
    if isinstance(cfg, ManagerBasedRLEnvCfg):
        return ManagerBasedRLEnvWarp(cfg, device)
    twin = find_twin(type(cfg))
    if twin is None:
        raise ConfigError(f"Front end 'warp' cannot run it: {why_not(cfg)}. Use the front end 'torch'.")
    return twin(cfg, device)
