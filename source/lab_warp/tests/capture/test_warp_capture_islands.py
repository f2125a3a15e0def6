"""Eager calls between graphs, nested stages, torch in stages, failures.
Numbers in names are rows of docs/requirements.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp
from torch.utils._python_dispatch import TorchDispatchMode

from lab_warp import CaptureContext, CapturedStage, CaptureError, capture_torch, eager, skipping_eager_calls
from lab_warp.testing.stages import Calls, add, scale, value_of


def assert_usable(context: CaptureContext) -> None:
    """The device captures nothing and captures and replays as ever."""
    assert not context.device.is_capturing
    array = wp.zeros(3, dtype=wp.int32, device=context.device)
    stage = CapturedStage(add, context)
    stage(array)
    stage(array)
    assert value_of(array) == 2
    assert torch.ones(2).sum().item() == 2


# -- eager calls and nesting ------------------------------------------------------------------------------------------


def test_3_5_eager_call_runs_between_graphs_on_every_call(context: CaptureContext, x: wp.array) -> None:
    fn = Calls(lambda: scale(x, 6))

    def function() -> None:
        add(x, 5)
        eager(fn)
        add(x, 0)

    add(x, 1)
    stage = CapturedStage(function, context)
    stage()
    assert value_of(x) == 36
    stage()
    assert value_of(x) == 246
    assert fn.count == 2
    assert stage.num_graphs == 2


def test_eager_call_may_read_the_host_and_use_torch(context: CaptureContext, x: wp.array) -> None:
    seen: list[int] = []
    view = wp.to_torch(x)

    def island() -> None:
        seen.append(value_of(x))
        view.mul_(2)

    def function() -> None:
        add(x, 1)
        eager(island)
        add(x, 1)

    stage = CapturedStage(function, context)
    for _ in range(3):
        stage()
    assert seen == [1, 4, 10]
    assert value_of(x) == 21


def test_eager_returns_its_result_when_captured(context: CaptureContext) -> None:
    stage = CapturedStage(lambda: eager(max, 3, 7), context)
    assert [stage(), stage()] == [7, 7]


def test_a_compiled_function_stays_compiled_in_an_island_and_what_follows_stays_guarded() -> None:
    """Torch leaves out of compilation what somebody watches, so the guard's modes must be off its stacks."""
    runs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            runs.append(1)
            return graph.forward(*args)

        return run

    network = torch.compile(lambda tensor: torch.sin(tensor) + 1.0, backend=backend, fullgraph=True)
    x, out = torch.zeros(3), torch.zeros(3)

    def infer() -> None:
        out.copy_(network(x))

    infer()
    context = CaptureContext("cpu")
    stage = CapturedStage(lambda: capture_torch(infer), context)
    for _ in range(3):
        stage()
    assert len(runs) == 4
    assert out.tolist() == [1.0, 1.0, 1.0]

    def guarded_again() -> None:
        capture_torch(infer)
        out.add_(1.0)

    with pytest.raises(CaptureError, match="torch operation"):
        CapturedStage(guarded_again, context)()
    assert_usable(context)


