"""Fused functions: that a compiler of Python code can look through them, once, and that they compute the same."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

from lab_rl.fused import fused
from lab_rl.supermimic import SuperMimicRunner, fit, improve


@pytest.fixture
def compiled(monkeypatch):
    """Lets updates be traced as on a GPU, without making kernels; counts how often each function is."""
    counts: Counter[str] = Counter()

    def trace(function, device, enabled=True):
        def backend(graph, inputs):
            counts[function.__name__] += 1
            return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

        return torch.compile(function, backend=backend, fullgraph=True, dynamic=False)

    def use() -> Counter[str]:
        torch._dynamo.reset()
        monkeypatch.setattr(improve, "fused", trace)
        monkeypatch.setattr(fit, "fused", trace)
        return counts

    yield use
    torch._dynamo.reset()


def small(settings):
    model = {"first_updates": 4, "batch_size": 32, "hidden_dims": (16, 16)}
    return settings(warmup_updates=8, world_model_updates=2, policy_updates=2, batch_size=16, horizon=4,
                    world_model=model)  # fmt: skip


def test_functions_are_compiled_once_and_compute_the_same(cart_cfg, settings, compiled):
    plain = SuperMimicRunner(cart_cfg(8).build("cpu"), small(settings))
    counts = compiled()
    runner = SuperMimicRunner(cart_cfg(8).build("cpu"), small(settings))
    for _ in range(2):
        plain.iterate()
        runner.iterate()
    # The steps of all updates are one, of either horizon.
    assert counts == {"_step": 2, "_evaluate": 1}
    found, expected = (
        {**copy.deepcopy(each.policy_update.state_dict()["actor"]), **each.fit.model.state_dict()}
        for each in (runner, plain)
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_nothing_is_compiled_on_a_cpu():
    def double(value):
        return 2 * value

    assert fused(double, torch.device("cpu")) is double


@pytest.mark.gpu
def test_fused_updates_are_those_that_are_not(cart_cfg, settings):
    """Captured too, as a run has them."""
    actors = []
    for fuse in (True, False):
        cfg = settings(fused=fuse, captured=fuse, precision="fp32")
        runner = SuperMimicRunner(cart_cfg(64).build("cuda"), cfg)
        runner.iterate()
        actors.append(runner.state_dict()["policy"]["actor"])
    torch.testing.assert_close(*actors, rtol=1e-3, atol=1e-4)
