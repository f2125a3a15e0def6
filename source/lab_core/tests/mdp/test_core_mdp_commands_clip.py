"""Commands that show frames of clips."""

from __future__ import annotations

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.imagination import ArticulationState, Imagination, ImaginationError
from lab_core.managers import TermError
from lab_core.testing import check_masked_reset
from lab_core.testing.clips import CartClipCommand, CartClipCommandCfg, clip_cartpole_env_cfg

N = 4
ALL = torch.ones(N, dtype=torch.bool)
SOME = torch.tensor([True, False, True, False])


def make_env(**clips: int) -> ManagerBasedRLEnv:
    cfg = clip_cartpole_env_cfg(num_envs=N)
    if clips:
        cfg.commands["motion"] = CartClipCommandCfg(clips=clips)
    return cfg.build()


def term_of(env: ManagerBasedRLEnv) -> CartClipCommand:
    return env.command_manager.get_term("motion")  # pyright: ignore[reportReturnType]


def test_a_term_starts_where_it_is_told():
    term = term_of(make_env())
    term.start_at(ALL, 1, 7)
    before = term.command.clone()
    term.start_at(SOME, torch.tensor([2, 0, 0, 0]), torch.tensor([3, 0, 1000, 0]))
    assert term.clip.tolist() == [2, 1, 0, 1] and term.frame.tolist() == [3, 7, 39, 7]
    assert term.at_end.tolist() == [False, False, True, False]
    assert torch.equal(term.command[~SOME], before[~SOME])
    assert torch.equal(term.command, term.reference(term.clip, term.frame).command)


def test_references_are_for_any_batch_and_stay_at_the_end():
    term = term_of(make_env())
    clip, frame = torch.tensor([0, 2, 2]), torch.tensor([39, 24, 90])
    reference = term.reference(clip, frame)
    assert reference.at_end.tolist() == [True, True, True] and reference.frame.tolist() == [39, 24, 24]
    assert reference.command.shape == (3, 2) and torch.equal(reference.command[1], reference.command[2])


def test_next_reference_is_what_the_next_step_shows():
    env = make_env(short=30)
    term = term_of(env)
    env.reset()
    for _ in range(9):
        following, resets = term.next_reference(), env.termination_manager.dones
        env.step(torch.zeros(N, 1))
        stays = ~resets
        assert torch.equal(term.command[stays], following.command[stays])
        assert torch.equal(term.frame[stays], following.frame[stays])


def test_a_frame_follows_the_other_to_the_end_of_the_clip():
    """Of five frames the last is shown in the fifth step, which ends the episode as cut off."""
    env = make_env(short=5)
    env.reset()
    assert term_of(env).frame.tolist() == [0] * N  # only the first frame is not in the tail
    for step in range(5):
        assert term_of(env).frame.tolist() == [step] * N
        _, _, terminated, truncated, _ = env.step(torch.zeros(N, 1))
        assert truncated.tolist() == [step == 4] * N and not terminated.any()
    assert env.termination_manager.get_term("clip_ended").all()


def test_a_reset_event_draws_and_the_robot_is_there():
    env = make_env()
    env.reset()
    assert len(set(term_of(env).frame.tolist())) > 1
    torch.testing.assert_close(env.scene["robot"].data.joint_pos[:, 0], term_of(env).position)


def test_a_given_state_is_kept():
    env = make_env()
    state = env.scene.get_state()
    state["articulation"]["robot"]["joint_position"] += 0.1
    env.reset_to(state)
    assert torch.equal(env.scene["robot"].data.joint_pos, state["articulation"]["robot"]["joint_position"])


def test_without_an_event_a_clip_begins_anew():
    cfg = clip_cartpole_env_cfg(num_envs=N)
    cfg.events = {}
    env = cfg.build()
    term = term_of(env)
    term.start_at(ALL, 1, 30)
    env.step(torch.zeros(N, 1))
    env.reset(mask=SOME)
    assert term.frame.tolist() == [0, 31, 0, 31] and term.clip.tolist() == [1] * N
    assert torch.equal(term.command, term.reference(term.clip, term.frame).command)


def test_a_partial_reset_leaves_the_other_rows_alone():
    term = term_of(make_env())
    term.start_at(ALL, 1, 30)
    term.compute(0.1)
    assert "frame" in check_masked_reset(term, term.reset, N, keep=("_started",))


