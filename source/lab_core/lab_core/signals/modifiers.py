"""Modifiers: what a signal passes through before noise, in the order of a list.

A modifier configuration is built once for the shape of its signal. What it builds is called with the value and reset
with a mask, whether it has state or not. The value is never modified. Fields of the stateless modifiers' configurations
may be changed between calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.config import Settings
from lab_core.errors import ConfigError
from lab_core.masks import masked_copy_
from lab_core.state import Stateful


class Modifier(Stateful):
    """A step of processing of one signal, as a configuration builds it."""

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Modified copy of ``value`` ``(N, ...)``.

        Memory goes on by one sample, only in the rows of ``mask`` ``(N,)`` if it is given. The result of the other
        rows is what it would be if they went on; an all-false mask thus only looks.
        """
        raise NotImplementedError(f"{type(self).__name__} must define __call__.")

    def reset(self, mask: Tensor) -> None:
        """Forget the past in the rows of ``mask`` ``(N,)``."""


@dataclass(kw_only=True)
class ModifierCfg(Settings):
    """Base of all modifier configurations."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        """Modifier for a signal of shape ``(N, ...)`` on a device."""
        raise NotImplementedError(f"{type(self).__name__} does not say which modifier it configures.")


@dataclass(kw_only=True)
class ScaleModifierCfg(ModifierCfg):
    """Multiplies by a factor."""

    factor: float

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        return ScaleModifier(self)


class ScaleModifier(Modifier):
    def __init__(self, cfg: ScaleModifierCfg) -> None:
        self.cfg = cfg

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return value * self.cfg.factor


@dataclass(kw_only=True)
class ClipModifierCfg(ModifierCfg):
    """Clips to a range."""

    bounds: tuple[float, float]
    """Lowest and highest value."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        return ClipModifier(self)


class ClipModifier(Modifier):
    def __init__(self, cfg: ClipModifierCfg) -> None:
        self.cfg = cfg

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return value.clamp(*self.cfg.bounds)


@dataclass(kw_only=True)
class BiasModifierCfg(ModifierCfg):
    """Adds a constant."""

    offset: float
    """In the unit of the signal."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        return BiasModifier(self)


class BiasModifier(Modifier):
    def __init__(self, cfg: BiasModifierCfg) -> None:
        self.cfg = cfg

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return value + self.cfg.offset


@dataclass(kw_only=True)
class DigitalFilterCfg(ModifierCfg):
    """Linear filter y[t] = b0 x[t] + b1 x[t-1] + ... - a1 y[t-1] - a2 y[t-2] - ..., zero before the first sample.

    Examples: first-order low-pass ``b=(1 - k,), a=(-k,)``; moving average of two ``b=(0.5, 0.5)``.
    """

    b: tuple[float, ...]
    """Weights of the inputs, the newest first."""
    a: tuple[float, ...] = ()
    """Weights of the past outputs, the newest first, without the leading 1."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        return DigitalFilter(self, shape, device)


class DigitalFilter(Modifier):
    """Direct form II transposed: one memory per order, ``(N, ...)`` each."""

    def __init__(self, cfg: DigitalFilterCfg, shape: Sequence[int], device: torch.device | str) -> None:
        if not cfg.b:
            raise ConfigError("DigitalFilterCfg.b must hold at least the weight of the newest input.")
        order = max(len(cfg.b) - 1, len(cfg.a))
        self._b = (*cfg.b, *(0.0,) * (order + 1 - len(cfg.b)))
        self._a = (*cfg.a, *(0.0,) * (order - len(cfg.a)))
        self._memory = [torch.zeros(tuple(shape), device=device) for _ in range(order)]

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        output = self._b[0] * value + (self._memory[0] if self._memory else 0.0)
        # memory i takes over from memory i + 1, so each is read before it is written
        for i, memory in enumerate(self._memory):
            older = self._memory[i + 1] if i + 1 < len(self._memory) else 0.0
            updated = self._b[i + 1] * value - self._a[i] * output + older
            memory.copy_(updated) if mask is None else masked_copy_(memory, updated, mask)
        return output

    def reset(self, mask: Tensor) -> None:
        for memory in self._memory:
            masked_copy_(memory, 0.0, mask)


@dataclass(kw_only=True)
class IntegratorCfg(ModifierCfg):
    """Integral over time from the reset on, by the trapezoidal rule; the signal counts as zero before."""

    dt: float
    """Time between two samples [s]."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Modifier:
        return Integrator(self, shape, device)


class Integrator(Modifier):
    def __init__(self, cfg: IntegratorCfg, shape: Sequence[int], device: torch.device | str) -> None:
        self.cfg = cfg
        self.integral = torch.zeros(tuple(shape), device=device)
        self._previous = torch.zeros_like(self.integral)

    def __call__(self, value: Tensor, mask: Tensor | None = None) -> Tensor:
        integral = self.integral + 0.5 * self.cfg.dt * (value + self._previous)
        if mask is None:
            self.integral.copy_(integral)
            self._previous.copy_(value)
        else:
            masked_copy_(self.integral, integral, mask)
            masked_copy_(self._previous, value, mask)
        return integral

    def reset(self, mask: Tensor) -> None:
        masked_copy_(self.integral, 0.0, mask)
        masked_copy_(self._previous, 0.0, mask)
