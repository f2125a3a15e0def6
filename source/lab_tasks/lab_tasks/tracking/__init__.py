"""Tracking clips of motion with a Unitree G1."""

from lab_core.registry import TaskSpec

G1 = TaskSpec(
    id="Lab-Tracking-G1",
    env_cfg="lab_tasks.tracking.g1:g1_env_cfg",
    agents={
        "ppo": "lab_tasks.tracking.agents:g1_ppo_cfg",
        "supermimic": "lab_tasks.tracking.agents:g1_supermimic_cfg",
    },
    evaluator="lab_tasks.tracking.evaluation:MotionEvaluator",
    description="Follow recorded motions with the whole body of a Unitree G1.",
)
