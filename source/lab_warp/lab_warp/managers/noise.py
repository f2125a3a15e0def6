"""Noise on all columns of a buffer, drawn by the environments' own random streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.signals import ConstantNoiseCfg, GaussianNoiseCfg, NoiseCfg, UniformNoiseCfg
from lab_warp.managers import kernels

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv

_PLAIN = (ConstantNoiseCfg, UniformNoiseCfg, GaussianNoiseCfg)
_OPERATIONS = {"add": kernels.ADD, "scale": kernels.SCALE, "abs": kernels.REPLACE}


def has_no_memory(noise: NoiseCfg | None) -> bool:
    """Whether a kernel can draw this noise: none, or a fresh constant, uniform or normal sample per element."""
    return noise is None or type(noise) in _PLAIN


def noise_settings(noise: NoiseCfg | None) -> tuple[int, int, float, float]:
    """Returns kind, operation and the two numbers of a noise that :func:`has_no_memory`, as the kernels take them."""
    operation = _OPERATIONS[getattr(noise, "operation", "add")]
    if isinstance(noise, ConstantNoiseCfg):
        return kernels.CONSTANT, operation, noise.bias, 0.0
    if isinstance(noise, UniformNoiseCfg):
        return kernels.UNIFORM, operation, noise.n_min, noise.n_max
    if isinstance(noise, GaussianNoiseCfg):
        return kernels.GAUSSIAN, operation, noise.mean, noise.std
    return kernels.NO_NOISE, operation, 0.0, 0.0


def finish_columns(
    env: WarpEnv, values: wp.array, settings: Sequence[wp.array], mask: wp.array | None, draws: bool, ahead: int = 0
) -> None:
    """Noise, clip and scale of ``values`` (N, D) in place, everywhere or in the environments of ``mask``.

    Args:
        settings: As :func:`kernels.finish_observation` takes them, (D,) each.
        draws: Whether the random streams move on, so that the next noise is another.
        ahead: How far ahead of the streams the noise is drawn: what others will draw before, who do not do so now.
    """
    wp.launch(
        kernels.finish_observation,
        dim=values.shape,
        inputs=[mask, *settings, ahead, env.rng.state],
        outputs=[values],
        device=env.wp_device,
    )
    if draws:
        wp.launch(
            kernels.advance_streams, dim=env.num_envs, inputs=[mask], outputs=[env.rng.state], device=env.wp_device
        )


class ColumnNoise:
    """One noise on every column of a buffer (N, D). Fields of its configuration may be changed while it runs."""

    def __init__(self, noise: NoiseCfg | None, width: int, device: torch.device) -> None:
        """Raises:
        ConfigError: the noise has a memory.
        """
        if not has_no_memory(noise):
            raise ConfigError(
                f"{type(noise).__name__} has a memory, which direct environments of the Warp front end do not offer: "
                "use constant, uniform or Gaussian noise, or the front end 'torch'."
            )
        self._noise = noise
        self._copied = noise_settings(noise)
        values = (*self._copied, -math.inf, math.inf, 1.0)
        self._settings = [
            torch.full((width,), value, dtype=torch.int32 if i < 2 else torch.float32, device=device)
            for i, value in enumerate(values)
        ]
        self._views = [wp.from_torch(setting) for setting in self._settings]

    def copy_settings(self) -> None:
        """Hands a changed noise to the device; called between steps."""
        settings = noise_settings(self._noise)
        if settings != self._copied:
            for buffer, value in zip(self._settings, settings, strict=False):  # the others say: no clip, no scale
                buffer.fill_(value)
            self._copied = settings

    def apply(self, env: WarpEnv, values: wp.array, mask: wp.array | None = None, advance: bool = True) -> None:
        """Adds the noise in place: everywhere, or in the environments of ``mask``; without ``advance`` the random
        streams stay where they are."""
        if self._noise is None:
            return
        finish_columns(env, values, self._views, mask, draws=advance)
