"""Capture and replay of stages, and which arguments make another capture.
Numbers in names are rows of docs/requirements.md."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
import warp as wp

from lab_warp import CaptureContext, CapturedStage, CaptureError, capture_torch
from lab_warp.testing.stages import Calls, add, scale, value_of


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


def test_3_1_first_call_captures_and_runs_once_second_replays(context: CaptureContext, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, context)
    first = stage(x)
    assert value_of(x) == 1
    second = stage(x)
    assert value_of(x) == 2
    assert first is second is x
    assert function.count == 1
    assert stage.num_graphs == stage.num_captures == 1


def test_3_2_another_array_or_scalar_makes_another_capture(context: CaptureContext, x: wp.array) -> None:
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
    assert stage.num_captures == 1
    for other in (tensor.view(2, 8), tensor.t(), tensor.view(torch.int32), wp.from_torch(tensor)):
        stage(other)
    assert stage.num_captures == 5
    stage(wp.from_torch(tensor))
    assert stage.num_captures == 5
    stage(wp.from_torch(tensor.t()))
    assert stage.num_captures == 6


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
    assert stage.num_captures == 2


def test_equal_values_share_a_capture() -> None:
    stage = CapturedStage(lambda *_, **__: None, CaptureContext("cpu", enabled=True))
    for _ in range(2):
        stage(float("nan"), wp.vec3(1.0, 2.0, 3.0), [1, (2.5, "a")], np.float32(3), b=1, a=None)
    stage(float("nan"), wp.vec3(1.0, 2.0, 3.0), [1, (2.5, "a")], np.float32(3), a=None, b=1)
    assert stage.num_captures == 1


def test_objects_of_captured_arguments_stay_alive() -> None:
    class Settings:
        pass

    stage = CapturedStage(lambda _: None, CaptureContext("cpu", enabled=True))
    settings = Settings()
    alive = weakref.ref(settings)
    stage(settings)
    del settings
    assert alive() is not None  # else a new object could get its id and its capture
    stage.drop_graphs("test")
    gc.collect()
    assert alive() is None


def test_too_many_argument_sets_raise_and_name_the_stage(context: CaptureContext) -> None:
    stage = CapturedStage(add, context, name="push", max_captures=2)
    arrays = [wp.zeros(1, dtype=wp.int32, device=context.device) for _ in range(3)]
    stage(arrays[0])
    stage(arrays[1])
    with pytest.raises(CaptureError, match="'push'.*capturing 2 sets.*persistent buffers"):
        stage(arrays[2])
    stage(arrays[0])
    assert [value_of(array) for array in arrays] == [2, 1, 0]


def test_3_21_torch_input_of_any_form_makes_no_new_capture(context: CaptureContext, device: str) -> None:
    action = wp.zeros(6, dtype=wp.int32, device=device)
    action_view, total = wp.to_torch(action).view(2, 3), wp.zeros(6, dtype=wp.int32, device=device)
    stage = CapturedStage(lambda: wp.launch(_sum, dim=6, inputs=[action], outputs=[total], device=device), context)
    forms = [lambda t: t, lambda t: t.double(), lambda t: t.long(), lambda t: t.t().contiguous().t()]
    for step in range(100):
        action_view.copy_(forms[step % 4](torch.full((2, 3), step, device=device)))
        stage()
    assert stage.num_graphs == 1
    assert value_of(total) == sum(range(100))


def test_3_3_invalidate_captures_again_once(context: CaptureContext, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, context)
    stage(x)
    context.invalidate()
    assert stage.num_graphs == 0
    stage(x)
    stage(x)
    assert value_of(x) == 3
    assert function.count == stage.num_captures == 2
    assert stage.num_graphs == 1


def test_capturing_again_reads_python_state_again(context: CaptureContext, x: wp.array) -> None:
    step = [1]
    stage = CapturedStage(lambda: add(x, step[0]), context)
    stage()
    step[0] = 10
    stage()
    assert value_of(x) == 2
    stage.drop_graphs("the step changed")
    stage()
    assert value_of(x) == 12


def test_3_4_eager_when_disabled(device: str, x: wp.array) -> None:
    function = Calls(add)
    stage = CapturedStage(function, CaptureContext(device, enabled=False))
    stage(x)
    stage(x)
    assert value_of(x) == function.count == 2
    assert stage.num_graphs == stage.num_captures == 0


def test_captured_rollout_equals_the_eager_one_bitwise(device: str) -> None:
    def rollout(enabled: bool) -> np.ndarray:
        state = wp.array(np.linspace(0, 1, 8, dtype=np.float32), device=device)
        view, done = wp.to_torch(state), wp.zeros(1, dtype=wp.int32, device=device)

        def function() -> None:
            wp.launch(_advance, dim=8, inputs=[state, done], device=device)
            capture_torch(lambda: view.copy_(torch.sin(view * 3.1) + view))
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
