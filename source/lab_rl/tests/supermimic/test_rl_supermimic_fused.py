"""Fused functions: that a compiler of Python code can look through them, once, and that they compute the same."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

from lab_rl.fused import fused, keep_compiled_gradients
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


def test_torch_keeps_what_was_compiled_of_functions_with_gradients_of_their_own():
    """Of a private setting of torch, which a new version may rename."""
    from torch._functorch import config

    with config.patch(autograd_cache_allow_custom_autograd_functions=False):
        keep_compiled_gradients()
        assert config.autograd_cache_allow_custom_autograd_functions


def test_the_first_iteration_says_what_it_is_at(cart_cfg, settings, capsys):
    runner = SuperMimicRunner(cart_cfg(8).build("cpu"), small(settings))
    runner.iterate()
    lines = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines() if line.startswith("First iteration")]
    assert lines[0] == "collecting 32 steps in 8 environments" and lines[-1] == "done"
    assert "fitting the world model, 8 updates" in lines
    assert "making the policy's and the critic's update" in lines
    runner.iterate()
    assert "First iteration" not in capsys.readouterr().err


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
