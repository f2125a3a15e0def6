"""Following velocity commands with four-legged robots, on flat and on rough ground."""

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
