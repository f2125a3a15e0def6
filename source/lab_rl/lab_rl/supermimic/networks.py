"""The networks: perceptrons with layer normalisation and GELU, the policy and the critic."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from lab_rl.supermimic.normalizer import RunningNormalizer

M = TypeVar("M", bound=torch.nn.Module)


def frozen(module: M) -> M:
    """Returns a module with the memory of ``module``, whose parameters ask for no gradients: what is trained in place
    there is seen here."""
    twin = copy.deepcopy(module).requires_grad_(False)
    for own, other in ((twin.parameters, module.parameters), (twin.buffers, module.buffers)):
        for tensor, source in zip(own(), other(), strict=True):
            tensor.data = source.data
    return twin


class ResidualMLP(torch.nn.Module):
    """A perceptron whose hidden layers add to what they read where widths are equal, and whose output begins at zero.

    Args:
        num_inputs: D.
        hidden_dims: Widths of the hidden layers.
        num_outputs: M.
        layer_norm: Normalise each hidden layer before its GELU.
    """

    def __init__(self, num_inputs: int, hidden_dims: Sequence[int], num_outputs: int, layer_norm: bool = True) -> None:
        super().__init__()
        widths = [num_inputs, *hidden_dims]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(i, o) for i, o in pairwise(widths))
        norm = torch.nn.LayerNorm if layer_norm else torch.nn.Identity
        self.norms = torch.nn.ModuleList(norm(width) for width in hidden_dims)
        self.last = torch.nn.Linear(widths[-1], num_outputs)
        torch.nn.init.zeros_(self.last.weight)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, values: Tensor) -> Tensor:
        """Returns (..., M) for (..., D)."""
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            hidden = torch.nn.functional.gelu(norm(layer(values)))
            values = values + hidden if index and hidden.shape == values.shape else hidden
        return self.last(values)

    def hidden_matrices(self) -> list[torch.nn.Parameter]:
        """Returns the matrices between hidden layers."""
        return [layer.weight for layer in list(self.layers)[1:]]  # pyright: ignore[reportReturnType]


class Actor(torch.nn.Module):
    """The policy: limit * tanh(network / limit).

    Args:
        num_observations: D.
        num_actions: A.
        hidden_dims: Widths of the hidden layers.
        limit: Largest absolute action.
    """

    def __init__(self, num_observations: int, num_actions: int, hidden_dims: Sequence[int], limit: float) -> None:
        super().__init__()
        self.normalizer = RunningNormalizer(num_observations)
        self.network = ResidualMLP(num_observations, hidden_dims, num_actions, layer_norm=False)
        self.limit = limit

    def forward(self, observations: Tensor) -> Tensor:
        """Returns actions (..., A) for observations (..., D)."""
        output = self.network(self.normalizer(observations)).to(observations.dtype)
        return self.limit * torch.tanh(output / self.limit)


class Critic(torch.nn.Module):
    """The discounted return that is to be expected.

    Args:
        num_inputs: D, of observations and context.
        hidden_dims: Widths of the hidden layers.
    """

    def __init__(self, num_inputs: int, hidden_dims: Sequence[int]) -> None:
        super().__init__()
        self.normalizer = RunningNormalizer(num_inputs)
        self.network = ResidualMLP(num_inputs, hidden_dims, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns values (...) for (..., D)."""
        return self.network(self.normalizer(inputs)).squeeze(-1).to(inputs.dtype)
