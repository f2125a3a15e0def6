"""Noise on signals.

A noise configuration is built once for the shape of its signal. What it builds is called with the value and a
generator, and reset with a mask and a generator, whether it has state or not::

    noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1).build(shape=(num_envs, 3), device=device)
    noise.reset(mask, generator)
    noisy = noise(value, generator)

The value is never modified. Each call draws for all environments, so the random stream does not depend on resets.
Fields of the configuration may be changed between calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lab_core import sampling
from lab_core.config import Settings
from lab_core.errors import ConfigError
from lab_core.masks import masked_copy_
from lab_core.state import Stateful


class Noise(Stateful):
    """Noise on one signal, as a configuration builds it."""

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        """Noisy copy of ``value`` ``(N, ...)``."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__.")

    def reset(self, mask: Tensor, generator: torch.Generator) -> None:
        """Start a new episode in the rows of ``mask`` ``(N,)``."""


@dataclass(kw_only=True)
class NoiseCfg(Settings):
    """Base of all noise configurations."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Noise:
        """Noise for a signal of shape ``(N, ...)`` on a device."""
        raise NotImplementedError(f"{type(self).__name__} does not say which noise it configures.")


@dataclass(kw_only=True)
class SampledNoiseCfg(NoiseCfg):
    """Base of noise that is one fresh sample per element and call."""

    operation: Literal["add", "scale", "abs"] = "add"
    """How the sample acts: added to the value, multiplied with it, or put in its place."""

    def __post_init__(self) -> None:
        if self.operation not in ("add", "scale", "abs"):
            raise ConfigError(
                f"{type(self).__name__}.operation must be 'add', 'scale' or 'abs', got {self.operation!r}."
            )

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Samples of shape ``shape`` on the generator's device, float32."""
        raise NotImplementedError(f"{type(self).__name__} must define sample().")

    def build(self, shape: Sequence[int], device: torch.device | str) -> Noise:
        return SampledNoise(self)


class SampledNoise(Noise):
    """Noise without memory."""

    def __init__(self, cfg: SampledNoiseCfg) -> None:
        self.cfg = cfg

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        sample = self.cfg.sample(value.shape, generator)
        match self.cfg.operation:
            case "add":
                return value + sample
            case "scale":
                return value * sample
            case "abs":
                return sample


@dataclass(kw_only=True)
class ConstantNoiseCfg(SampledNoiseCfg):
    """The same value always: a known bias or scale."""

    bias: float

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.full(tuple(shape), self.bias, dtype=torch.float32, device=generator.device)


@dataclass(kw_only=True)
class UniformNoiseCfg(SampledNoiseCfg):
    """Uniform in ``[n_min, n_max]``, in the unit of the signal."""

    n_min: float
    n_max: float

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return sampling.uniform(self.n_min, self.n_max, shape, generator)


@dataclass(kw_only=True)
class GaussianNoiseCfg(SampledNoiseCfg):
    """Normal with mean ``mean`` and standard deviation ``std``, in the unit of the signal."""

    mean: float = 0.0
    std: float

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return sampling.gaussian(self.mean, self.std, shape, generator)


@dataclass(kw_only=True)
class NoiseWithBiasCfg(NoiseCfg):
    """Noise, and an offset that stays for an episode."""

    noise: NoiseCfg
    """Applied first, on each call."""
    bias: SampledNoiseCfg
    """Source of the offset; its ``operation`` is not used."""
    per_component: bool = True
    """Draw each component of a row on its own, or one offset for the whole row."""

    def build(self, shape: Sequence[int], device: torch.device | str) -> Noise:
        return NoiseWithBias(self, shape, device)


class NoiseWithBias(Noise):
    """Noise, and an offset that is drawn at the reset of each row (zero before the first)."""

    def __init__(self, cfg: NoiseWithBiasCfg, shape: Sequence[int], device: torch.device | str) -> None:
        self.cfg = cfg
        self._noise = cfg.noise.build(shape, device)
        num_envs, *components = shape
        self.bias = torch.zeros(
            (num_envs, *(components if cfg.per_component else [1] * len(components))), device=device
        )
        """Offset ``(N, ...)`` or ``(N, 1, ...)``."""

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        return self._noise(value, generator) + self.bias

    def reset(self, mask: Tensor, generator: torch.Generator) -> None:
        self._noise.reset(mask, generator)
        masked_copy_(self.bias, self.cfg.bias.sample(self.bias.shape, generator), mask)
