"""The gate that a Warp twin passes: captured once, replayed on new inputs, it returns what the torch term returns."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import warp as wp

from lab_core.managers import ManagerTermBase, RewardTermCfg, complete_params, resolve_selections
from lab_warp.capture import CaptureContext, CapturedStage
from lab_warp.testing.fake_env import FakeEnv
from lab_warp.twins import all_twins, find_twin

Term = Callable[..., Any]
_EPS = torch.finfo(torch.float32).eps
_CUDA_ULPS = 4


@dataclass(frozen=True, kw_only=True)
class TwinCase:
    """One way to use a term."""

    params: Mapping[str, Any] = field(default_factory=dict)
    ulps: int = 0
    """Largest relative difference to torch on the CPU, in units of float32's resolution; 0 is equality. On CUDA it
    may be 4 more."""
    atol: float = 0.0
    """Largest absolute difference to torch besides, where large numbers cancel."""
    prepare: Callable[[FakeEnv], None] | None = None
    """Changes the environment's random values, in place, where the term needs others to show what it does."""


def twins_in(module: types.ModuleType) -> dict[str, Term]:
    """Returns the originals that a module defines and that have a twin, by name."""
    return {original.__name__: original for original in all_twins() if original.__module__ == module.__name__}


def check_signature(original: Term) -> None:
    """The twin takes the parameters of the torch term: same names, order and defaults.

    Raises:
        AssertionError: it does not.
    """
    assert _parameters(original) == _parameters(_twin(original))


def check_value_twin(original: Term, case: TwinCase, device: str = "cpu") -> None:
    """Checks the twin of an observation, reward, metric or termination.

    Captured on one set of inputs and replayed on others that were written into the same buffers, it gives every row,
    and nothing beside its rows, the value of the torch term. A class term goes through a partial reset too.

    Raises:
        AssertionError: it does not, or the torch term's values are trivial: all the same, or the same for all inputs.
    """
    env = FakeEnv(device)
    twin, wanted = _bound(_twin(original), env, case.params, "out"), _bound(original, env, case.params)
    _fill(env, case, 0)
    last = wanted(env).clone()
    frame, inner = _output_like(last)
    out = wp.from_torch(inner)
    stage = CapturedStage(lambda: twin(env, out), CaptureContext(env.wp_device, enabled=True), name=original.__name__)
    _run_and_compare(stage, frame, last, case)
    if isinstance(twin.term, ManagerTermBase):
        _reset_some(env, case, twin.term, wanted.term)
    for seed in (2, 3):
        _fill(env, case, seed)
        expected = wanted(env).clone()
        _run_and_compare(stage, frame, expected, case)
        assert not torch.equal(expected, last), "the torch term returns the same for all inputs"
        last = expected
    report = stage.report()
    assert (report.num_captures, report.num_graphs, report.islands) == (1, 1, ())


def check_event_twin(original: Term, case: TwinCase, device: str = "cpu") -> None:
    """Checks the twin of an event whose ranges have no width, so that both front ends draw the same.

    Captured with one mask and one state and replayed on others, it leaves every buffer of the environment as the torch
    event leaves it, and draws in the masked environments only.

    Raises:
        AssertionError: it does not, or the event changed nothing.
    """
    env, wanted_env = FakeEnv(device), FakeEnv(device)
    twin = _bound(_twin(original), env, case.params, "mask")
    wanted = _bound(original, wanted_env, case.params, "mask")
    mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    mask_wp = wp.from_torch(mask)
    stage = CapturedStage(
        lambda: twin(env, mask_wp), CaptureContext(env.wp_device, enabled=True), name=original.__name__
    )
    for seed in (0, 1, 2):
        _fill(env, case, seed)
        _fill(wanted_env, case, seed)
        mask.copy_(env.reset_mask)
        before = {name: tensor.clone() for name, tensor in env.tensors().items()}
        streams = env.rng.state.numpy().copy()  # on the CPU it is a view
        wanted(wanted_env, mask)
        stage()
        assert (env.rng.state.numpy() == streams)[~mask.cpu().numpy()].all(), "drew in environments outside the mask"
        changed = False
        for name, expected in wanted_env.tensors().items():
            _assert_equal(env.tensors()[name], expected, case, name)
            changed |= not torch.equal(expected, before[name])
        assert changed, "the event changed nothing"
    report = stage.report()
    assert (report.num_captures, report.num_graphs, report.islands) == (1, 1, ())


