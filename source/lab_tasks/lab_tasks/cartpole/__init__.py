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

CARTPOLE_EXPLORE = TaskSpec(
    id="Lab-Cartpole-Explore",
    env_cfg="lab_tasks.cartpole.cartpole_dynamics_cfg:cartpole_explore_env_cfg",
    dynamics_cfg="lab_tasks.cartpole.cartpole_dynamics_cfg:cartpole_fit_cfg",
    description="Random states and forces of a pole on a cart, to learn its dynamics from.",
)

CARTPOLE_LEARNED = TaskSpec(
    id="Lab-Cartpole-Learned",
    env_cfg="lab_tasks.cartpole.cartpole_dynamics_cfg:cartpole_learned_env_cfg",
    agents={"ppo": "lab_tasks.cartpole.agents:cartpole_ppo_cfg"},
    description="Balance a pole on a cart in a learned model of its dynamics.",
    demo="lab_tasks:demos/cartpole_learned.onnx",
)
