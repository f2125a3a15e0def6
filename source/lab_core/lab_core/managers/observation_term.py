"""One observation term: from what its function returns to what the policy sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.env import Env
from lab_core.managers.checks import check_number, check_range
from lab_core.managers.errors import TermError
from lab_core.managers.function_terms import TermCfg
from lab_core.masks import expand_mask, masked_copy_
from lab_core.sampling import uniform
from lab_core.signals import CircularBuffer, DelayBuffer, ModifierCfg, NoiseCfg
from lab_core.state import Stateful, lasting_tensors


@dataclass(kw_only=True)
class ObservationTermCfg(TermCfg):
    """``func(env, **params) -> (N, D)`` or (N, ...), then in this order: modifiers, noise, clip, scale, delay, history.

    A class term keeps what its calls change in tensors (N, ...), so that observations can be looked at without moving
    it on.
    """

    modifiers: Sequence[ModifierCfg] = ()
    noise: NoiseCfg | None = None
    """Added where the group has ``enable_corruption``."""
    clip: tuple[float, float] | None = None
    """(low, high), before the scale."""
    scale: float | Sequence[float] | None = None
    """One factor, or one per component of the last axis."""
    delay_min_lag: int = 0
    """Smallest delay [steps]. Every reset draws a whole number of steps."""
    delay_max_lag: int = 0
    """Largest delay [steps]; 0: none."""
    delay_hold_prob: float = 0.0
    """Probability that a step shows the value of the step before again, as when a sensor's message is lost."""
    history_length: int = 0
    """Number of values shown, the oldest first; 0: only the newest, without an axis for time."""
    flatten_history: bool = True
    """(N, H * D) instead of (N, H, D)."""


