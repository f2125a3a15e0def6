"""Settings of learning algorithms, free of any learning library: tasks state them, ``lab_rl`` reads them."""

from lab_core.agents.base import AgentCfg
from lab_core.agents.distillation import DistillationCfg
from lab_core.agents.extensions import CuriosityCfg, RecurrentCfg, SymmetryCfg
from lab_core.agents.ppo import PPOCfg
from lab_core.agents.supermimic import SuperMimicCfg, WorldModelCfg

__all__ = [
    "AgentCfg",
    "CuriosityCfg",
    "DistillationCfg",
    "PPOCfg",
    "RecurrentCfg",
    "SuperMimicCfg",
    "SymmetryCfg",
    "WorldModelCfg",
]
