"""The motion command as Warp code shows what the torch command shows."""

from __future__ import annotations

import torch

from lab_core.envs import make_env
from lab_tasks.tracking.g1 import g1_env_cfg
from lab_tasks.tracking.motion_command_warp import MotionCommandWarp

N = 4


def test_frames_follow_each_other_and_episodes_begin_where_an_event_says():
    cfg = g1_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = N, 1, 0.2
    cfg.commands["motion"].clips = ("stand", "slow_walk")
    env = make_env(cfg, "cpu", "warp")
    env.reset()
    command = env.command_manager.get_term("motion")
    assert isinstance(command, MotionCommandWarp)
    generator, resets = torch.Generator().manual_seed(0), 0
    for _ in range(15):
        following, clip = command.next_reference(), command.clip.clone()
        env.step(0.3 * torch.randn(N, 29, generator=generator))
        goes_on = ~env.reset_buf
        assert torch.equal(command.frame[goes_on], following.frame[goes_on])
        assert torch.equal(command.clip[goes_on], clip[goes_on])
        shown = command.reference(command.clip, command.frame)
        assert torch.equal(command.command, shown.command)
        assert torch.equal(command.target.body_pos, shown.target.body_pos)
        resets += int(env.reset_buf.sum())
    assert resets >= N
    assert command.sampler.visits.sum() > 0.0
    env.close()
