"""Following velocity commands with four-legged robots, on flat and rough ground, in solvers and learned models."""

from lab_core.registry import TaskSpec

FLAT_GO2 = TaskSpec(
    id="Lab-Velocity-Flat-Go2",
    env_cfg="lab_tasks.velocity.go2:go2_flat_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:go2_flat_ppo_cfg"},
    description="Follow velocity commands with a Unitree Go2 on flat ground.",
)

ROUGH_GO2 = TaskSpec(
    id="Lab-Velocity-Rough-Go2",
    env_cfg="lab_tasks.velocity.go2:go2_rough_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:go2_rough_ppo_cfg"},
    description="Follow velocity commands with a Unitree Go2 over stairs, boxes, slopes and rubble.",
    demo="lab_tasks:demos/velocity_rough_go2.onnx",
)

FLAT_ANYMAL_C = TaskSpec(
    id="Lab-Velocity-Flat-AnymalC",
    env_cfg="lab_tasks.velocity.anymal_c:anymal_c_flat_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:anymal_c_flat_ppo_cfg"},
    description="Follow velocity commands with an ANYmal C on flat ground.",
)

ROUGH_ANYMAL_C = TaskSpec(
    id="Lab-Velocity-Rough-AnymalC",
    env_cfg="lab_tasks.velocity.anymal_c:anymal_c_rough_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:anymal_c_rough_ppo_cfg"},
    description="Follow velocity commands with an ANYmal C over stairs, boxes, slopes and rubble.",
)

FLAT_ANYMAL_C_EXPLORE = TaskSpec(
    id="Lab-Velocity-Flat-AnymalC-Explore",
    env_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_flat_explore_env_cfg",
    dynamics_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_fit_cfg",
    description="Wide states and random targets of an ANYmal C on flat ground, to learn its dynamics from.",
)

FLAT_ANYMAL_C_LEARNED = TaskSpec(
    id="Lab-Velocity-Flat-AnymalC-Learned",
    env_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_flat_learned_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:anymal_c_flat_ppo_cfg"},
    description="Follow velocity commands with an ANYmal C on flat ground in a learned model of its dynamics.",
)

ROUGH_ANYMAL_C_EXPLORE = TaskSpec(
    id="Lab-Velocity-Rough-AnymalC-Explore",
    env_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_rough_explore_env_cfg",
    dynamics_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_fit_cfg",
    description="Wide states and random targets of an ANYmal C on rough ground, to learn its dynamics from.",
)

ROUGH_ANYMAL_C_LEARNED = TaskSpec(
    id="Lab-Velocity-Rough-AnymalC-Learned",
    env_cfg="lab_tasks.velocity.anymal_c_dynamics_cfg:anymal_c_rough_learned_env_cfg",
    agents={"ppo": "lab_tasks.velocity.agents:anymal_c_rough_ppo_cfg"},
    description="Follow velocity commands with an ANYmal C on rough ground in a learned model of its dynamics.",
)