class BoundTerm:
    """A term with its parameters, completed and resolved as a manager does it."""

    def __init__(self, func: Term, env: FakeEnv, params: Mapping[str, Any], leading: tuple[str, ...]) -> None:
        self._params = complete_params(func, copy.deepcopy(dict(params)), ("env", *leading), func.__name__)
        resolve_selections(self._params, env.scene)
        is_class = isinstance(func, type)
        self.term = func(RewardTermCfg(func=func, weight=1.0, params=self._params), env) if is_class else func

    def __call__(self, env: FakeEnv, *leading: Any) -> Any:
        return self.term(env, *leading, **self._params)


def _bound(func: Term, env: FakeEnv, params: Mapping[str, Any], *leading: str) -> BoundTerm:
    return BoundTerm(func, env, params, leading)


def _twin(original: Term) -> Term:
    twin = find_twin(original)
    assert twin is not None, f"{original.__module__}.{original.__name__} has no Warp twin"
    return twin


def _parameters(func: Term) -> list[tuple[str, Any]]:
    """Names and defaults behind those that the manager passes by position."""
    leading = {"self", "env", "out", "mask"}
    parameters = inspect.signature(func.__call__ if isinstance(func, type) else func).parameters.values()
    return [(p.name, p.default) for p in parameters if p.name not in leading]


def _fill(env: FakeEnv, case: TwinCase, seed: int) -> None:
    env.randomize(seed)
    if case.prepare is not None:
        case.prepare(env)


def _output_like(expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a buffer with room on both sides, and what lies between: columns for (N, D), rows for (N,)."""
    shape = (*expected.shape[:-1], expected.shape[-1] + 4)
    frame = torch.empty(shape, dtype=expected.dtype, device=expected.device)
    return frame, frame[..., 2:-2]


def _run_and_compare(stage: CapturedStage, frame: torch.Tensor, expected: torch.Tensor, case: TwinCase) -> None:
    assert expected[expected.isfinite()].unique().numel() > 1, "the torch term returns one value everywhere"
    inner = frame[..., 2:-2]
    # A row that the twin forgets must not hold a right answer from before.
    frame.fill_(torch.nan if expected.is_floating_point() else False)
    inner.copy_(torch.full_like(expected, torch.nan) if expected.is_floating_point() else ~expected)
    untouched = frame.clone()
    stage()
    _assert_equal(inner, expected, case, stage.name)
    inner.copy_(untouched[..., 2:-2])
    torch.testing.assert_close(frame, untouched, rtol=0.0, atol=0.0, equal_nan=True)


def _reset_some(env: FakeEnv, case: TwinCase, twin: Any, wanted: Any) -> None:
    """Resets some environments of a class term, captured on one set of inputs and replayed on others."""
    mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    mask_wp = wp.from_torch(mask)
    stage = CapturedStage(lambda: twin.reset(mask_wp), CaptureContext(env.wp_device, enabled=True), name="reset")
    for seed in (4, 5):
        _fill(env, case, seed)
        mask.copy_(env.reset_mask)
        wanted.reset(mask)
        stage()


def _assert_equal(actual: torch.Tensor, expected: torch.Tensor, case: TwinCase, name: str) -> None:
    # On CUDA torch multiplies by the reciprocal of a divisor, and contracts and reorders in its reductions.
    ulps = case.ulps if expected.device.type == "cpu" else case.ulps + _CUDA_ULPS
    exact = not expected.is_floating_point()
    torch.testing.assert_close(
        actual,
        expected,
        rtol=0.0 if exact else ulps * _EPS,
        atol=0.0 if exact else case.atol,
        equal_nan=True,
        msg=lambda text: f"{name}: {text}",
    )
