"""The stages of a Warp step, for whoever measures how long each takes."""

from __future__ import annotations

from lab_core.envs import StageHook

WARP_STEP = (
    StageHook("_process", "action"),
    StageHook("_recorder_call", "recorder"),
    StageHook("_apply_action", "action"),
    StageHook("_physics_call", "physics", when=lambda function, *args: function.__name__ == "step"),
    StageHook("_compute_dones", "terminations"),
    StageHook("_compute_reward", "rewards"),
    StageHook("_observe_end", "final observations"),
    StageHook("_reset_done", "reset"),
    StageHook("_compute_commands", "commands"),
    StageHook("_apply_interval_events", "interval events"),
    StageHook("_observe", "observations", when=lambda mask: mask is None),
)
"""The step of :class:`lab_warp.envs.warp_rl_env.WarpRLEnv`."""
