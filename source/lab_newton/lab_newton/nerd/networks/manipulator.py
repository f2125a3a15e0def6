"""A network with the form of the equations of motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from lab_core.config import PositiveInt
from lab_newton.nerd.networks.network import Network

if TYPE_CHECKING:
    from lab_newton.nerd.representation import Representation
    from lab_newton.nerd.wrenches.robot import RobotProperties


class Manipulator(Network):
    """Accelerations as the manipulator equation has them, M(q) q'' + C(q, q') q' + g(q) = tau: for each pose, affine in
    the efforts and quadratic in the velocities.

    Layers of SiLU units that look at the pose alone give the coefficients of 1, of every velocity and effort, and of
    every product of two velocities. For robots of few joints that touch nothing; contacts are not of this form.

    Args:
        input_owners: As for every :class:`Network`.
        output_owners: As for every :class:`Network`.
        input_kinds: :attr:`~lab_newton.nerd.Representation.feature_kinds`.
        hidden: Units of each layer.
    """

    _pose: Tensor
    _velocity: Tensor
    _effort: Tensor
    _pairs: Tensor

    def __init__(
        self,
        input_owners: Sequence[int],
        output_owners: Sequence[int],
        input_kinds: Sequence[str],
        hidden: Sequence[PositiveInt] = (256, 256, 256),
    ) -> None:
        super().__init__(input_owners, output_owners, context=1)
        places = {
            kind: torch.tensor([i for i, other in enumerate(input_kinds) if other == kind], dtype=torch.int64)
            for kind in ("pose", "velocity", "effort")
        }
        num_velocities = len(places["velocity"])
        for name, value in {
            **{f"_{kind}": indices for kind, indices in places.items()},
            "_pairs": torch.triu_indices(num_velocities, num_velocities),
        }.items():
            self.register_buffer(name, value, persistent=False)
        self._num_factors = 1 + num_velocities + len(places["effort"]) + self._pairs.shape[1]
        widths = [len(places["pose"]), *hidden]
        layers: list[nn.Module] = []
        for inputs, outputs in zip(widths[:-1], widths[1:], strict=True):
            layers += [nn.Linear(inputs, outputs), nn.SiLU()]
        self.coefficients = nn.Sequential(*layers, nn.Linear(widths[-1], self.num_outputs * self._num_factors))

    @classmethod
    def for_robot(
        cls, representation: Representation, options: Mapping[str, Any], robot: RobotProperties | None = None
    ) -> Self:
        owners, outputs = representation.feature_owners, representation.change_owners
        return cls(owners, outputs, representation.feature_kinds, **options)

    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        velocity, effort = tokens.index_select(-1, self._velocity), tokens.index_select(-1, self._effort)
        products = velocity.index_select(-1, self._pairs[0]) * velocity.index_select(-1, self._pairs[1])
        factors = torch.cat((torch.ones_like(velocity[..., :1]), velocity, effort, products), dim=-1)
        coefficients = self.coefficients(tokens.index_select(-1, self._pose))
        return (coefficients.unflatten(-1, (self.num_outputs, self._num_factors)) * factors.unsqueeze(-2)).sum(-1)