def test_the_shown_frame_and_the_sampler_are_state():
    env, other = make_env(), make_env()
    for _ in range(7):
        env.step(torch.zeros(N, 1))
    state = env.state_dict()
    names = {name.rpartition("motion.")[2] for name in state["environment"] if "motion." in name}
    assert {"clip", "frame", "sampler.returns", "sampler.failures", "sampler.visits"} <= names
    assert "clip_lengths" not in names
    other.load_state_dict(state)
    for _ in range(60):
        ours, theirs = (each.step(torch.ones(N, 1))[0]["policy"] for each in (env, other))
        assert torch.equal(ours, theirs)


def test_wrong_starts_are_named():
    term = term_of(make_env())
    with pytest.raises(TermError, match="no clip 3, only 0: slow, 1: fast, 2: still"):
        term.start_at(ALL, 3, 0)
    with pytest.raises(TermError, match="frame 0 or later, got -1"):
        term.start_at(ALL, 0, -1)


def test_clips_are_there_and_long_enough():
    cfg = clip_cartpole_env_cfg(num_envs=N)
    cfg.commands["motion"] = CartClipCommandCfg(clips={})
    with pytest.raises(TermError, match="command term 'motion': A clip command takes clips"):
        cfg.build()
    cfg.commands["motion"] = CartClipCommandCfg(sampler=mdp.ClipSamplerCfg(rate=2.0))
    with pytest.raises(TermError, match="command term 'motion': sampler: rate must be between 0 and 1, got 2.0"):
        cfg.build()


def test_the_termination_needs_a_clip():
    cfg = clip_cartpole_env_cfg(num_envs=N)
    cfg.commands["other"] = mdp.NullCommandCfg()
    cfg.terminations["clip_ended"].params["command_name"] = "other"
    env = cfg.build()
    with pytest.raises(TermError, match="clip_ended needs a clip command, and 'other' is a NullCommand"):
        env.step(torch.zeros(N, 1))


# Imagined ---------------------------------------------------------------------------------------------------------


def test_references_are_commands_of_imagined_environments():
    """Reward and end of a recorded step come out as the managers', and the observation after it with the next frame."""
    env = make_env(short=11)
    imagination, term, ids = Imagination(env), term_of(env), torch.tensor([3, 0, 0, 2, 1])
    env.reset()
    for step in range(11):
        shown = term.reference(term.clip[ids], term.frame[ids])
        following = term.reference(term.clip[ids], term.frame[ids] + 1)
        found = {}

        def mark(stage: str, shown=shown, following=following, found=found) -> None:
            if stage != "rewards":
                return
            state = ArticulationState.read(env.scene["robot"].data)
            rows = ArticulationState(*(getattr(state, name)[ids] for name in state.__dataclass_fields__))
            rows.joint_pos.requires_grad_()
            actions = env.action_manager
            view = [
                imagination.view(
                    {"robot": rows}, ids, action=actions.action[ids], prev_action=actions.prev_action[ids],
                    commands={"motion": command}, episode_length=env.episode_length_buf[ids],
                )
                for command in (shown, following)
            ]  # fmt: skip
            with torch.enable_grad():
                found["reward"] = imagination.reward(view[0])
                (found["gradient"],) = torch.autograd.grad(found["reward"].sum(), rows.joint_pos)
            found["time_outs"] = view[0].termination_manager.time_outs
            found["policy"] = imagination.observe(view[1], "policy").detach()

        with env.mark_stages(mark):
            observations, *_ = env.step(torch.full((N, 1), 0.3))
        torch.testing.assert_close(found["reward"].detach(), env.reward_buf[ids])
        assert found["gradient"][:, 0].abs().min() > 0.0
        assert torch.equal(found["time_outs"], env.reset_time_outs[ids])
        if step < 10:
            torch.testing.assert_close(found["policy"], observations["policy"][ids])
    assert env.reset_time_outs.all()


def test_commands_have_as_many_rows_as_states():
    env = make_env()
    imagination, term = Imagination(env), term_of(env)
    view = imagination.present()
    state = ArticulationState.read(env.scene["robot"].data)
    with pytest.raises(ImaginationError, match="Command 'motion' has 1 rows, and there are 4"):
        imagination.view(
            {"robot": state}, torch.arange(N), action=view.action_manager.action,
            prev_action=view.action_manager.action, commands={"motion": term.reference(ALL[:1].long(), ALL[:1].long())},
        )  # fmt: skip
