"""Parts that networks and learning may have besides: memory, curiosity, symmetry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lab_core.config import MISSING, Settings


@dataclass(kw_only=True)
class RecurrentCfg(Settings):
    """A layer with memory between the observations and the hidden layers of a network."""

    type: Literal["lstm", "gru"] = "lstm"
    """Long short-term memory, or gated recurrent units, which have one state instead of two."""
    hidden_dim: int = 256
    """Numbers in its memory, per layer."""
    num_layers: int = 1
    """Layers with memory, one behind the other."""


@dataclass(kw_only=True)
class CuriosityCfg(Settings):
    """Random network distillation (Burda et al. 2018, https://arxiv.org/abs/1810.12894).

    A network learns to predict what a fixed random one makes of a state: its error is a reward for new states.
    """

    groups: Sequence[str] = ("policy",)
    """Observation groups that are the state, concatenated in this order."""
    weight: float = 1.0
    """Of the error as a reward, per second."""
    schedule: Literal["constant", "step", "linear"] = "constant"
    """How the weight becomes ``final_weight``: never, at ``final_step``, or from ``first_step`` to it along a line."""
    first_step: int = 0
    """Environment steps of every environment."""
    final_step: int = 0
    """Environment steps of every environment."""
    final_weight: float = 0.0
    """Per second."""
    num_outputs: int = 1
    """Numbers that both networks make of a state."""
    predictor_hidden_dims: Sequence[int] = (256, 256)
    """Widths of the hidden layers of the network that learns."""
    target_hidden_dims: Sequence[int] = (256, 256)
    """Widths of the hidden layers of the random one."""
    activation: str = "elu"
    """Between the layers of both."""
    state_normalization: bool = False
    """Standardise the state by its running mean and standard deviation."""
    reward_normalization: bool = False
    """Divide the error by the running standard deviation of its discounted sum."""
    learning_rate: float = 1e-3
    """Of its own Adam."""


@dataclass(kw_only=True)
class SymmetryCfg(Settings):
    """Learning from mirrored steps too (Mittal et al. 2024, https://arxiv.org/abs/2403.04359)."""

    function: Callable[..., tuple[Any, Any]] = MISSING
    """Mirrors, as rsl-rl asks: ``function(env, obs, actions)`` with ``env.unwrapped`` the environment, ``obs`` a
    TensorDict of groups (B, D) and ``actions`` (B, A), either of them None, returns both with the mirrored ones
    appended, (kB, D) and (kB, A): the first B are the given ones."""
    data_augmentation: bool = True
    """Let policy and value losses see mirrored steps."""
    mirror_loss_coef: float = 0.0
    """Weight of the squared difference between the mirrored action and the action for the mirrored observations."""
