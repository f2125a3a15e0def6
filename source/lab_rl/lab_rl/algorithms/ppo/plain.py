"""When PPO acts and learns in rsl-rl's own code rather than captured."""

from __future__ import annotations

from lab_core.agents import PPOCfg
from lab_rl.processes import Processes


def plain_because(cfg: PPOCfg, processes: Processes) -> str | None:
    """Returns why nothing is captured, in words; None where it is."""
    if not cfg.captured:
        return "agent.captured is off"
    for extension, what in (
        (cfg.recurrent, "recurrent networks"),
        (cfg.curiosity, "random network distillation"),
        (cfg.symmetry, "mirrored steps"),
    ):
        if extension is not None:
            return f"{what} are not captured" if what.endswith("s") else f"{what} is not captured"
    if processes.world_size > 1:
        return "several processes average their gradients"
    return None
