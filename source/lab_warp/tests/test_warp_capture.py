"""Stages: recording, replay, arguments, islands, nesting, failures. Numbers in names are rows of the behaviour list."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

from lab_warp import (
    CaptureContext,
    CapturedStage,
    CaptureError,
    captured,
    captured_stages,
    eager,
    record_torch,
)


@wp.kernel
def _add(value: int, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] + value


@wp.kernel
def _scale(value: int, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] * value


@wp.kernel
def _flag(source: wp.array[wp.int32], limit: int, flag: wp.array[wp.int32]):
    flag[0] = wp.where(source[0] >= limit, 1, 0)


@wp.kernel
def _sum(value: wp.array[wp.int32], total: wp.array[wp.int32]):
    i = wp.tid()
    total[i] = total[i] + value[i]


@wp.kernel
def _advance(state: wp.array[wp.float32], done: wp.array[wp.int32]):
    i = wp.tid()
    state[i] = state[i] * 1.01 + 0.125
    if i == 0:
        done[0] = wp.where(state[0] > 1.0, 1, 0)


def add(out: wp.array, value: int = 1) -> wp.array:
    wp.launch(_add, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)
    return out


def scale(out: wp.array, value: int) -> None:
    wp.launch(_scale, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)


def value_of(array: wp.array) -> int:
    values = set(array.numpy().tolist())
    assert len(values) == 1
    return values.pop()


CUDA = pytest.param(
    "cuda:0",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)


@pytest.fixture(params=["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def context(device: str) -> CaptureContext:
    return CaptureContext(device, enabled=True, sync_debug=False)


@pytest.fixture
def x(device: str) -> wp.array:
    return wp.zeros(4, dtype=wp.int32, device=device)


class Calls:
    """Counts the Python calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.function(*args, **kwargs)


def assert_usable(context: CaptureContext) -> None:
    """The device captures nothing and records and replays as ever."""
    assert not context.device.is_capturing
    array = wp.zeros(3, dtype=wp.int32, device=context.device)
    stage = CapturedStage(add, context)
    stage(array)
    stage(array)
    assert value_of(array) == 2
    assert torch.ones(2).sum().item() == 2


# -- recording and replay ---------------------------------------------------------------------------------------------


def test_3_1_first_call_records_and_runs_once_second_replays(context: CaptureContext, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, context)
    first = stage(x)
    assert value_of(x) == 1
    second = stage(x)
    assert value_of(x) == 2
    assert first is second is x
    assert function.count == 1
    assert stage.num_graphs == stage.num_recordings == 1


def test_3_2_another_array_or_scalar_makes_another_recording(context: CaptureContext, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, context)
    y = wp.full(4, 100, dtype=wp.int32, device=context.device)
    for array, value in ((x, 1), (y, 1), (x, 5), (x, 1), (y, 1), (x, 5)):
        stage(array, value=value)
    assert (value_of(x), value_of(y)) == (12, 102)
    assert function.count == stage.num_graphs == 3


def test_arguments_count_by_memory_and_layout_not_by_object(context: CaptureContext, device: str) -> None:
    stage = CapturedStage(lambda *_: None, context)
    tensor = torch.zeros(4, 4, device=device)
    stage(tensor)
    stage(tensor.view(4, 4))
    assert stage.num_recordings == 1
    for other in (tensor.view(2, 8), tensor.t(), tensor.view(torch.int32), wp.from_torch(tensor)):
        stage(other)
    assert stage.num_recordings == 5
    stage(wp.from_torch(tensor))
    assert stage.num_recordings == 5
    stage(wp.from_torch(tensor.t()))
    assert stage.num_recordings == 6


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (None, 0),
        (wp.vec3(1.0, 2.0, 3.0), wp.vec3(1.0, 2.0, 4.0)),
        (np.float32(1), np.float64(1)),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
    ],
)
def test_scalars_count_by_type_and_value(one: object, other: object) -> None:
    stage = CapturedStage(lambda _: None, CaptureContext("cpu", enabled=True))
    stage(one)
    stage(other)
    stage(one)
    assert stage.num_recordings == 2


