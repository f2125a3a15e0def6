"""Steps whose results stay in buffers are those of step()."""

from __future__ import annotations

import pytest
import torch

from lab_core.capability import CAPABLE
from lab_core.envs import RLEnv, make_env
from lab_core.errors import LabError
from lab_core.managers import RewardTermCfg
from lab_core.testing import analytic_cartpole_env_cfg

N, STEPS = 6, 40


def make(frontend: str = "warp", device: str = "cpu") -> RLEnv:
    cfg = analytic_cartpole_env_cfg(num_envs=N, episode_length_s=0.25)
    cfg.seed = 5
    return make_env(cfg, device, frontend)


def actions(device: str = "cpu") -> torch.Tensor:
    """(T, N, A)."""
    return torch.randn(STEPS, N, 1, generator=torch.Generator().manual_seed(2)).to(device)


class Loop:
    """Acts by a row of a table, and keeps what every step led to, by a counter on the device."""

    def __init__(self, env: RLEnv) -> None:
        self.env, self.row = env, torch.zeros(1, dtype=torch.int64, device=env.device)
        self.actions = actions(str(env.device))
        self.reward = torch.zeros(STEPS, N, device=env.device)
        self.done = torch.zeros(STEPS, N, dtype=torch.bool, device=env.device)
        self.seen, self.end = (torch.zeros(STEPS, *env.obs_buf["policy"].shape, device=env.device) for _ in range(2))
        self.calls = 0

    def act(self) -> torch.Tensor:
        self.calls += 1
        self.seen.index_copy_(0, self.row, self.env.obs_buf["policy"].unsqueeze(0))
        return self.actions.index_select(0, self.row).squeeze(0)

    def keep(self) -> None:
        env = self.env
        for rows, values in (
            (self.reward, env.reward_buf),
            (self.done, env.reset_buf),
            (self.end, env.final_obs_buf["policy"]),
        ):
            rows.index_copy_(0, self.row, values.unsqueeze(0))
        self.row.add_(1)


def run(env: RLEnv) -> Loop:
    loop = Loop(env)
    act, keep = loop.act, loop.keep
    for _ in range(STEPS):
        env.step_live(act, keep)
    return loop


def assert_equal_steps(env: RLEnv, loop: Loop) -> None:
    for step, action in enumerate(actions(str(env.device))):
        assert torch.equal(env.get_observations()["policy"], loop.seen[step])
        _, reward, terminated, truncated, extras = env.step(action)
        assert torch.equal(reward, loop.reward[step])
        assert torch.equal(terminated | truncated, loop.done[step])
        assert torch.equal(extras["final_obs"]["policy"], loop.end[step])
    assert loop.done.any() and not loop.done.all()
    assert env.step_count == loop.env.step_count == STEPS
    assert env.log.values() == loop.env.log.values()


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_live_step_does_what_a_step_does(frontend):
    assert_equal_steps(make(frontend), run(make(frontend)))


def test_a_step_captured_with_what_surrounds_it_does_the_same(monkeypatch):
    """On a CPU torch runs between the graphs, in the order that a GPU has in one of them."""
    env = make()
    monkeypatch.setattr(env._live, "capability", lambda step: CAPABLE)
    loop = run(env)
    assert env._live._stage.report().islands[0].startswith("act") and loop.calls == STEPS
    assert_equal_steps(make(), loop)


def test_a_setting_that_changes_captures_both_anew(monkeypatch):
    env = make()
    monkeypatch.setattr(env._live, "capability", lambda step: CAPABLE)
    loop = Loop(env)
    act, keep = loop.act, loop.keep
    for _ in range(3):
        env.step_live(act, keep)
    env.request_capture("to try")
    env.step_live(act, keep)
    assert env._live._stage.num_captures == 2 and env.step_count == 4
    assert not torch.equal(loop.reward[2], loop.reward[3])


def test_what_keeps_a_step_from_being_one_graph_is_said(monkeypatch):
    env = make()
    assert env.live_capture.reason == "torch cannot be captured on the CPU"
    monkeypatch.setattr(env._live, "_on_gpu", True)
    assert env.live_capture.reason == "no step was made yet"
    env.step(torch.zeros(N, 1))
    assert env.live_capture.reason.startswith("the step is not one graph: physics analytic: ")
    assert make("torch").live_capture.reason == "this front end captures nothing of a step"


def test_a_capture_that_fails_is_told_and_the_step_is_made_all_the_same(monkeypatch):
    env = make()
    monkeypatch.setattr(env._live, "capability", lambda step: CAPABLE)

    def fails(function):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("lab_warp.envs.live_step.capture_torch", fails)
    with pytest.warns(UserWarning, match="Acts outside the graph of a step, since .* RuntimeError: operation not perm"):
        env.step_live(*((loop := Loop(env)).act, loop.keep))
    assert loop.calls == 1 and env.step_count == 1 and loop.reward[0].any()
    monkeypatch.undo()
    monkeypatch.setattr(env._live, "_on_gpu", True)
    assert env.live_capture.reason.startswith("its capture failed: RuntimeError: operation not permitted")


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_bad_action_is_refused_before_anything_happens(frontend):
    env = make(frontend)
    with pytest.raises(LabError, match="not finite"):
        env.step_live(lambda: torch.full((N, 1), torch.nan), lambda: None)
    assert env.step_count == 0


@pytest.mark.gpu
def test_a_live_step_on_a_gpu_does_what_a_step_does():
    from lab_core.registry import get_task

    def build() -> RLEnv:
        cfg = get_task("Lab-Cartpole").make_env_cfg()
        cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = N, 5, 0.25
        return make_env(cfg, "cuda:0", "warp")

    env = build()
    loop = run(env)
    assert env.live_capture and loop.calls < STEPS
    other = build()
    for step, action in enumerate(loop.actions):
        torch.testing.assert_close(other.get_observations()["policy"], loop.seen[step])
        _, reward, terminated, truncated, extras = other.step(action)
        torch.testing.assert_close(reward, loop.reward[step])
        assert torch.equal(terminated | truncated, loop.done[step])
        torch.testing.assert_close(extras["final_obs"]["policy"], loop.end[step])
    assert env.step_count == other.step_count == STEPS


@pytest.mark.gpu
def test_live_steps_on_a_gpu_with_torch_code_between_the_graphs_run_beside_it():
    def torch_reward(env):
        return torch.ones(env.num_envs, device=env.device)

    cfg = analytic_cartpole_env_cfg(num_envs=N, episode_length_s=0.25)
    cfg.rewards["torch"] = RewardTermCfg(func=torch_reward)
    env = make_env(cfg, "cuda:0", "warp")
    loop = run(env)
    assert not env.live_capture and loop.calls == STEPS
