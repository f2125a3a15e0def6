"""Settings of learning algorithms, free of any learning library: tasks state them, `lab_rl` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(kw_only=True)
class PPOCfg:
    """Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347).

    One iteration collects `num_steps_per_env` steps in every environment and then updates the networks for
    `num_learning_epochs` passes over them, in `num_mini_batches` parts each.
    """

    experiment_name: str | None = None
    """Folder of the runs below the log directory. None: the task id."""

    num_steps_per_env: int = 24
    """Environment steps of every environment per iteration."""
    max_iterations: int = 1500
    """Iterations of the whole run, also when it is resumed."""
    save_interval: int = 50
    """Iterations between two checkpoints; the last iteration always has one."""
    init_at_random_ep_len: bool = True
    """Start a new run with episodes of random age, so that their time-outs do not all fall into one step."""

    obs_groups: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"actor": ("policy",), "critic": ("policy",)}
    )
    """Observation groups that the `actor` and the `critic` read, concatenated in this order."""
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
    init_std: float = 1.0
    """Initial standard deviation of the actions."""

    learning_rate: float = 1e-3
    """Of Adam. With the adaptive schedule: where it starts."""
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    """`adaptive` changes the learning rate between 1e-5 and 1e-2 to hold the policy change near `desired_kl`."""
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
    """Hold the change of values in an update within `clip_param`."""
    max_grad_norm: float = 1.0
    """Longer gradients are scaled down to this norm."""
