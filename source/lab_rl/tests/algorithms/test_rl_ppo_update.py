"""The update of PPO on the device does what rsl-rl's own does."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from lab_core.agents import PPOCfg
from lab_core.envs import make_env
from lab_core.registry import get_task
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms.ppo.runner import PPORunner
from lab_rl.cuda_graph import CapturedCall

AGENT = PPOCfg(
    num_steps_per_env=8,
    actor_hidden_dims=(16, 16),
    critic_hidden_dims=(24,),
    num_mini_batches=3,
    max_iterations=5,
    captured=True,
)


def make_runner(device: str = "cpu", seed: int = 3, frontend: str = "torch", **changes) -> PPORunner:
    cfg = analytic_cartpole_env_cfg(num_envs=16, episode_length_s=0.2)
    cfg.seed = 7
    env = make_env(cfg, device, frontend)
    torch.manual_seed(seed)
    return PPORunner(env, dataclasses.replace(AGENT, **changes))


def tensors(runner: PPORunner) -> list[torch.Tensor]:
    """Networks with their statistics, and the optimiser's state."""
    state = runner.state_dict()["algorithm"]
    moments = [value for row in state["optimizer_state_dict"]["state"].values() for value in row.values()]
    return [*state["actor_state_dict"].values(), *state["critic_state_dict"].values(), *moments]


def train(iterations: int, **changes) -> tuple[list[dict[str, float]], list[torch.Tensor]]:
    """Figures of the updates, and what they end with."""
    runner = make_runner(**changes)
    results = [runner.iterate().scalars for _ in range(iterations)]
    figures = [{name: row[name] for name in row if not name.startswith("Perf/")} for row in results]
    return figures, tensors(runner)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"obs_normalization": True},
        {"schedule": "fixed", "use_clipped_value_loss": False},
        {"desired_kl": 1e-6, "num_mini_batches": 5},
        {"desired_kl": 10.0, "entropy_coef": 0.1},
        {"frontend": "warp", "obs_normalization": True, "clip_actions": 0.7},
    ],
    ids=["adaptive", "normalised", "fixed", "slower", "faster", "warp"],
)
def test_twenty_iterations_are_those_of_rsl_rl_bit_for_bit(changes):
    (ours, mine), (theirs, other) = (train(20, captured=captured, **changes) for captured in (True, False))
    assert ours == theirs and len(ours[0]) > 5 and "Train/mean_reward" in ours[-1]
    rates = {figures["Loss/learning_rate"] for figures in ours}
    assert (rates != {1e-3}) == (changes.get("schedule") != "fixed"), "the learning rate is not tried"
    assert all(torch.equal(*pair) for pair in zip(mine, other, strict=True))


def test_a_run_goes_on_with_the_other_update_bit_for_bit():
    _, whole = train(4)
    first = make_runner(captured=False)
    for _ in range(2):
        first.iterate()
    state = first.state_dict()
    second = make_runner(seed=8)
    second.load_state_dict(state)
    for _ in range(2):
        second.iterate()
    assert all(torch.equal(*pair) for pair in zip(tensors(second), whole, strict=True))


def on_a_gpu(**changes) -> PPORunner:
    """A runner whose steps are one graph."""
    cfg = get_task("Lab-Cartpole").make_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = 64, 7, 0.3
    env = make_env(cfg, "cuda:0", "warp")
    torch.manual_seed(3)
    return PPORunner(env, dataclasses.replace(AGENT, **changes))


@pytest.mark.gpu
@pytest.mark.parametrize("changes", [{}, {"obs_normalization": True}], ids=["plain", "normalised"])
def test_graphs_learn_what_rsl_rl_does_up_to_rounding(changes):
    """At a fixed rate: rounding may decide otherwise where it adapts."""
    changes = {"schedule": "fixed", **changes}
    (ours, _), (theirs, _) = (train(6, device="cuda:0", captured=captured, **changes) for captured in (True, False))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-2, abs=2e-3)


@pytest.mark.gpu
def test_a_policy_in_the_graph_of_a_step_learns_what_rsl_rl_does_up_to_rounding():
    """Only the first iterations: simulations drift apart."""
    (mine, ours), (other, theirs) = (
        ((runner := on_a_gpu(schedule="fixed", captured=captured)), [runner.iterate() for _ in range(2)])
        for captured in (True, False)
    )
    assert mine.describe().startswith("The policy acts, and what it learns from is kept, in the graph of a step.")
    assert mine.describe().endswith("The update is one graph per mini-batch.")
    for one, two in zip(ours, theirs, strict=True):
        first, second = (
            {name: row.scalars[name] for name in row.scalars if not name.startswith("Perf/")} for row in (one, two)
        )
        assert first == pytest.approx(second, rel=2e-2, abs=5e-3)
    assert mine.env.step_count == other.env.step_count


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_an_iteration_on_a_gpu_never_waits_for_it_between_its_two_reads(precision):
    runner = on_a_gpu(obs_normalization=True, precision=precision)
    for _ in range(5):  # everything is captured
        assert math.isfinite(runner.iterate().scalars["Loss/value"])
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            runner._collect()
        runner._update()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_a_capture_that_fails_is_told_and_the_call_is_made_all_the_same():
    value = torch.ones(3, device="cuda:0")

    def waits() -> torch.Tensor:
        return value.add_(float(value.sum()))

    call = CapturedCall(waits, value.device)
    for _ in range(3):
        call()
    before = value.clone()
    with pytest.warns(UserWarning, match="waits runs without a graph, since its capture failed"):
        call()
    assert torch.equal(call(), 16 * before) and call.failure
    assert torch.rand(1, device="cuda:0") >= 0.0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.gpu
def test_a_state_that_is_loaded_is_the_one_that_graphs_go_on_with():
    runner, other = make_runner("cuda:0"), make_runner("cuda:0", seed=9)
    for each in (runner, other):
        for _ in range(2):
            each.iterate()
    state = runner.state_dict()
    runner.iterate()
    other.load_state_dict(state)
    other.iterate()
    for mine, same in zip(tensors(other), tensors(runner), strict=True):
        torch.testing.assert_close(mine, same, rtol=1e-3, atol=1e-4)
