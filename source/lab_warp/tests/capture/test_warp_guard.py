"""What raises inside a capture, the synchronisation trap, the environment variables, and marks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

from lab_core.capability import Capability
from lab_core.errors import LabError
from lab_warp import (
    CaptureContext,
    CapturedStage,
    CaptureError,
    capturable,
    capture_torch,
    eager,
    not_capturable,
)


@wp.kernel
def _increment(out: wp.array[wp.float32]):
    i = wp.tid()
    out[i] = out[i] + 1.0


def increment(out: wp.array) -> None:
    wp.launch(_increment, dim=out.shape[0], outputs=[out], device=out.device)


class Buffers:
    def __init__(self, device: str) -> None:
        self.array = wp.zeros(4, dtype=wp.float32, device=device)
        self.indexed = wp.indexedarray(self.array, wp.array([0, 2], dtype=wp.int32, device=device))
        self.tensor = torch.zeros(4, device=device)
        self.mask = torch.zeros(4, dtype=torch.bool, device=device)
        self.view = wp.to_torch(self.array)
        with wp.ScopedCapture(device=device) as capture:
            increment(self.array)
        self.graph = capture.graph


FORBIDDEN: dict[str, Callable[[Buffers], Any]] = {
    "numpy": lambda b: b.array.numpy(),
    "list": lambda b: b.array.list(),
    "print": lambda b: str(b.array),
    "indexed numpy": lambda b: b.indexed.numpy(),
    "indexed list": lambda b: b.indexed.list(),
    "cptr": lambda b: b.array.cptr(),
    "np.asarray": lambda b: np.asarray(b.array),
    "np.array": lambda b: np.array(b.array),
    "dlpack protocol": lambda b: torch.from_dlpack(b.array),
    "to_dlpack": lambda b: wp.to_dlpack(b.array),
    "assign ndarray": lambda b: b.array.assign(np.ones(4, dtype=np.float32)),
    "assign list": lambda b: b.array.assign([1.0, 2.0, 3.0, 4.0]),
    "synchronize": lambda b: wp.synchronize(),
    "synchronize_device": lambda b: wp.synchronize_device(b.array.device),
    "synchronize_stream": lambda b: wp.synchronize_stream(b.array.device),
    "timer": lambda b: wp.ScopedTimer("timer", synchronize=True, print=False).__enter__(),
    "capture_launch": lambda b: wp.capture_launch(b.graph),
    "torch in place": lambda b: b.tensor.add_(1),
    "torch out": lambda b: torch.add(b.view, 1, out=b.view),
    "torch new": lambda b: b.view + 1,
    "torch factory": lambda b: torch.zeros(3, device=b.tensor.device),
    "torch item": lambda b: b.view[0].item(),
    "torch truth": lambda b: bool(b.mask[0]),
    "torch tolist": lambda b: b.tensor.cpu().tolist() if b.tensor.is_cuda else b.tensor.tolist(),
    "torch numpy": lambda b: b.tensor.cpu().numpy() if b.tensor.is_cuda else b.tensor.numpy(),
    "torch asarray": lambda b: np.asarray(b.tensor.cpu() if b.tensor.is_cuda else b.tensor),
    "torch masked write": lambda b: b.view.__setitem__(b.mask, 0.0),
    "view of a view": lambda b: wp.to_torch(b.array).zero_(),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_call_raises_and_leaves_the_device_usable(device: str, name: str) -> None:
    buffers = Buffers(device)
    context = CaptureContext(device, enabled=True)

    def function() -> None:
        increment(buffers.array)
        FORBIDDEN[name](buffers)

    # Warp itself refuses to turn a CUDA array into a NumPy one, capture or not.
    never_legal = device != "cpu" and name in ("np.asarray", "np.array")
    error = TypeError if never_legal else CaptureError
    with pytest.raises(error, match=None if error is TypeError else "'my stage'") as caught:
        CapturedStage(function, context, name="my stage")()
    assert never_legal or isinstance(caught.value, LabError)
    assert not context.device.is_capturing
    stage = CapturedStage(increment, context)
    stage(buffers.array)
    stage(buffers.array)
    assert buffers.array.numpy().tolist() == [2.0] * 4
    if not never_legal and (name != "cptr" or device == "cpu"):
        FORBIDDEN[name](buffers)  # and it is legal again


def test_guard_restores_what_it_replaced() -> None:
    names = [(wp.array, n) for n in ("numpy", "list", "assign", "cptr", "__dlpack__", "__array_interface__")]
    names += [(wp.indexedarray, n) for n in ("numpy", "list", "assign")]
    names += [(wp, n) for n in ("synchronize", "capture_launch", "capture_if", "to_torch", "to_dlpack")]
    before = [(getattr(owner, n), n in vars(owner)) for owner, n in names]
    context = CaptureContext("cpu", enabled=True)
    CapturedStage(lambda: None, context)()
    with pytest.raises(CaptureError):
        CapturedStage(lambda: wp.synchronize(), context)()
    assert [(getattr(owner, n), n in vars(owner)) for owner, n in names] == before


def test_views_and_copies_between_arrays_stay_legal(device: str) -> None:
    buffers = Buffers(device)
    other = wp.zeros(4, dtype=wp.float32, device=device)

    def function() -> None:
        increment(buffers.array)
        other.assign(buffers.array)
        assert wp.to_torch(other).view(2, 2).data_ptr() == other.ptr
        increment(wp.from_torch(buffers.tensor))

    stage = CapturedStage(function, CaptureContext(device, enabled=True))
    stage()
    stage()
    assert other.numpy().tolist() == buffers.tensor.tolist() == [2.0] * 4


def test_other_threads_may_read_while_one_captures() -> None:
    array, seen = wp.full(2, 7.0, dtype=wp.float32, device="cpu"), []

    def read() -> None:
        seen.append(array.numpy().tolist() + torch.ones(1).add(1).tolist())

    def function() -> None:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    CapturedStage(function, CaptureContext("cpu", enabled=True))()
    assert seen == [[7.0, 7.0, 2.0]]


# -- environment variables --------------------------------------------------------------------------------------------


def test_environment_variables_are_read_when_a_context_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_CAPTURE", raising=False)
    monkeypatch.delenv("LAB_SYNC_DEBUG", raising=False)
    context = CaptureContext("cpu")
    assert (context.enabled, context.sync_debug) == (True, False)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")
    context = CaptureContext("cpu")
    assert (context.enabled, context.sync_debug) == (False, True)
    assert CaptureContext("cpu", enabled=True).enabled
    monkeypatch.setenv("LAB_CAPTURE", "off")
    with pytest.raises(ValueError, match="LAB_CAPTURE.*'off'"):
        CaptureContext("cpu")


HIDDEN_SYNCS: dict[str, Callable[[Buffers], Any]] = {
    "item": lambda b: b.view[0].item(),
    "float": lambda b: float(b.view[0]),
    "nonzero": lambda b: b.mask.nonzero(),
    "boolean read": lambda b: b.view[b.mask],
    "boolean write": lambda b: b.view.__setitem__(b.mask, b.tensor[:0]),
    "tolist": lambda b: b.view.tolist(),
    "numpy": lambda b: b.array.numpy(),
    "list": lambda b: b.array.list(),
    "indexed numpy": lambda b: b.indexed.numpy(),
    "synchronize": lambda b: wp.synchronize(),
    "synchronize_device": lambda b: wp.synchronize_device(b.array.device),
}


@pytest.mark.parametrize("enabled", [True, False], ids=["captured", "eager"])
@pytest.mark.parametrize("name", HIDDEN_SYNCS)
def test_3_9_sync_trap_raises_in_a_stage_and_is_released(device: str, name: str, enabled: bool) -> None:
    buffers = Buffers(device)
    context = CaptureContext(device, enabled=enabled, sync_debug=True)
    stage = CapturedStage(lambda: HIDDEN_SYNCS[name](buffers), context, name="my stage")
    with pytest.raises(RuntimeError, match="my stage|synchroniz"):
        stage()
    HIDDEN_SYNCS[name](buffers)
    assert not context.device.is_capturing


@pytest.mark.parametrize("name", HIDDEN_SYNCS)
def test_sync_trap_raises_in_an_eager_call_captured_and_replayed(device: str, name: str) -> None:
    buffers = Buffers(device)
    active = [False]

    def island() -> None:
        if active[0]:
            HIDDEN_SYNCS[name](buffers)

    stage = CapturedStage(lambda: eager(island), CaptureContext(device, enabled=True, sync_debug=True))
    stage()
    active[0] = True
    with pytest.raises(RuntimeError, match="LAB_SYNC_DEBUG|synchroniz"):
        stage()
    HIDDEN_SYNCS[name](buffers)


def test_sync_trap_lets_device_work_pass(device: str) -> None:
    buffers = Buffers(device)
    flag = wp.ones(1, dtype=wp.int32, device=device)

    def island() -> None:
        buffers.view.add_(1)
        buffers.view[buffers.mask] = 5.0
        buffers.tensor.copy_(buffers.view.clamp(max=3.0))
        torch.where(buffers.mask, buffers.view, buffers.tensor)

    def function() -> None:
        wp.capture_if(flag, on_true=lambda: increment(buffers.array))  # eager: must read its condition
        eager(island)

    for enabled in (True, False):
        CapturedStage(function, CaptureContext(device, enabled=enabled, sync_debug=True))()
    assert buffers.array.numpy().tolist() == [4.0] * 4


@pytest.mark.parametrize("name", ["numpy", "synchronize", "item"])
def test_without_the_variable_nothing_is_trapped_in_eager_runs(device: str, name: str) -> None:
    buffers = Buffers(device)
    CapturedStage(lambda: HIDDEN_SYNCS[name](buffers), CaptureContext(device, enabled=False, sync_debug=False))()


# -- what is capturable ------------------------------------------------------------------------------------------------


@not_capturable("it asks the host")
def uncapturable(env: object, out: wp.array) -> None:
    out.numpy()


@not_capturable("the sensor is refreshed on the host", unless=lambda params: params["sensor"] is None)
def sometimes(env: object, out: wp.array, sensor: str | None = None, **more: Any) -> None:
    increment(out)


@not_capturable("it keeps history on the host")
class History:
    def __call__(self, env: object, out: wp.array) -> None: ...

    def reset(self, mask: wp.array) -> None: ...


class HostReset:
    def __call__(self, env: object, out: wp.array) -> None: ...

    @not_capturable("it reads the mask")
    def reset(self, mask: wp.array) -> None: ...


class Choosy:
    def __init__(self, capturable: Capability) -> None:
        self.capturable = capturable

    def __call__(self) -> None: ...


def test_functions_classes_methods_and_instances_say_what_is_capturable() -> None:
    assert capturable(increment) == Capability(True)
    assert capturable(uncapturable) == Capability(False, "it asks the host")
    assert capturable(sometimes)
    assert capturable(sometimes, {"sensor": None})
    assert capturable(sometimes, {"sensor": "scanner"}) == Capability(False, "the sensor is refreshed on the host")
    for history in (History, History()):
        assert capturable(history).reason == "it keeps history on the host"
    assert capturable(History().reset)
    assert capturable(HostReset())
    assert not capturable(HostReset().reset)
    assert capturable(Choosy(Capability(True)))
    assert capturable(Choosy(Capability(False, "it was built so"))).reason == "it was built so"


def test_marks_are_seen_through_decorators() -> None:
    import functools

    @functools.wraps(uncapturable)
    def logged(*args: Any) -> None:
        uncapturable(*args)

    assert not capturable(logged)


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        (lambda out: uncapturable(None, out), True),
        (lambda out: History()(None, out), True),
        (lambda out: HostReset().reset(out), True),
        (lambda out: sometimes(None, out, sensor="scanner"), True),
        (lambda out: sometimes(None, out, sensor="scanner", gain=1.0), True),
        (lambda out: sometimes(None, out), False),
        (lambda out: History().reset(out), False),
        (lambda out: eager(uncapturable, None, out), False),
        (lambda out: eager(sometimes, None, out, sensor="scanner"), False),
    ],
)
def test_marked_code_raises_with_its_reason_only_while_captured(call: Callable[[wp.array], Any], raises: bool) -> None:
    context = CaptureContext("cpu", enabled=True)
    out = wp.zeros(2, dtype=wp.float32, device="cpu")
    call(out)
    stage = CapturedStage(call, context)
    if raises:
        with pytest.raises(CaptureError, match="cannot be captured.*(host|mask).*lab_warp.eager"):
            stage(out)
    else:
        stage(out)
    assert not context.device.is_capturing


def test_report_gives_the_reason_of_marked_code() -> None:
    out = wp.zeros(2, dtype=wp.float32, device="cpu")
    context = CaptureContext("cpu", enabled=True)

    def function() -> None:
        eager(uncapturable, None, out)
        capture_torch(torch.nn.Identity(), None)

    CapturedStage(function, context)()
    assert context.report()[0].islands == (
        "uncapturable (it asks the host)",
        "Identity (torch cannot be captured on the CPU)",
    )


def test_mark_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        not_capturable("")
