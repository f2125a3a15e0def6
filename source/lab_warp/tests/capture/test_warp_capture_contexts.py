"""Several contexts, decorated methods, the report, garbage collection."""

from __future__ import annotations

import gc
import weakref

import pytest
import warp as wp

from lab_warp import CaptureContext, CapturedStage, captured, captured_stages, eager
from lab_warp.testing.stages import add, scale, value_of

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
    assert [stage.num_captures for stage in stages] == [2, 1]
    assert [value_of(array) for array in arrays] == [2, 2]
    assert [len(context.report()) for context in contexts] == [1, 1]


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
    assert [stage.num_captures for counter in counters for stage in captured_stages(counter)] == [1, 1]


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


def test_report_says_what_is_captured_and_why_not(context: CaptureContext, x: wp.array) -> None:
    def scan() -> None: ...

    def function() -> None:
        add(x)
        eager(scan)

    stages = [CapturedStage(function, context, name="rewards"), CapturedStage(add, context, name="idle")]
    stages[0]()
    rewards, idle = context.report()
    assert (rewards.stage, rewards.captured, rewards.num_graphs, rewards.num_captures) == ("rewards", True, 2, 1)
    assert len(rewards.islands) == 1
    assert "scan" in rewards.islands[0]
    assert (idle.stage, idle.captured, idle.reason) == ("idle", False, "not called yet")
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
def test_collector_is_paused_during_a_capture(context: CaptureContext, x: wp.array, fails: bool) -> None:
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
