"""Settings that every learning algorithm has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lab_core.config import Settings


@dataclass(kw_only=True)
class AgentCfg(Settings):
    """States how long an agent learns, how often it is kept and where its runs go.

    Each algorithm derives its own settings from this class and names itself in :attr:`algorithm`, so that settings
    say which algorithm they are for.
    """

    algorithm: ClassVar[str]
    """Name of the algorithm that reads these settings, as in ``lab train --algorithm``."""

    experiment_name: str | None = None
    """Folder of the runs below the log directory. None: the task id."""
    max_iterations: int = 1500
    """Iterations of the whole run, also when it is resumed."""
    save_interval: int = 50
    """Iterations between two checkpoints; the last iteration always has one."""
    init_at_random_ep_len: bool = True
    """Start a new run with episodes of random age, so that their time-outs do not all fall into one step."""
