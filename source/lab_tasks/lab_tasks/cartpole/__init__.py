"""Balancing a pole on a cart, as a list of terms and as a class."""

from lab_core.registry import TaskSpec

CARTPOLE = TaskSpec(
    id="Lab-Cartpole",
    env_cfg="lab_tasks.cartpole.cartpole_env_cfg:cartpole_env_cfg",
    agents={"ppo": "lab_tasks.cartpole.agents:cartpole_ppo_cfg"},
    description="Balance a pole on a cart.",
)

CARTPOLE_DIRECT = TaskSpec(
    id="Lab-Cartpole-Direct",
    env_cfg="lab_tasks.cartpole.cartpole_direct_env:cartpole_direct_env_cfg",
    agents={"ppo": "lab_tasks.cartpole.agents:cartpole_ppo_cfg"},
    description="Balance a pole on a cart; the same task written as a class.",
)
