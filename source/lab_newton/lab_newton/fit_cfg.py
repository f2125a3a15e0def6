"""How a model of a robot is fitted; a task's recipe lies beside the task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lab_core.config import NonNegative, NonNegativeInt, Positive, PositiveInt, Settings, Share, check_kinds
from lab_core.errors import ConfigError
from lab_core.sensors import GEOMETRY_SIZE

Loss = Literal["squared", "huber"]
SEEING_CONTACTS = ("ContactImpulses",)
"""Networks that look at contacts whatever their options."""
Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(kw_only=True)
class FitCfg(Settings):
    """Settings of ``lab nerd fit``."""

    network: str = "MLP"
    """One of :data:`lab_newton.nerd.NETWORKS`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the network, plain values. ``contact_channels: 13`` lets most see contacts."""
    updates: PositiveInt = 20_000
    """Updates of the whole fit, also when it is resumed."""
    batch_size: PositiveInt = 1024
    """Windows per update, of all processes together."""
    horizon: PositiveInt = 1
    """Physics steps that the model moves by itself in every window of training. 1: every step begins with a recorded
    state. More: it goes on from what it predicted, and learns not to drift."""
    state_noise: NonNegative = 0.0
    """Standard deviation of noise on poses and velocities that the network sees in training, as a share of their own.
    It learns not to mind errors of that size, such as those that it makes itself. Efforts are told exactly."""
    learning_rate: Positive = 2e-3
    """Of AdamW, after the warm-up."""
    final_learning_rate: NonNegative = 2e-6
    """At the end; half a cosine leads there."""
    warmup_updates: NonNegativeInt = 500
    """Over which the learning rate rises from 0."""
    weight_decay: NonNegative = 0.0
    max_grad_norm: Positive = 1.0
    """Longer gradients are shortened to this."""
    ema_decay: Share = 0.999
    """Of the average of the weights, which is what is saved and evaluated; 0: the weights themselves."""
    loss: Loss = "squared"
    """Of errors on the common scale. ``"huber"`` takes those beyond 1 for what they are, not squared: of contacts a few
    steps in a thousand are hard to predict, and would else decide what is learned."""
    precision: Precision = "fp32"
    """Of the network's arithmetic; sums, losses and weights are always FP32. ``fp16`` scales its gradients."""
    holdout: Share = 0.1
    """Share of the episodes of each regime that is never trained on, but evaluated."""
    seed: int = 1
    """Of weights, split and batches."""
    eval_interval: PositiveInt = 500
    """Updates from one evaluation of held-out steps to the next."""
    save_interval: PositiveInt = 5_000
    """Updates from one checkpoint to the next."""

    def check(self) -> None:
        """Refuses what cannot be.

        Raises:
            ConfigError: a setting is of the wrong kind or out of its range; the message names it.
        """
        check_kinds(self, "fit")
        if self.options.get("contact_channels", 0) not in (0, GEOMETRY_SIZE):
            raise ConfigError(
                f"fit.options.contact_channels must be {GEOMETRY_SIZE}, the numbers of a contact, or 0 for a model "
                f"that sees none; got {self.options['contact_channels']}."
            )
        for name in ("holdout", "ema_decay"):
            if getattr(self, name) == 1.0:
                raise ConfigError(f"fit.{name} must be less than 1, got 1.")

    @property
    def sees_contacts(self) -> bool:
        """Whether the network looks at contacts, which recordings must then hold."""
        return self.network in SEEING_CONTACTS or self.options.get("contact_channels", 0) > 0

    def learning_rate_at(self, update: int) -> float:
        """Returns the learning rate of update ``update``, counted from 0."""
        warm = min(1.0, (update + 1) / max(self.warmup_updates, 1))
        cosine = 0.5 * (1.0 + math.cos(math.pi * update / self.updates))
        return warm * (self.final_learning_rate + (self.learning_rate - self.final_learning_rate) * cosine)
