"""Kernels that a function launches are found without running one, and then compiled together."""

from __future__ import annotations

import warp as wp

from lab_newton.compile import load_kernels
from lab_newton.kernel_launches import KernelLaunches


def make_kernel(factor: float):
    @wp.kernel(module="unique")
    def scale(values: wp.array[float]):
        i = wp.tid()
        values[i] = factor * values[i]

    return scale


def test_launches_are_noted_and_not_made():
    device, values = wp.get_device("cpu"), wp.ones(2, dtype=float, device="cpu")
    first, second, third = make_kernel(1.25), make_kernel(1.75), make_kernel(2.5)
    condition = wp.zeros(1, dtype=wp.int32, device="cpu")
    launch = wp.launch
    launches = KernelLaunches(device)
    with launches.held_back():
        wp.launch(first, dim=2, inputs=[values], device=device)
        wp.launch(kernel=first, dim=2, inputs=[values], device=device)
        wp.capture_if(condition, lambda: wp.launch(second, dim=2, inputs=[values], device=device))
        wp.capture_while(condition, lambda: wp.launch(third, dim=2, inputs=[values], device=device))
    assert wp.launch is launch
    assert values.numpy().tolist() == [1.0, 1.0]
    assert len(launches.loads()) == 3
    assert not any(kernel.module.execs for kernel in (first, second, third))
    for load in launches.loads():
        load()
    assert all(kernel.module.execs for kernel in (first, second, third))


def test_a_model_s_kernels_are_compiled_together():
    device, values = wp.get_device("cpu"), wp.ones(2, dtype=float, device="cpu")
    kernels = [make_kernel(3.0 + 0.125 * number) for number in range(3)]
    texts: list[str] = []

    class Shown:
        def show(self, text: str) -> None:
            texts.append(text)

    def step() -> None:
        for kernel in kernels:
            wp.launch(kernel, dim=2, inputs=[values], device=device)

    load_kernels(step, device, Shown())  # pyright: ignore[reportArgumentType]
    assert texts[0] == "0/3 kernels of this model" and texts[-1] == "3/3 kernels of this model"
    assert all(kernel.module.execs for kernel in kernels)
