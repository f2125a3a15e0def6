"""Front ends: what runs an environment's configuration.

The torch front end is part of this package. Others are announced by the packages that bring them, as modules:

    [project.entry-points."lab.frontends"]
    warp = "lab_warp.envs.frontend"        # build_env(cfg, device) -> RLEnv, why_not(cfg) -> str

Where one is installed and can run a configuration, it is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.registry import EntryPointGroup

AUTO = "auto"
TORCH = "torch"
_FRONTENDS = EntryPointGroup("lab.frontends", "front end")


class FrontEnd(Protocol):
    """What the module of a front end offers."""

    def build_env(self, cfg: RLEnvCfg, device: str | torch.device = "cpu", /) -> RLEnv:
        """Returns the environment of a configuration."""
        ...

    def why_not(self, cfg: RLEnvCfg, /) -> str:
        """Returns why it cannot run this configuration; nothing if it can."""
        ...


@dataclass(frozen=True)
class FrontEndChoice:
    """A front end and why it was taken."""

    name: str
    reason: str


def frontend_names() -> list[str]:
    """Returns the front ends of the installed packages. Imports none."""
    return [TORCH, *_FRONTENDS.names()]


def check_frontend(name: str) -> None:
    """Raises :class:`ConfigError` for a front end that is neither ``"auto"`` nor brought by an installed package."""
    known = [AUTO, *frontend_names()]
    if name not in known:
        raise ConfigError(unknown_name_message("front end", name, known))


def choose_frontend(name: str, cfg: RLEnvCfg) -> FrontEndChoice:
    """Returns the front end called ``name``; for ``"auto"`` the first other than torch that can run ``cfg``.

    Raises:
        ConfigError: no installed package brings it.
        PluginError: the package of a front end is broken.
    """
    check_frontend(name)
    if name != AUTO:
        return FrontEndChoice(name, "as configured")
    refusals = []
    for other in _FRONTENDS.names():
        refusal = _load(other).why_not(cfg)
        if not refusal:
            return FrontEndChoice(other, f"the default where it is installed; --frontend {TORCH} asks for the other")
        refusals.append(f"not {other}: {refusal}")
    return FrontEndChoice(TORCH, "; ".join(refusals) or "no other one is installed")


def make_env(cfg: RLEnvCfg, device: str | torch.device = "cpu", frontend: str = AUTO) -> RLEnv:
    """Returns the environment of a configuration.

    Args:
        cfg: What to build; a deep copy is kept.
        device: Where all tensors live.
        frontend: What runs it; see :func:`choose_frontend`. ``cfg.build(device)`` is the torch one.

    Raises:
        ConfigError: no installed package brings the front end, or it cannot run this configuration.
        PluginError: its package is broken.
    """
    name = choose_frontend(frontend, cfg).name
    return cfg.build(device) if name == TORCH else _load(name).build_env(cfg, device)


def _load(name: str) -> FrontEnd:
    return _FRONTENDS.load(name)
