"""A transformer over bodies and frames."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lab_core.config import PositiveInt
from lab_newton.nerd.networks.attention import Blocks
from lab_newton.nerd.networks.network import Network, keep_first


class ParallelNeRD(Network):
    """A token per body and frame: bodies look at each other within a frame, then each at its own past.

    A body's token has its own channels, those of body 0, which is the root of a floating robot, and its contacts. All
    bodies go through the blocks in parallel; what is read from a token is what that body does. Independent of other
    networks of that name, which are not public.

    Args:
        input_owners: As for every :class:`Network`.
        output_owners: As for every :class:`Network`.
        context: T, most frames that it looks at.
        size: Numbers of a token.
        body_depth: Blocks among the bodies of a frame.
        depth: Causal blocks over the frames of a body.
        heads: Of each block.
        head_hidden: Units of the layer that reads tokens.
        contact_channels: As for every :class:`Network`.
        contact_size: As for every :class:`Network`.
    """

    _sources: Tensor
    _targets: Tensor

    def __init__(
        self,
        input_owners: Sequence[int],
        output_owners: Sequence[int],
        context: PositiveInt = 10,
        size: PositiveInt = 128,
        body_depth: PositiveInt = 2,
        depth: PositiveInt = 4,
        heads: PositiveInt = 4,
        head_hidden: PositiveInt = 64,
        contact_channels: int = 0,
        contact_size: PositiveInt = 16,
    ) -> None:
        super().__init__(input_owners, output_owners, context, contact_channels, contact_size)
        bodies = range(self.num_bodies)
        own = [[channel for channel, owner in enumerate(input_owners) if owner == body] for body in bodies]
        seen = [own[0] + (own[body] if body else []) for body in bodies]
        width = max(len(channels) for channels in seen)
        # Channels of each body, filled up with one that is always zero.
        sources = [channels + [self.num_inputs] * (width - len(channels)) for channels in seen]
        outputs = [[channel for channel, owner in enumerate(output_owners) if owner == body] for body in bodies]
        places = max(len(channels) for channels in outputs)
        targets = [0] * self.num_outputs
        for body, channels in enumerate(outputs):
            for place, channel in enumerate(channels):
                targets[channel] = body * places + place
        self.register_buffer("_sources", torch.tensor(sources).flatten(), persistent=False)
        self.register_buffer("_targets", torch.tensor(targets), persistent=False)
        self.embed = BodyLinear(self.num_bodies, width + contact_size * bool(contact_channels), size)
        self.positions = nn.Parameter(0.02 * torch.randn(context, size))
        self.body_blocks = Blocks(size, heads, body_depth, causal=False)
        self.frame_blocks = Blocks(size, heads, depth, causal=True)
        self.head = nn.Sequential(
            nn.Linear(size, head_hidden), nn.SiLU(), BodyLinear(self.num_bodies, head_hidden, places)
        )

    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        tokens = keep_first(tokens, length)
        num_windows, num_frames, _ = tokens.shape
        frames, touch = tokens[..., : self.num_inputs], tokens[..., self.num_inputs :]
        padded = torch.cat((frames, torch.zeros_like(frames[..., :1])), dim=-1)
        bodies = padded.index_select(-1, self._sources).unflatten(-1, (self.num_bodies, -1))
        if self.contact_encoder is not None:
            bodies = torch.cat((bodies, touch.unflatten(-1, (self.num_bodies, -1))), dim=-1)
        stream = self.body_blocks(self.embed(bodies).flatten(0, 1))  # (B T, N, D)
        stream = stream.unflatten(0, (num_windows, num_frames)).transpose(1, 2)  # (B, N, T, D)
        stream = self.frame_blocks((stream + self.positions[:num_frames]).flatten(0, 1))
        stream = stream.unflatten(0, (num_windows, self.num_bodies)).transpose(1, 2)
        return self.head(stream).flatten(-2).index_select(-1, self._targets)


class BodyLinear(nn.Module):
    """A linear layer (..., N, I) -> (..., N, O) with weights of its own for each body.

    Args:
        num_bodies: N.
        num_inputs: I.
        num_outputs: O.
    """

    def __init__(self, num_bodies: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(max(num_inputs, 1))
        self.weight = nn.Parameter(torch.empty(num_bodies, num_inputs, num_outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(num_bodies, num_outputs))

    def forward(self, values: Tensor) -> Tensor:
        return torch.einsum("...ni,nio->...no", values, self.weight) + self.bias
