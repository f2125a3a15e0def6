"""Windows of steps that follow each other."""

from __future__ import annotations

import torch

from lab_core.imagination import ArticulationState
from lab_core.managers import EventTermCfg
from lab_core.recorder import RecorderManager
from lab_rl.supermimic.recording import replay_recorder_cfg
from lab_rl.supermimic.replay import Replay, WindowBatch


def push(env, mask) -> None:
    env.scene["robot"].data.joint_vel[:, 0] += 0.05 * mask
    env.physics.written.logical_or_(mask)


def make(cfg, steps: int = 64) -> tuple:
    env = cfg.build("cpu")
    recorder = RecorderManager(replay_recorder_cfg("robot", "motion", (), steps, 1.0), env)
    env.set_recorder(recorder)
    held_out = torch.arange(env.num_envs) % 8 == 7
    replay = Replay(recorder.retention.ring, held_out, torch.Generator().manual_seed(0))
    return env, replay


def run(env, replay, steps: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Steps with random actions; returns what really happened, to compare with."""
    generator, log = torch.Generator().manual_seed(seed), []
    for step in range(steps):
        data, command = env.scene["robot"].data, env.command_manager.get_term("motion")
        before = ArticulationState.read(data).joint_pos.clone()
        shown = command.clip.clone(), command.frame.clone()
        action = 3.0 * torch.randn(env.num_envs, 1, generator=generator)
        _, _, terminated, truncated, _ = env.step(action)
        log.append({"start": before, "clip": shown[0], "frame": shown[1], "action": action,
                    "terminated": terminated, "done": terminated | truncated})  # fmt: skip
        if step % 4 == 3:
            replay.index(4)
    return log


def test_windows_hold_steps_that_follow_each_other_and_nothing_else(cart_cfg):
    cfg = cart_cfg(16)
    cfg.events["push"] = EventTermCfg(func=push, mode="interval", interval_range_s=(0.3, 0.6))
    env, replay = make(cfg)
    log = run(env, replay, 400)
    batch = WindowBatch(replay, 8, 5000)
    replay.draw_windows(batch, failures=0.25, newest=0.25)
    values, valid = batch.values, batch.valid
    assert valid[0].all() and (valid[:-1] | ~valid[1:]).all(), "valid steps come first"
    both = valid[:-1] & valid[1:]
    for name in ("root_link_pose_w", "joint_pos", "joint_vel"):
        end, start = values[f"end/{name}"][:-1], values[f"start/{name}"][1:]
        assert (end == start).all(-1)[both].all()
    assert not (values["ends/done"][:-1] & both).any(), "only the last step ends an episode"
    assert (values["reference/frame"][1:] == values["reference/frame"][:-1] + 1)[both].all()
    last = valid & ~torch.cat([valid[1:], torch.zeros_like(valid[:1])])
    assert (values["ends/done"] | (torch.arange(8)[:, None] == 7))[last].all(), "whole, or ended by the episode"
    failures = (values["ends/terminated"] & valid).any(0)[:1250].float().mean()
    assert failures == 1.0, "the first quarter ends in failures"
    assert not (batch.env_ids % 8 == 7).any(), "held out"
    # What is in the rows is what happened: each row is looked up by clip, frame and environment.
    recent = log[-replay.filled :]
    known = {(env_id, float(step["start"][env_id, 0])): step for step in recent for env_id in range(16)}
    for row in range(0, 5000, 97):
        env_id = int(batch.env_ids[row])
        step = known[env_id, float(values["start/joint_pos"][0, row, 0])]
        assert torch.equal(values["action/now"][0, row], step["action"][env_id])
        assert values["reference/frame"][0, row] == step["frame"][env_id]
        assert values["ends/terminated"][0, row] == step["terminated"][env_id]
    jumps = sum(int(step["done"].sum()) for step in recent)
    assert jumps > 50


def test_a_push_after_a_step_is_no_part_of_it(cart_cfg):
    cfg = cart_cfg(16)
    cfg.events["push"] = EventTermCfg(func=push, mode="interval", interval_range_s=(0.001, 0.001))
    env, replay = make(cfg)
    run(env, replay, 60)
    batch = WindowBatch(replay, 8, 200)
    replay.draw_windows(batch, failures=0.0, newest=0.0)
    assert batch.valid[0].all() and not batch.valid[1:].any()


def test_the_newest_share_ends_among_the_newest_steps(cart_cfg):
    env, replay = make(cart_cfg(16))
    log = run(env, replay, 200)
    batch = WindowBatch(replay, 4, 400)
    replay.draw_windows(batch, failures=0.0, newest=1.0)
    recent = {(env_id, float(step["start"][env_id, 0])) for step in log[-7:] for env_id in range(16)}
    found = [(int(e), float(x)) for e, x in zip(batch.env_ids, batch.values["start/joint_pos"][0, :, 0], strict=True)]
    assert set(found) <= recent and len(set(found)) > 30


def test_before_the_ring_is_full_nothing_empty_is_drawn(cart_cfg):
    env, replay = make(cart_cfg(16))
    run(env, replay, 12)
    batch, steps = WindowBatch(replay, 4, 500), WindowBatch(replay, 1, 500)
    replay.draw_windows(batch, failures=0.5, newest=0.3)
    replay.draw_steps(steps)
    assert batch.valid[0].all() and steps.valid.all()
    assert (batch.values["start/root_link_pose_w"][..., 6][batch.valid] == 1.0).all()


def test_held_out_windows_are_of_environments_held_out(cart_cfg):
    env, replay = make(cart_cfg(16))
    run(env, replay, 60)
    batch = WindowBatch(replay, 4, 100)
    replay.draw_held_out(batch)
    assert (batch.env_ids % 8 == 7).all() and batch.valid[0].all()


def test_a_restored_replay_draws_the_same(cart_cfg):
    env, replay = make(cart_cfg(16))
    run(env, replay, 100)
    stored = replay.state_dict()
    other_env, other = make(cart_cfg(16))
    run(other_env, other, 24, seed=5)  # elsewhere in its ring
    other.load_state_dict(stored)
    batches = []
    for each in (replay, other):
        each._generator.manual_seed(4)
        each.index(0)
        each._newest = 4
        batch = WindowBatch(each, 8, 300)
        each.draw_windows(batch, 0.25, 0.25)
        batches.append(batch)
    assert torch.equal(batches[0].rows, batches[1].rows) and torch.equal(batches[0].valid, batches[1].valid)
