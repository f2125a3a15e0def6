"""Front ends: what runs an environment's configuration.

The torch front end is part of this package. Others are announced by the packages that bring them:

    [project.entry-points."lab.frontends"]
    warp = "lab_warp.envs:build_env"        # (cfg, device) -> RLEnv
"""

from __future__ import annotations

import torch

from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.registry import EntryPointGroup

TORCH = "torch"
_FRONTENDS = EntryPointGroup("lab.frontends", "front end")


def frontend_names() -> list[str]:
    """Returns the front ends of the installed packages. Imports none."""
    return [TORCH, *_FRONTENDS.names()]


def check_frontend(name: str) -> None:
    """Raises :class:`ConfigError` for a front end that no installed package brings."""
    if name not in frontend_names():
        raise ConfigError(unknown_name_message("front end", name, frontend_names()))


def make_env(cfg: RLEnvCfg, device: str | torch.device = "cpu", frontend: str = TORCH) -> RLEnv:
    """Returns the environment of a configuration.

    Raises:
        ConfigError: no installed package brings the front end, or it cannot run this configuration.
        PluginError: its package is broken.
    """
    check_frontend(frontend)
    return cfg.build(device) if frontend == TORCH else _FRONTENDS.load(frontend)(cfg, device)
