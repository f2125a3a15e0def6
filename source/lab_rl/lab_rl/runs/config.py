"""The configuration from which a run can be started again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from lab_core.agents import AgentCfg
from lab_core.config import MISSING, Settings, check_kinds, config_hash, load_yaml
from lab_core.envs import RLEnvCfg
from lab_core.errors import ConfigError
from lab_core.trust import reading_a_file


@dataclass(kw_only=True)
class RunCfg(Settings):
    """Everything that decides what a run does; ``config.yaml`` in its folder."""

    task: str = MISSING
    device: str = MISSING
    """Torch device, such as ``cuda:0``."""
    frontend: str = "torch"
    """What runs the environment; see ``lab_core.envs.make_env``."""
    env: RLEnvCfg = MISSING
    agent: AgentCfg = MISSING
    """Settings of the algorithm; they say which one."""

    def hash(self) -> str:
        """SHA-256 of :meth:`problem`."""
        return config_hash(self.problem())

    def problem(self) -> RunCfg:
        """Returns what decides the learning problem: how long a run lasts and where it runs do not count."""
        agent = dataclasses.replace(self.agent, max_iterations=0, save_interval=0, experiment_name=None)
        return dataclasses.replace(self, device="", agent=agent)


def load_run_cfg(path: Path) -> RunCfg:
    """The configuration in the ``config.yaml`` of a run.

    Raises:
        ConfigError: The file cannot be read, holds something else, or names code that is not trusted, see
            :mod:`lab_core.trust`.
    """
    with reading_a_file():
        cfg = load_yaml(path)
    if not isinstance(cfg, RunCfg):
        raise ConfigError(f"{path}: expected the configuration of a run (RunCfg), found a {type(cfg).__name__}.")
    try:
        check_kinds(cfg)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return cfg
