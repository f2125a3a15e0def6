"""Settings of distillation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from lab_core.agents.base import AgentCfg
from lab_core.agents.extensions import RecurrentCfg


@dataclass(kw_only=True)
class DistillationCfg(AgentCfg):
    """A student learns to act as a teacher does, on what the student sees and where the student goes.

    One iteration lets the student act for :attr:`num_steps_per_env` steps in every environment, and asks the teacher
    what it would do there (DAgger, Ross et al. 2011, https://arxiv.org/abs/1011.0686).
    """

    algorithm: ClassVar[str] = "distillation"

    teacher: str | None = None
    """Run or checkpoint of the teacher, a policy of any algorithm for the same task."""

    num_steps_per_env: int = 24
    """Environment steps of every environment per iteration."""
    obs_groups: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"student": ("policy",)})
    """Observation groups that the ``student`` reads, concatenated in this order. The teacher reads its own."""
    obs_normalization: bool = False
    """Standardise the student's observations by their running mean and standard deviation."""
    clip_actions: float | None = None
    """Largest absolute action that the environment receives."""

    student_hidden_dims: Sequence[int] = (256, 256, 256)
    """Widths of the student's hidden layers."""
    activation: str = "elu"
    """Between the layers."""
    recurrent: RecurrentCfg | None = None
    """Memory of the student."""
    init_std: float = 0.1
    """Standard deviation of the student's actions while it learns."""

    learning_rate: float = 1e-3
    """Of Adam."""
    num_learning_epochs: int = 1
    """Times that an iteration learns from each of its steps."""
    gradient_length: int = 8
    """Steps that an update learns from, and that gradients go back through the memory of the student. A divisor of the
    steps of all epochs together, or the last steps of an iteration teach nothing."""
    loss: Literal["mse", "huber"] = "mse"
    """Of the difference between the actions of student and teacher."""
    max_grad_norm: float | None = None
    """Longer gradients are scaled down to this norm."""
