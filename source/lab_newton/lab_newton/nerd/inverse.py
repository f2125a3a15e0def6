"""Inverses of small matrices by operations that a CUDA graph can hold; not all of ``torch.linalg`` can be captured."""

from __future__ import annotations

import torch
from torch import Tensor


def invert_positive(matrix: Tensor) -> Tensor:
    """Returns the inverses of symmetric positive definite matrices (..., n, n), differentiably.

    Gauss-Jordan elimination without pivoting, after scaling to a diagonal of ones, which keeps all pivots at most 1.
    Each of the n steps is one product: A - (a - e) (b + e)^T / p with column a, row b, pivot p, unit vector e.
    """
    size = matrix.shape[-1]
    scale = matrix.diagonal(dim1=-2, dim2=-1).rsqrt()
    scale = scale[..., :, None] * scale[..., None, :]
    inverse = scale * matrix
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    for step in range(size):
        column = inverse[..., :, step] - unit[step]
        row = (inverse[..., step, :] + unit[step]) / inverse[..., step, step, None]
        inverse = inverse - column[..., :, None] * row[..., None, :]
    return scale * inverse