def test_equal_values_share_a_recording() -> None:
    stage = CapturedStage(lambda *_, **__: None, CaptureContext("cpu", enabled=True))
    for _ in range(2):
        stage(float("nan"), wp.vec3(1.0, 2.0, 3.0), [1, (2.5, "a")], np.float32(3), b=1, a=None)
    stage(float("nan"), wp.vec3(1.0, 2.0, 3.0), [1, (2.5, "a")], np.float32(3), a=None, b=1)
    assert stage.num_recordings == 1


def test_objects_of_recorded_arguments_stay_alive() -> None:
    class Settings:
        pass

    stage = CapturedStage(lambda _: None, CaptureContext("cpu", enabled=True))
    settings = Settings()
    alive = weakref.ref(settings)
    stage(settings)
    del settings
    assert alive() is not None  # else a new object could get its id and its recording
    stage.drop_recordings("test")
    gc.collect()
    assert alive() is None


def test_too_many_argument_sets_raise_and_name_the_stage(context: CaptureContext) -> None:
    stage = CapturedStage(add, context, name="push", max_recordings=2)
    arrays = [wp.zeros(1, dtype=wp.int32, device=context.device) for _ in range(3)]
    stage(arrays[0])
    stage(arrays[1])
    with pytest.raises(CaptureError, match="'push'.*recording 2 sets.*persistent buffers"):
        stage(arrays[2])
    stage(arrays[0])
    assert [value_of(array) for array in arrays] == [2, 1, 0]


def test_3_3_invalidate_records_again_once(context: CaptureContext, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, context)
    stage(x)
    context.invalidate()
    assert stage.num_graphs == 0
    stage(x)
    stage(x)
    assert value_of(x) == 3
    assert function.count == stage.num_recordings == 2
    assert stage.num_graphs == 1


def test_recording_again_reads_python_state_again(context: CaptureContext, x: wp.array) -> None:
    step = [1]
    stage = CapturedStage(lambda: add(x, step[0]), context)
    stage()
    step[0] = 10
    stage()
    assert value_of(x) == 2
    stage.drop_recordings("the step changed")
    stage()
    assert value_of(x) == 12


def test_3_4_eager_when_disabled(device: str, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, CaptureContext(device, enabled=False))
    stage(x)
    stage(x)
    assert value_of(x) == function.count == 2
    assert stage.num_graphs == stage.num_recordings == 0


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


def test_eager_returns_its_result_when_recorded(context: CaptureContext) -> None:
    stage = CapturedStage(lambda: eager(max, 3, 7), context)
    assert [stage(), stage()] == [7, 7]


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


def test_stage_called_from_an_eager_call_has_its_own_recording(context: CaptureContext, x: wp.array) -> None:
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
    inner.drop_recordings("the step changed")
    outer()
    assert value_of(x) == 11
    assert outer.num_recordings == 2


def test_3_7_eager_in_a_foreign_capture_raises_and_does_not_call(context: CaptureContext, x: wp.array) -> None:
    island = Calls(lambda: None)
    stage = CapturedStage(lambda: eager(island), context)
    with wp.ScopedCapture(device=context.device):
        for function in (lambda: eager(island), lambda: record_torch(island), stage):
            with pytest.raises(CaptureError, match="captured by code that is no stage"):
                function()
    assert island.count == 0
    assert_usable(context)


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


def test_record_torch_runs_in_its_place(context: CaptureContext, device: str) -> None:
    weight = torch.arange(16, dtype=torch.float32, device=device).view(4, 4) / 10
    data = wp.zeros(4, dtype=wp.float32, device=device)
    view, x = wp.to_torch(data), wp.zeros(4, dtype=wp.int32, device=device)
    counts = wp.to_torch(x)
    layer = Calls(lambda: view.copy_(torch.tanh(weight @ view + counts)))

    def function() -> None:
        add(x, 1)
        record_torch(layer)
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


