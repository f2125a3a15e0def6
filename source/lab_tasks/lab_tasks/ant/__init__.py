"""Teaching an ant to run, as a list of terms and as a class."""

from lab_core.registry import TaskSpec

ANT = TaskSpec(
    id="Lab-Ant",
    env_cfg="lab_tasks.ant.ant_env_cfg:ant_env_cfg",
    agents={"ppo": "lab_tasks.ant.agents:ant_ppo_cfg"},
    description="Run with a four-legged ant.",
)

ANT_DIRECT = TaskSpec(
    id="Lab-Ant-Direct",
    env_cfg="lab_tasks.ant.ant_direct_env:ant_direct_env_cfg",
    agents={"ppo": "lab_tasks.ant.agents:ant_ppo_cfg"},
    description="Run with a four-legged ant; the same task written as a class.",
)
