"""Optimisers that leave out an update whose gradient is not finite, without asking the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration that brings singular values near 1 in five steps (Jordan et al. 2024, Muon)."""


class GuardedOptimizer:
    """AdamW for some parameters, Muon for hidden matrices, after the norm of the whole gradient was limited.

    Where that norm is not finite, parameters and moments stay bit for bit as they are and the update is counted.
    Everything happens on the device and may be part of a graph; set gradients to None before each backward pass.

    Args:
        parameters: To optimise.
        learning_rate: Of AdamW.
        max_grad_norm: Longer gradients are scaled down to this norm.
        weight_decay: Of AdamW, per learning rate.
        betas: Of AdamW.
        matrices: Those of ``parameters`` that Muon moves.
        matrix_learning_rate: Of Muon.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        learning_rate: float,
        max_grad_norm: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        matrices: Sequence[torch.nn.Parameter] = (),
        matrix_learning_rate: float = 0.0,
    ) -> None:
        self.parameters = list(parameters)
        device = self.parameters[0].device
        self.learning_rate = torch.tensor(learning_rate, device=device)
        """0-d, of AdamW: to be filled."""
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        """0-d, updates left out since the beginning."""
        self.skipped_in_a_row = torch.zeros_like(self.skipped)
        """0-d, the latest ones."""
        self.grad_norm = torch.zeros((), device=device)
        """0-d, of the latest gradient, before it was limited."""
        self._max_grad_norm = max_grad_norm
        by_muon = {id(matrix) for matrix in matrices}
        others = [parameter for parameter in self.parameters if id(parameter) not in by_muon]
        self._adamw = torch.optim.AdamW(
            others, lr=self.learning_rate, betas=betas, weight_decay=weight_decay, fused=True,
            capturable=device.type == "cuda",
        )  # fmt: skip
        self._matrices = list(matrices)
        self._momenta = [torch.zeros_like(matrix) for matrix in matrices]
        self._matrix_rate = matrix_learning_rate

    def zero_grad(self) -> None:
        """Sets gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, counts: Tensor | None = None) -> None:
        """Moves the parameters, not if ``counts`` () bool is False: nothing had a part in the loss."""
        grads = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self.grad_norm.copy_(torch.nn.utils.get_total_norm(grads))
        bad = self.grad_norm.isfinite().logical_not()
        if counts is not None:
            bad = bad | ~counts
        torch._foreach_mul_(grads, (self._max_grad_norm / (self.grad_norm + 1e-6)).clamp(max=1.0))
        # As a gradient scaler tells a fused optimiser to leave out a step.
        self._adamw.found_inf = bad.float()  # pyright: ignore[reportAttributeAccessIssue]
        self._adamw.grad_scale = None  # pyright: ignore[reportAttributeAccessIssue]
        self._adamw.step()
        for matrix, momentum in zip(self._matrices, self._momenta, strict=True):
            self._move_matrix(matrix, momentum, bad)
        self.skipped.add_(bad)
        self.skipped_in_a_row.add_(1).mul_(bad)

    def _move_matrix(self, matrix: torch.nn.Parameter, momentum: Tensor, bad: Tensor) -> None:
        """Muon with Nesterov momentum 0.95: a step of the orthogonal matrix nearest to the momentum."""
        assert matrix.grad is not None
        grad = torch.where(bad, 0.0, matrix.grad)
        momentum.copy_(torch.where(bad, momentum, momentum.lerp(grad, 0.05)))
        direction = orthogonalized(grad.lerp(momentum, 0.95))
        scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
        matrix.sub_(torch.where(bad, 0.0, self._matrix_rate * scale * direction))

    def state_dict(self) -> dict[str, Any]:
        """Returns moments, momenta and counts."""
        return {
            "adamw": self._adamw.state_dict()["state"],
            "momenta": self._momenta,
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what :meth:`state_dict` returned, but the learning rate, which is the configured one; not after a
        graph was made."""
        self._adamw.load_state_dict({**self._adamw.state_dict(), "state": state["adamw"]})
        for group in self._adamw.param_groups:
            group["lr"] = self.learning_rate  # not the copy that loading made
        for momentum, stored in zip(self._momenta, state["momenta"], strict=True):
            momentum.copy_(stored)
        for name in ("skipped", "skipped_in_a_row"):
            getattr(self, name).copy_(state[name])


def orthogonalized(matrix: Tensor) -> Tensor:
    """Returns a matrix (M, D) with the singular vectors of ``matrix`` and singular values near 1."""
    first, third, fifth = _COEFFICIENTS
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    result = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        square = result @ result.T
        result = first * result + (third * square + fifth * square @ square) @ result
    return result.T if matrix.shape[0] > matrix.shape[1] else result