def test_an_island_inside_another_mode_leaves_that_in_place(context: CaptureContext) -> None:
    class Watch(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Watch.seen += 1
            return func(*args, **(kwargs or {}))

    out = torch.zeros(3)

    def function() -> None:
        with Watch():
            eager(out.add_, 1.0)

    CapturedStage(function, context)()
    assert out.tolist() == [1.0, 1.0, 1.0]
    assert Watch.seen
    assert_usable(context)


def test_a_capture_that_is_dropped_skips_what_cannot_be_captured(context: CaptureContext, x: wp.array) -> None:
    fn = Calls(lambda: 1)

    def function() -> None:
        add(x, 1)
        capture_torch(fn)
        eager(fn)

    with skipping_eager_calls(), wp.ScopedCapture(device=context.device):
        function()
    assert fn.count == 0
    with pytest.raises(CaptureError, match="no stage"), wp.ScopedCapture(device=context.device):
        function()
    function()
    assert fn.count == 2


def test_3_6_nested_stages_are_inlined_and_nested_eager_splits_the_outer(context: CaptureContext, x: wp.array) -> None:
    def inner_function() -> None:
        add(x, 1)
        eager(scale, x, 10)

    inner = CapturedStage(inner_function, context)

    def outer_function() -> None:
        add(x, 1)
        inner()
        add(x, 6)

    outer = CapturedStage(outer_function, context)
    outer()
    assert value_of(x) == 26
    outer()
    assert value_of(x) == 286
    assert (outer.num_graphs, inner.num_graphs) == (2, 0)
    assert f"part of stage '{outer.name}'" in inner.report().reason


def test_stage_called_from_an_eager_call_has_its_own_capture(context: CaptureContext, x: wp.array) -> None:
    inner = CapturedStage(lambda: add(x, 1), context)

    def function() -> None:
        scale(x, 2)
        eager(inner)
        scale(x, 2)

    outer = CapturedStage(function, context)
    outer()
    outer()
    assert value_of(x) == 10
    assert (outer.num_graphs, inner.num_graphs) == (2, 1)


def test_dropping_a_nested_stage_drops_its_host(context: CaptureContext, x: wp.array) -> None:
    step = [1]
    inner = CapturedStage(lambda: add(x, step[0]), context)
    outer = CapturedStage(lambda: inner(), context)
    outer()
    step[0] = 10
    inner.drop_graphs("the step changed")
    outer()
    assert value_of(x) == 11
    assert outer.num_captures == 2


def test_stage_in_a_foreign_capture_becomes_part_of_it(context: CaptureContext, x: wp.array) -> None:
    stage = CapturedStage(add, context)
    add(x)
    with wp.ScopedCapture(device=context.device) as capture:
        stage(x)
    assert value_of(x) == 1
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert value_of(x) == 3
    assert stage.num_graphs == 0


# -- torch ------------------------------------------------------------------------------------------------------------


def test_capture_torch_runs_in_its_place(context: CaptureContext, device: str) -> None:
    weight = torch.arange(16, dtype=torch.float32, device=device).view(4, 4) / 10
    data = wp.zeros(4, dtype=wp.float32, device=device)
    view, x = wp.to_torch(data), wp.zeros(4, dtype=wp.int32, device=device)
    counts = wp.to_torch(x)
    layer = Calls(lambda: view.copy_(torch.tanh(weight @ view + counts)))

    def function() -> None:
        add(x, 1)
        capture_torch(layer)
        add(x, 1)

    stage = CapturedStage(function, context)
    expected, count = torch.zeros(4, device=device), 0
    for _ in range(4):
        stage()
        expected = torch.tanh(weight @ expected + (count + 1))
        count += 2
        np.testing.assert_allclose(view.cpu(), expected.cpu(), rtol=1e-6)
    assert layer.count == (4 if device == "cpu" else 1)
    assert stage.num_graphs == (2 if device == "cpu" else 1)
    assert value_of(x) == 8


@pytest.mark.gpu
@pytest.mark.parametrize("enabled", [True, False])
def test_torch_on_a_stream_of_its_own_stays_in_order(enabled: bool) -> None:
    device = "cuda:0"
    large = torch.randn(4096, 4096, device=device)
    x = wp.zeros(1_000_000, dtype=wp.int32, device=device)
    view = wp.to_torch(x)

    def slow_increment() -> None:
        busy = large
        for _ in range(3):
            busy = busy @ large  # keeps the stream behind the host
        view.add_(1)

    def function() -> None:
        add(x, 1)
        eager(slow_increment)
        scale(x, 2)

    stage = CapturedStage(function, CaptureContext(device, enabled=enabled))
    torch.cuda.synchronize()
    expected = 0
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            slow_increment()
            stage()
            slow_increment()
            expected = ((expected + 1) + 2) * 2 + 1
            view.remainder_(1000)
            expected %= 1000
        result = view.clone()
    torch.cuda.synchronize()
    assert (result == expected).all()


# -- failures ---------------------------------------------------------------------------------------------------------


def test_3_7_eager_in_a_foreign_capture_raises_and_does_not_call(context: CaptureContext, x: wp.array) -> None:
    island = Calls(lambda: None)
    stage = CapturedStage(lambda: eager(island), context)
    with wp.ScopedCapture(device=context.device):
        for function in (lambda: eager(island), lambda: capture_torch(island), stage):
            with pytest.raises(CaptureError, match="captured by code that is no stage"):
                function()
    assert island.count == 0
    assert_usable(context)


@pytest.mark.parametrize("call", [eager, capture_torch])
def test_eager_call_inside_a_conditional_raises(context: CaptureContext, x: wp.array, call: Callable[..., Any]) -> None:
    if call is capture_torch and context.device.is_cuda:
        pytest.skip("torch work may be captured inside a conditional on CUDA")
    island = Calls(lambda: None)
    flag = wp.ones(1, dtype=wp.int32, device=context.device)
    stage = CapturedStage(lambda: wp.capture_if(flag, on_true=lambda: call(island)), context)
    with pytest.raises(CaptureError, match="capture_if"):
        stage()
    assert island.count == 0
    assert_usable(context)


def test_3_8_raising_while_captured_leaves_the_device_usable(context: CaptureContext, x: wp.array) -> None:
    fails = [True]
    island = Calls(lambda: add(x, 10))

    def function() -> None:
        add(x, 1)
        eager(island)
        add(x, 1)
        if fails[0]:
            raise KeyError("joint")

    stage = CapturedStage(function, context)
    with pytest.raises(KeyError, match="joint"):
        stage()
    assert not context.device.is_capturing
    assert value_of(x) == 11  # the graph and the eager call before the failure stay made; the open graph does not run
    assert "KeyError" in stage.report().reason
    assert not stage.report().captured
    fails[0] = False
    stage()
    assert value_of(x) == 23
    stage()
    assert value_of(x) == 35
    assert island.count == 3


def test_raising_eager_call_leaves_the_device_usable(context: CaptureContext, x: wp.array) -> None:
    def island() -> None:
        raise ValueError("range")

    def function() -> None:
        add(x)
        eager(island)

    stage = CapturedStage(function, context)
    with pytest.raises(ValueError, match="range"):
        stage()
    assert_usable(context)


def test_invalidate_inside_a_stage_raises(context: CaptureContext, x: wp.array) -> None:
    def function() -> None:
        eager(context.invalidate)

    with pytest.raises(CaptureError, match="between stages"):
        CapturedStage(function, context)()
    assert_usable(context)
