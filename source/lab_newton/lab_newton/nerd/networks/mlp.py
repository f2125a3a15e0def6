"""A network without memory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from lab_core.config import PositiveInt
from lab_newton.nerd.networks.network import Network


class MLP(Network):
    """Layers of SiLU units that look at one frame.

    Args:
        input_owners: As for every :class:`Network`.
        output_owners: As for every :class:`Network`.
        hidden: Units of each layer.
        contact_channels: As for every :class:`Network`.
        contact_size: As for every :class:`Network`.
    """

    def __init__(
        self,
        input_owners: Sequence[int],
        output_owners: Sequence[int],
        hidden: Sequence[PositiveInt] = (256, 256, 256),
        contact_channels: int = 0,
        contact_size: PositiveInt = 16,
    ) -> None:
        super().__init__(input_owners, output_owners, 1, contact_channels, contact_size)
        widths = [self.token_size, *hidden]
        layers: list[nn.Module] = []
        for inputs, outputs in zip(widths[:-1], widths[1:], strict=True):
            layers += [nn.Linear(inputs, outputs), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], self.num_outputs))

    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        return self.layers(tokens)