class ObservationPipeline(Stateful):
    """What follows the function of an observation term, with its memory."""

    def __init__(self, cfg: ObservationTermCfg, value: torch.Tensor, what: str, env: Env, time_major: bool) -> None:
        """Allocates memory for a term whose function returns values like ``value``.

        ``time_major`` keeps the axis of time, for a group that is flattened after its terms are joined.
        """
        self.cfg = cfg
        self._env = env
        self._what = what
        self._time_major = time_major
        self.value_shape = tuple(value.shape)
        self._fixed = _fixed_settings(cfg)
        self._modifier_cfgs = cfg.modifiers
        self._modifiers = [modifier.build(value.shape, env.device) for modifier in cfg.modifiers]
        self._noise_cfg = cfg.noise
        self._noise = cfg.noise.build(value.shape, env.device) if cfg.noise else None
        self._scale = self.scratch(torch.ones(self.value_shape[-1], device=env.device))
        self._scale_values: tuple[float, ...] = ()
        """What was copied to the device."""
        self._delay = self._history = None
        if cfg.delay_max_lag > 0:
            self._delay = DelayBuffer(cfg.delay_max_lag, value.shape, env.device)
            self._delay.set_lag(cfg.delay_min_lag)
        if cfg.delay_hold_prob > 0.0:
            self._held = torch.zeros(value.shape, device=env.device)
            self._has_held = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        if cfg.history_length > 0:
            self._history = CircularBuffer(cfg.history_length, value.shape, env.device)
        self.check_change(cfg)

    def __call__(self, value: torch.Tensor, corrupt: bool, advance: torch.Tensor | None) -> torch.Tensor:
        """Processes a fresh value; the result may share memory with it.

        Args:
            value: (N, ...).
            corrupt: Whether to add noise.
            advance: Environments (N,) bool whose memory takes the value in; None: all. The others see what they would
                if they went on.
        """
        value = value.to(torch.float32)
        for modifier in self._modifiers:
            value = modifier(value, advance)
        if self.cfg.noise is not self._noise_cfg:
            self._replace_noise()
        if corrupt and self._noise:
            value = self._noise(value, self._env.generator)
        value = self.clip_and_scale(value)
        if self._delay:
            delayed = self._delay.peek(value)
            self._delay.append(value, advance)
            value = delayed
        if self.cfg.delay_hold_prob > 0.0:
            value = self._hold(value, advance)
        if self._history:
            history = self._history.peek(value)
            self._history.append(value, advance)
            value = self._shaped(history)
        return value

    def clip_and_scale(self, value: torch.Tensor) -> torch.Tensor:
        """Applies the two of its steps that remember and draw nothing, to values (..., D) of any batch."""
        if self.cfg.clip is not None:
            value = value.clamp(*self.cfg.clip)
        return self._scaled(value)

    @property
    def memories(self) -> list[str]:
        """Names of the settings in use by which values depend on those of the steps before."""
        return [
            name
            for name in ("modifiers", "delay_max_lag", "delay_hold_prob", "history_length")
            if getattr(self.cfg, name)
        ]

    def reset(self, mask: torch.Tensor) -> None:
        """Forgets the episodes of the environments in ``mask`` (N,) bool and draws their delays and biases."""
        for modifier in self._modifiers:
            modifier.reset(mask)
        if self._noise:
            self._noise.reset(mask, self._env.generator)
        if self._delay:
            low, high = self.cfg.delay_min_lag, self.cfg.delay_max_lag
            generator = self._env.generator
            lag = torch.randint(low, high + 1, (self._env.num_envs,), generator=generator, device=generator.device)
            self._delay.reset(mask)
            self._delay.set_lag(lag, mask)
        if self.cfg.delay_hold_prob > 0.0:
            masked_copy_(self._has_held, False, mask)
        if self._history:
            self._history.reset(mask)

    def check_change(self, cfg: ObservationTermCfg) -> None:
        """Raises :class:`TermError` if ``cfg`` does not fit the memory and the shape of this term."""
        for name, value in _fixed_settings(cfg).items():
            if value != self._fixed[name]:
                raise TermError(f"{self._what}: {name} cannot change while the environment runs.")
        if list(cfg.modifiers) != list(self._modifier_cfgs):
            raise TermError(f"{self._what}: modifiers cannot change while the environment runs.")
        components = self.value_shape[-1]
        if isinstance(cfg.scale, Sequence) and len(cfg.scale) != components:
            raise TermError(f"{self._what}: scale has {len(cfg.scale)} values, the term has {components} components.")

    def set_cfg(self, cfg: ObservationTermCfg) -> None:
        """Takes over a configuration that :meth:`check_change` accepts."""
        # Equal settings keep the objects that were built from them, with their memory.
        cfg.modifiers = self._modifier_cfgs
        if cfg.noise == self._noise_cfg:
            cfg.noise = self._noise_cfg
        self.cfg = cfg

    @lasting_tensors()
    def _replace_noise(self) -> None:
        self._noise_cfg = self.cfg.noise
        self._noise = None
        if self._noise_cfg:
            self._noise = self._noise_cfg.build(self.value_shape, self._env.device)
            everywhere = torch.ones(self._env.num_envs, dtype=torch.bool, device=self._env.device)
            self._noise.reset(everywhere, self._env.generator)

    def _scaled(self, value: torch.Tensor) -> torch.Tensor:
        scale = self.cfg.scale
        if scale is None:
            return value
        if not isinstance(scale, Sequence):
            return value * scale
        # A tensor made of Python numbers is copied to the device, and waited for: once per change, not per step.
        if tuple(scale) != self._scale_values:
            self.check_change(self.cfg)
            self._scale_values = tuple(scale)
            self._scale.copy_(torch.tensor(self._scale_values))
        return value * self._scale

    def _hold(self, value: torch.Tensor, advance: torch.Tensor | None) -> torch.Tensor:
        draw = uniform(0.0, 1.0, (self._env.num_envs,), self._env.generator)
        hold = (draw < self.cfg.delay_hold_prob) & self._has_held
        value = torch.where(expand_mask(hold, value), self._held, value)
        if advance is None:
            self._held.copy_(value)
            self._has_held.fill_(True)
        else:
            masked_copy_(self._held, value, advance)
            self._has_held.logical_or_(advance)
        return value

    def _shaped(self, history: torch.Tensor) -> torch.Tensor:
        if self._time_major:
            return history.flatten(start_dim=2)
        return history.flatten(start_dim=1) if self.cfg.flatten_history else history


def check_observation_cfg(cfg: ObservationTermCfg, what: str) -> None:
    """Raises :class:`TermError` for settings that are wrong in themselves."""
    if cfg.clip is not None:
        check_range(cfg.clip, f"{what}: clip")
    for factor in cfg.scale if isinstance(cfg.scale, Sequence) else (1.0 if cfg.scale is None else cfg.scale,):
        check_number(factor, f"{what}: scale")
    for kind, values in ((ModifierCfg, cfg.modifiers), (NoiseCfg, () if cfg.noise is None else (cfg.noise,))):
        for value in values:
            if not isinstance(value, kind):
                raise TermError(f"{what}: expected a {kind.__name__}, got {type(value).__name__}.")
    if not 0 <= cfg.delay_min_lag <= cfg.delay_max_lag:
        raise TermError(
            f"{what}: delays need 0 <= delay_min_lag <= delay_max_lag, got {cfg.delay_min_lag} and {cfg.delay_max_lag}."
        )
    if not 0.0 <= cfg.delay_hold_prob < 1.0:
        raise TermError(f"{what}: delay_hold_prob must be in 0 .. 1, below 1, got {cfg.delay_hold_prob}.")
    if cfg.history_length < 0:
        raise TermError(f"{what}: history_length must not be negative, got {cfg.history_length}.")


def _fixed_settings(cfg: ObservationTermCfg) -> dict[str, Any]:
    """What decides shapes and memory."""
    return {
        "delay_max_lag": cfg.delay_max_lag,
        "the use of delay_hold_prob": cfg.delay_hold_prob > 0.0,
        "history_length": cfg.history_length,
        "flatten_history": cfg.flatten_history,
    }
