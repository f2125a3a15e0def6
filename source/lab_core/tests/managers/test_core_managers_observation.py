"""Observations: the pipeline of a term with its memory, and looking without a trace."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import (
    ManagerTermBase,
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
)
from lab_core.signals import (
    BiasModifierCfg,
    ConstantNoiseCfg,
    GaussianNoiseCfg,
    IntegratorCfg,
    NoiseWithBiasCfg,
    ScaleModifierCfg,
    UniformNoiseCfg,
)
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)
FIRST = torch.tensor([True, False, False, False, False])


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


class Clock:
    """An observation function whose value a test moves on: row number + 10 * time."""

    def __init__(self, width: int = 1) -> None:
        self.value = torch.arange(N, dtype=torch.float32).unsqueeze(1).expand(N, width).clone()

    def __call__(self, env):
        return self.value

    def tick(self) -> None:
        self.value += 10.0


def one(env):
    return torch.ones(env.num_envs, 1)


def single(env, term: ObservationTermCfg, **group) -> ObservationManager:
    return ObservationManager({"policy": ObservationGroupCfg(terms={"term": term}, **group)}, env)


def observe(manager: ObservationManager, update: bool | torch.Tensor = True) -> torch.Tensor:
    value = manager.compute(update_history=update)["policy"]
    assert isinstance(value, torch.Tensor)
    return value


# The pipeline -----------------------------------------------------------------------------------------------------


def test_noise_then_clip_then_scale(env):
    term = ObservationTermCfg(func=one, noise=ConstantNoiseCfg(bias=1.0), clip=(-5.0, 5.0), scale=10.0)
    assert observe(single(env, term, enable_corruption=True)).tolist() == [[20.0]] * N
    term.clip = (-1.5, 1.5)
    assert observe(single(env, term, enable_corruption=True)).tolist() == [[15.0]] * N


def test_modifiers_come_first_in_their_order(env):
    modifiers = [BiasModifierCfg(offset=1.0), ScaleModifierCfg(factor=3.0)]
    term = ObservationTermCfg(func=one, modifiers=modifiers, clip=(0.0, 5.0), scale=2.0)
    assert observe(single(env, term)).tolist() == [[10.0]] * N


def test_noise_needs_corruption(env):
    term = ObservationTermCfg(func=one, noise=ConstantNoiseCfg(bias=1.0))
    assert observe(single(env, term)).tolist() == [[1.0]] * N
    assert observe(single(env, term, enable_corruption=True)).tolist() == [[2.0]] * N


def test_noise_is_drawn_from_the_generator_of_the_environment(env):
    term = ObservationTermCfg(func=one, noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0))
    manager = single(env, term, enable_corruption=True)
    state = env.generator.get_state()
    first = observe(manager)
    second = observe(manager)
    env.generator.set_state(state)
    assert torch.equal(observe(manager), first) and not torch.equal(first, second)


def test_scale_per_component(env):
    term = ObservationTermCfg(func=Clock(width=3), scale=(1.0, 10.0, 100.0))
    assert observe(single(env, term))[2].tolist() == [2.0, 20.0, 200.0]


def test_input_is_not_modified_and_output_is_owned(env):
    clock = Clock()
    term = ObservationTermCfg(func=clock, noise=ConstantNoiseCfg(bias=1.0), clip=(0.0, 1.0), scale=3.0)
    before = clock.value.clone()
    groups = {
        "joined": ObservationGroupCfg(terms={"term": ObservationTermCfg(func=clock)}),
        "apart": ObservationGroupCfg(terms={"term": ObservationTermCfg(func=clock)}, concatenate_terms=False),
        "processed": ObservationGroupCfg(terms={"term": term}, enable_corruption=True),
    }
    observations = ObservationManager(groups, env).compute(update_history=True)
    assert torch.equal(clock.value, before)
    clock.tick()
    assert torch.equal(observations["joined"], before) and torch.equal(observations["apart"]["term"], before)


def test_other_number_types_become_float32(env):
    manager = single(env, ObservationTermCfg(func=lambda env: torch.ones(N, 1, dtype=torch.bool)))
    assert observe(manager).dtype == torch.float32


# Delay ------------------------------------------------------------------------------------------------------------


def test_fixed_delay_shows_the_oldest_value_at_first(env):
    clock = Clock()
    manager = single(env, ObservationTermCfg(func=clock, delay_min_lag=2, delay_max_lag=2))
    manager.reset(ALL)
    seen = []
    for _ in range(5):
        seen.append(observe(manager)[1].item())
        clock.tick()
    assert seen == [1.0, 1.0, 1.0, 11.0, 21.0]


def test_delays_are_drawn_at_resets_per_environment(env):
    manager = single(env, ObservationTermCfg(func=Clock(), delay_min_lag=1, delay_max_lag=3))
    delay = manager._pipelines["policy/term"]._delay
    assert delay is not None
    lags = []
    for _ in range(50):
        manager.reset(ALL)
        lags += delay.lag.tolist()
    assert set(lags) == {1, 2, 3}
    before = delay.lag.clone()
    for _ in range(20):
        manager.reset(FIRST)
        assert torch.equal(delay.lag[1:], before[1:])


def test_held_values_repeat_the_last_one_with_their_probability(env):
    clock = Clock()
    manager = single(env, ObservationTermCfg(func=clock, delay_hold_prob=0.3))
    manager.reset(ALL)
    last, held = observe(manager), 0
    assert torch.equal(last, clock.value)
    for _ in range(400):
        clock.tick()
        seen = observe(manager)
        is_held = seen == last
        assert torch.equal(torch.where(is_held, clock.value, seen), clock.value)
        held += int(is_held.sum())
        last = seen
    assert held / (400 * N) == pytest.approx(0.3, abs=0.05)
    manager.reset(ALL)
    assert torch.equal(observe(manager), clock.value)


# History ----------------------------------------------------------------------------------------------------------


def two_terms(env, clock, **group) -> ObservationManager:
    terms = {
        "a": ObservationTermCfg(func=clock),
        "b": ObservationTermCfg(func=clock, scale=-1.0),
    }
    return ObservationManager({"policy": ObservationGroupCfg(terms=terms, **group)}, env)


def test_first_value_fills_the_history_and_the_oldest_comes_first(env):
    clock = Clock()
    manager = single(env, ObservationTermCfg(func=clock, history_length=3))
    manager.reset(ALL)
    assert observe(manager)[1].tolist() == [1.0, 1.0, 1.0]
    clock.tick()
    assert observe(manager)[1].tolist() == [1.0, 1.0, 11.0]
    manager.reset(FIRST)
    clock.tick()
    observations = observe(manager)
    assert observations[0].tolist() == [20.0, 20.0, 20.0]
    assert observations[1].tolist() == [1.0, 11.0, 21.0]


@pytest.mark.parametrize(
    ("order", "expected"), [("term", [1.0, 11.0, -1.0, -11.0]), ("time", [1.0, -1.0, 11.0, -11.0])]
)
def test_history_orders(env, order, expected):
    clock = Clock()
    manager = two_terms(env, clock, history_length=2, history_order=order)
    manager.reset(ALL)
    observe(manager)
    clock.tick()
    assert observe(manager)[1].tolist() == expected
    assert manager.group_obs_dim["policy"] == (4,)


def test_history_may_keep_its_axis(env):
    term = ObservationTermCfg(func=Clock(width=2), history_length=3, flatten_history=False)
    manager = single(env, term)
    assert observe(manager).shape == (N, 3, 2) and manager.group_obs_dim["policy"] == (3, 2)


def test_group_history_replaces_that_of_the_terms(env):
    manager = single(env, ObservationTermCfg(func=Clock(), history_length=7), history_length=2)
    assert manager.group_obs_term_dim == {"policy": {"term": (2,)}}


# Looking without a trace ------------------------------------------------------------------------------------------


class Ramp(ManagerTermBase):
    """Counts its calls."""

    def __init__(self, cfg, env):
        super().__init__(cfg, env)
        self.count = torch.zeros(env.num_envs, 1)

    def __call__(self, env):
        self.count += 1.0
        return self.count

    def reset(self, mask):
        self.count.masked_fill_(mask.unsqueeze(1), 0.0)


def rich_manager(env, clock) -> ObservationManager:
    noise = NoiseWithBiasCfg(noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0), bias=GaussianNoiseCfg(std=1.0))
    terms = {
        "all": ObservationTermCfg(
            func=clock,
            modifiers=[IntegratorCfg(dt=0.1)],
            noise=noise,
            delay_min_lag=0,
            delay_max_lag=2,
            delay_hold_prob=0.3,
            history_length=3,
        ),
        "ramp": ObservationTermCfg(func=Ramp, history_length=2),
    }
    return ObservationManager({"policy": ObservationGroupCfg(terms=terms, enable_corruption=True)}, env)


def same_state(a: dict, b: dict) -> bool:
    a, b = tensors(a), tensors(b)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def tensors(state: dict) -> dict[str, torch.Tensor]:
    return {path: value for path, value in state.items() if isinstance(value, torch.Tensor)}


def test_looking_changes_neither_memory_nor_generator(env):
    clock = Clock()
    manager = rich_manager(env, clock)
    manager.reset(ALL)
    for _ in range(4):
        observe(manager)
        clock.tick()
    state, generator = manager.state_dict(), env.generator.get_state()
    observe(manager, update=False)
    assert same_state(manager.state_dict(), state) and torch.equal(env.generator.get_state(), generator)


def test_looking_shows_what_the_next_update_returns(env):
    clock = Clock()
    manager = rich_manager(env, clock)
    manager.reset(ALL)
    for _ in range(6):
        looked = observe(manager, update=False)
        assert torch.equal(observe(manager, update=False), looked)
        assert torch.equal(observe(manager), looked)
        clock.tick()


def test_extra_looks_do_not_change_the_sequence(env):
    def run(looks: int) -> list[torch.Tensor]:
        env.generator.manual_seed(3)
        clock = Clock()
        manager = rich_manager(env, clock)
        manager.reset(ALL)
        seen = []
        for _ in range(10):
            for _ in range(looks):
                observe(manager, update=False)
            seen.append(observe(manager))
            clock.tick()
        return seen

    reference = run(0)
    for looks in (1, 3):
        assert all(torch.equal(a, b) for a, b in zip(reference, run(looks), strict=True))


def test_masked_update_takes_in_the_selected_rows_only(env):
    clock = Clock()
    manager = rich_manager(env, clock)
    manager.reset(ALL)
    for _ in range(5):
        observe(manager)
        clock.tick()
    before = tensors(manager.state_dict())
    manager.reset(FIRST)
    observations = observe(manager, update=FIRST)
    after = tensors(manager.state_dict())
    for path in before:
        assert torch.equal(before[path][1:], after[path][1:]), path
    history = observations[0, :3]
    assert history.tolist() == [history[0].item()] * 3
    assert observations[0, 3:].tolist() == [1.0, 1.0] and observations[1, 3:].tolist() == [5.0, 6.0]


def test_construction_leaves_no_trace(env):
    generator = env.generator.get_state()
    manager = rich_manager(env, Clock())
    assert torch.equal(env.generator.get_state(), generator)
    for path, tensor in tensors(manager.state_dict()).items():
        assert not tensor.any(), path


def test_reset_touches_the_masked_rows_only(env):
    manager = rich_manager(env, Clock())
    changed = check_masked_reset(manager, manager.reset, N)
    prefix = "_pipelines.policy/all."
    assert changed >= {
        "_class_terms.policy/ramp.count",
        "_pipelines.policy/ramp._history.history",
        *(prefix + name for name in ("_noise.bias", "_history.history", "_history.count", "_modifiers.0.integral")),
    }
    assert {prefix + "_delay._values.history", prefix + "_has_held"} <= changed


def test_resume_continues_bit_for_bit(env):
    clock = Clock()
    manager, other = rich_manager(env, clock), rich_manager(env, clock)
    manager.reset(ALL)
    for _ in range(3):
        observe(manager)
        clock.tick()
    other.load_state_dict(manager.state_dict())
    generator = env.generator.get_state()
    expected = observe(manager)
    env.generator.set_state(generator)
    assert torch.equal(observe(other), expected)
