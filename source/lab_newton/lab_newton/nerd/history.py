"""The latest frames of every world."""

from __future__ import annotations

import torch
from torch import Tensor


class History:
    """A ring of the last ``context`` encoded frames per world, whose lengths differ after resets by mask.

    A frame is stored in a frame of reference of its own, so it never changes: nothing is encoded twice. Storage stays
    where it is, and nothing is read on the host.

    Args:
        num_worlds: W.
        context: T, most frames.
        size: E, numbers of an encoded frame.
        device: Where it lies.
    """

    def __init__(self, num_worlds: int, context: int, size: int, device: torch.device | str) -> None:
        self.tokens = torch.zeros(num_worlds, context, size, device=device)
        """(W, T, E) in the order of the ring."""
        self.length = torch.zeros(num_worlds, dtype=torch.int64, device=device)
        """(W,) frames since the last reset, at most T."""
        self.cursor = torch.zeros(num_worlds, dtype=torch.int64, device=device)
        """(W,) where the next frame goes."""
        self._order = torch.arange(context, device=device)

    def push(self, tokens: Tensor) -> None:
        """Adds a frame ``tokens`` (W, E) to every world."""
        context = self._order.shape[0]
        places = self.cursor[:, None, None].expand(-1, 1, self.tokens.shape[-1])
        self.tokens.scatter_(1, places, tokens[:, None].to(self.tokens.dtype))
        self.cursor.copy_((self.cursor + 1) % context)
        self.length.copy_((self.length + 1).clamp(max=context))

    def window(self) -> Tensor:
        """Returns the frames (W, T, E) of each world, oldest first; those beyond its length are 0."""
        context = self._order.shape[0]
        places = (self.cursor[:, None] - self.length[:, None] + self._order) % context
        frames = self.tokens.gather(1, places[..., None].expand_as(self.tokens))
        # Not times 0: what a world left behind that went NaN must not come back.
        return torch.where((self._order < self.length[:, None])[..., None], frames, 0.0)

    def clear(self, mask: Tensor | None = None) -> None:
        """Forgets the frames of the worlds of ``mask`` (W,) bool; None: of all."""
        if mask is None:
            for tensor in (self.tokens, self.length, self.cursor):
                tensor.zero_()
        else:
            self.length.mul_(~mask)
