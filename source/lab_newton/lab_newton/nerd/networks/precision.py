"""Where sums need all their digits."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(tensor: Tensor) -> torch.autocast:
    """Keeps what follows in the precision of its inputs, under an automatic cast to half precision too.

    For sums over many terms: their terms fit into FP16, which ends at 65,504, where the sum does not.
    """
    return torch.autocast(tensor.device.type, enabled=False)