def test_3_21_torch_input_of_any_form_makes_no_new_recording(context: CaptureContext, device: str) -> None:
    action = wp.zeros(6, dtype=wp.int32, device=device)
    action_view, total = wp.to_torch(action).view(2, 3), wp.zeros(6, dtype=wp.int32, device=device)
    stage = CapturedStage(lambda: wp.launch(_sum, dim=6, inputs=[action], outputs=[total], device=device), context)
    forms = [lambda t: t, lambda t: t.double(), lambda t: t.long(), lambda t: t.t().contiguous().t()]
    for step in range(100):
        action_view.copy_(forms[step % 4](torch.full((2, 3), step, device=device)))
        stage()
    assert stage.num_graphs == 1
    assert value_of(total) == sum(range(100))


def test_captured_rollout_equals_the_eager_one_bitwise(device: str) -> None:
    def rollout(enabled: bool) -> np.ndarray:
        state = wp.array(np.linspace(0, 1, 8, dtype=np.float32), device=device)
        view, done = wp.to_torch(state), wp.zeros(1, dtype=wp.int32, device=device)

        def function() -> None:
            wp.launch(_advance, dim=8, inputs=[state, done], device=device)
            record_torch(lambda: view.copy_(torch.sin(view * 3.1) + view))
            wp.capture_if(done, on_true=lambda: state.fill_(0.25))

        context = CaptureContext(device, enabled=enabled)
        stage = CapturedStage(function, context)
        steps = []
        for step in range(40):
            if step == 20:
                context.invalidate()
            stage()
            steps.append(state.numpy().copy())
        return np.stack(steps)

    captured_steps, eager_steps = rollout(True), rollout(False)
    np.testing.assert_array_equal(captured_steps, eager_steps)
    assert (captured_steps == 0.25).all(axis=1).any()  # the conditional was taken
    assert len(np.unique(captured_steps)) > 10


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
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


# -- conditionals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_conditional_follows_the_device_on_each_call(device: str, x: wp.array, enabled: bool) -> None:
    flag = wp.zeros(1, dtype=wp.int32, device=device)

    def function() -> None:
        wp.launch(_flag, dim=1, inputs=[x, 2], outputs=[flag], device=device)
        wp.capture_if(flag, on_true=lambda: scale(x, 10), on_false=lambda: add(x))

    stage = CapturedStage(function, CaptureContext(device, enabled=enabled))
    values = []
    for _ in range(4):
        stage()
        values.append(value_of(x))
    assert values == [1, 2, 20, 200]


@pytest.mark.parametrize("call", [eager, record_torch])
def test_eager_call_inside_a_conditional_raises(context: CaptureContext, x: wp.array, call: Callable[..., Any]) -> None:
    if call is record_torch and context.device.is_cuda:
        pytest.skip("torch work may be recorded inside a conditional on CUDA")
    island = Calls(lambda: None)
    flag = wp.ones(1, dtype=wp.int32, device=context.device)
    stage = CapturedStage(lambda: wp.capture_if(flag, on_true=lambda: call(island)), context)
    with pytest.raises(CaptureError, match="capture_if"):
        stage()
    assert island.count == 0
    assert_usable(context)


# -- failures ---------------------------------------------------------------------------------------------------------


def test_3_8_raising_while_recording_leaves_the_device_usable(context: CaptureContext, x: wp.array) -> None:
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
    assert not stage.report().recorded
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


# -- several contexts, decorated methods, report ----------------------------------------------------------------------


def test_two_contexts_do_not_disturb_each_other(device: str) -> None:
    contexts = [CaptureContext(device, enabled=True) for _ in range(2)]
    arrays = [wp.zeros(2, dtype=wp.int32, device=device) for _ in range(2)]
    stages = [CapturedStage(add, context) for context in contexts]
    for stage, array in zip(stages, arrays, strict=True):
        stage(array)
    contexts[0].invalidate()
    assert [stage.num_graphs for stage in stages] == [0, 1]
    for stage, array in zip(stages, arrays, strict=True):
        stage(array)
    assert [stage.num_recordings for stage in stages] == [2, 1]
    assert [value_of(array) for array in arrays] == [2, 2]
    assert [len(context.report()) for context in contexts] == [1, 1]


def test_invalidate_inside_a_stage_raises(context: CaptureContext, x: wp.array) -> None:
    def function() -> None:
        eager(context.invalidate)

    with pytest.raises(CaptureError, match="between stages"):
        CapturedStage(function, context)()
    assert_usable(context)


