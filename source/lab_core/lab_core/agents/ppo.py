"""Settings of proximal policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from lab_core.agents.base import AgentCfg
from lab_core.agents.extensions import CuriosityCfg, RecurrentCfg, SymmetryCfg


@dataclass(kw_only=True)
class PPOCfg(AgentCfg):
    """Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347).

    One iteration collects :attr:`num_steps_per_env` steps in every environment and then updates the networks for
    :attr:`num_learning_epochs` passes over them, in :attr:`num_mini_batches` parts each.
    """

    algorithm: ClassVar[str] = "ppo"

    num_steps_per_env: int = 24
    """Environment steps of every environment per iteration."""

    obs_groups: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"actor": ("policy",), "critic": ("policy",)}
    )
    """Observation groups that the ``actor`` and the ``critic`` read, concatenated in this order."""
    obs_normalization: bool = False
    """Standardise the observations of both networks by their running mean and standard deviation."""
    clip_actions: float | None = None
    """Largest absolute action that the environment receives."""

    actor_hidden_dims: Sequence[int] = (256, 256, 256)
    """Widths of the policy network's hidden layers."""
    critic_hidden_dims: Sequence[int] = (256, 256, 256)
    """Widths of the value network's hidden layers."""
    activation: str = "elu"
    """Between the layers of both networks."""
    recurrent: RecurrentCfg | None = None
    """Memory of both networks; ``--agent.recurrent.type gru`` gives them one."""
    init_std: float = 1.0
    """Initial standard deviation of the actions."""

    learning_rate: float = 1e-3
    """Of Adam. With the adaptive schedule: where it starts."""
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    """``adaptive`` changes the learning rate between 1e-5 and 1e-2 to hold the policy change near ``desired_kl``."""
    desired_kl: float = 0.01
    """Kullback-Leibler divergence between the policies before and after an update step."""
    num_learning_epochs: int = 5
    """Times that an iteration learns from each of its steps."""
    num_mini_batches: int = 4
    """Parts that an iteration's steps are split into, one update each."""
    gamma: float = 0.99
    """Discount per environment step."""
    lam: float = 0.95
    """Decay of generalised advantage estimation (https://arxiv.org/abs/1506.02438)."""
    clip_param: float = 0.2
    """How far from 1 the ratio of new to old probability counts; with a clipped value loss also how far values move."""
    entropy_coef: float = 0.01
    """Weight of the entropy of the actions, which keeps them random."""
    value_loss_coef: float = 1.0
    """Weight of the value loss beside the policy loss."""
    use_clipped_value_loss: bool = True
    """Hold the change of values in an update within ``clip_param``."""
    max_grad_norm: float = 1.0
    """Longer gradients are scaled down to this norm."""
    curiosity: CuriosityCfg | None = None
    """A reward for states that are new; ``--agent.curiosity.weight 0.5`` switches it on."""
    symmetry: SymmetryCfg | None = None
    """Mirrored steps to learn from; ``--agent.symmetry.function module:name`` switches it on."""
    precision: Literal["fp32", "tf32"] = "fp32"
    """Of the products of matrices where it is :attr:`captured` on a GPU: tf32 rounds their factors to 10 bits."""
    captured: bool = True
    """Act and update without waiting for the device, on a GPU by CUDA graphs; False: by rsl-rl's own code, which does
    the same, and on a CPU bit for bit."""