class Counter:
    def __init__(self, context: CaptureContext, x: wp.array) -> None:
        self.capture_context = context
        self.x = x

    @captured
    def step(self, value: int = 1) -> wp.array:
        return add(self.x, value)


class Doubler(Counter):
    @captured
    def step(self, value: int = 1) -> wp.array:
        scale(self.x, 2)
        return super().step(value)


def test_captured_methods_have_stages_per_instance(context: CaptureContext, device: str) -> None:
    counters = [Counter(context, wp.zeros(2, dtype=wp.int32, device=device)) for _ in range(2)]
    for counter in counters + counters[:1]:
        assert counter.step(value=3) is counter.x
    assert [value_of(counter.x) for counter in counters] == [6, 3]
    assert [stage.num_recordings for counter in counters for stage in captured_stages(counter)] == [1, 1]


def test_override_and_extended_method_are_separate_stages(context: CaptureContext, x: wp.array) -> None:
    doubler = Doubler(context, x)
    doubler.step()
    doubler.step()
    assert value_of(x) == 3
    assert [(s.name.split(".")[-2], s.num_graphs) for s in captured_stages(doubler)] == [("Doubler", 1), ("Counter", 0)]


def test_captured_method_needs_a_context() -> None:
    class Bare:
        @captured
        def step(self) -> None: ...

    with pytest.raises(TypeError, match="Bare.step.*capture_context"):
        Bare().step()


def test_report_says_what_is_recorded_and_why_not(context: CaptureContext, x: wp.array) -> None:
    def scan() -> None: ...

    def function() -> None:
        add(x)
        eager(scan)

    stages = [CapturedStage(function, context, name="rewards"), CapturedStage(add, context, name="idle")]
    stages[0]()
    rewards, idle = context.report()
    assert (rewards.stage, rewards.recorded, rewards.num_graphs, rewards.num_recordings) == ("rewards", True, 2, 1)
    assert len(rewards.islands) == 1
    assert "scan" in rewards.islands[0]
    assert (idle.stage, idle.recorded, idle.reason) == ("idle", False, "not called yet")
    context.invalidate()
    assert "invalidated" in context.report()[0].reason
    disabled = CaptureContext(context.device, enabled=False)
    stage = CapturedStage(add, disabled)
    assert "LAB_CAPTURE=0" in disabled.report()[0].reason
    del stage
    gc.collect()
    assert disabled.report() == []


# -- garbage collection -----------------------------------------------------------------------------------------------


class Cycle:
    def __init__(self, graph: object = None) -> None:
        self.graph = graph
        self.me = self


@pytest.mark.parametrize("fails", [False, True])
def test_collector_is_paused_while_recording(context: CaptureContext, x: wp.array, fails: bool) -> None:
    with wp.ScopedCapture(device=context.device) as capture:
        add(x)
    pending = Cycle(capture.graph)
    alive = weakref.ref(pending)
    enabled: list[bool] = []

    def function() -> None:
        enabled.append(gc.isenabled())
        garbage = [[Cycle()] for _ in range(100)]
        del garbage
        enabled.append(alive() is not None)
        add(x)
        if fails:
            raise KeyError

    stage = CapturedStage(function, context)
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(1)
    gc.disable()
    try:
        del pending, capture
        gc.enable()
        if fails:
            with pytest.raises(KeyError):
                stage()
        else:
            stage()
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        gc.enable()
    assert enabled[0] is False
    gc.collect()
    assert alive() is None
    assert value_of(x) == (0 if fails else 1)


def test_collector_stays_off_where_the_user_switched_it_off(context: CaptureContext, x: wp.array) -> None:
    gc.disable()
    try:
        CapturedStage(add, context)(x)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_old_garbage_is_collected_after_an_invalidation(context: CaptureContext, x: wp.array) -> None:
    stage = CapturedStage(add, context)
    stage(x)
    old = Cycle()
    alive = weakref.ref(old)
    gc.collect()  # promotes it to the oldest generation
    del old
    context.invalidate()
    stage(x)
    assert alive() is None
