"""A network with all that it needs to move a robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lab_core.config import check_kinds, parameter_types
from lab_core.errors import ConfigError, unknown_name_message
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd.history import History
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.networks import NETWORKS, Contacts
from lab_newton.nerd.normaliser import Normaliser
from lab_newton.nerd.representation import Representation
from lab_newton.nerd.wrenches.robot import RobotProperties


class NeRDModel(nn.Module):
    """Predicts changes of velocity, and moves states by them; scales lie inside, so that a model is complete.

    Args:
        layout: The robot.
        network: Which of :data:`~lab_newton.nerd.NETWORKS`.
        options: Arguments of that, plain values.
        search: Which contacts it sees, where its network looks at any.
        robot: Masses of the robot, for networks that know them.

    Raises:
        ConfigError: there is no such network, or it refuses the options.
    """

    def __init__(
        self,
        layout: RobotLayout,
        network: str,
        options: Mapping[str, Any] | None = None,
        search: ContactSearch | None = None,
        robot: RobotProperties | None = None,
    ) -> None:
        super().__init__()
        if network not in NETWORKS:
            raise ConfigError(unknown_name_message("network", network, NETWORKS))
        self.layout = layout
        self.network_name = network
        self.options = dict(options or {})
        self.search = search
        self.robot = robot
        self.representation = Representation(layout)
        self.inputs = Normaliser(len(self.representation.feature_names))
        self.changes = Normaliser(layout.num_velocities)
        try:
            check_kinds(self.options, "", parameter_types(NETWORKS[network].__init__))
            self.network = NETWORKS[network].for_robot(self.representation, self.options, robot)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Options of the network {network}: {error}.") from error
        channels = self.network.contact_channels
        self.contacts = Normaliser(channels) if channels and not self.network.in_units else None
        """Of the numbers of contacts, where the network takes them scaled; fitted to those of valid ones."""

    def forward(self, features: Tensor, contacts: Contacts | None = None, length: Tensor | None = None) -> Tensor:
        """Returns changes of velocity on the common scale (B, T, V), of the step after each frame; for training.

        Args:
            features: Windows of :meth:`Representation.features` (B, T, F), oldest first.
            contacts: Of the same frames.
            length: How many frames of each window count (B,); all if None.
        """
        return self._outputs(self.network(self._frames(features), self._scaled(contacts), length))

    def predict(self, features: Tensor, contacts: Contacts | None = None, length: Tensor | None = None) -> Tensor:
        """Returns the change of velocity (B, V) in the step after each window's last frame; see :meth:`forward`."""
        return self.changes.inverse(_last(self(features, contacts, length), length))

    def make_history(self, num_worlds: int) -> History:
        """Returns an empty history for :meth:`step`, on the device of the model."""
        return History(num_worlds, self.network.context, self.network.token_size, self.inputs.mean.device)

    def step(
        self, history: History, q: Tensor, qd: Tensor, effort: Tensor, contacts: Contacts | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns poses (W, Q) and velocities (W, V) at the end of a step, and remembers its beginning in ``history``.

        What a solver does and what rollouts measure is this. ``contacts`` have one frame, (W, 1, K, ...).
        """
        frames = self._frames(self.representation.features(q, qd, effort))
        tokens = self.network.encode(frames[:, None], self._scaled(contacts))
        if self.network.context == 1:
            outputs = self.network.mix(tokens)[:, 0]
        else:
            history.push(tokens[:, 0])
            outputs = _last(self.network.mix(history.window(), history.length), history.length)
        return self.representation.apply_change(q, qd, self._changes(outputs.to(q.dtype)))

    def _frames(self, features: Tensor) -> Tensor:
        """Returns features as the network takes them."""
        return features if self.network.in_units else self.inputs(features)

    def _outputs(self, outputs: Tensor) -> Tensor:
        """Returns what the network gave on the common scale."""
        return self.changes(outputs) if self.network.in_units else outputs

    def _changes(self, outputs: Tensor) -> Tensor:
        """Returns what the network gave in SI units."""
        return outputs if self.network.in_units else self.changes.inverse(outputs)

    def _scaled(self, contacts: Contacts | None) -> Contacts | None:
        """Returns contacts as the network takes them. Scaled are their numbers alone, and zeros where there is none."""
        if contacts is None or not self.network.contact_channels:
            return None
        if self.contacts is None:
            return contacts
        geometry = torch.where(contacts.valid[..., None], self.contacts(contacts.geometry), 0.0)
        return contacts._replace(geometry=geometry)


def _last(outputs: Tensor, length: Tensor | None) -> Tensor:
    """Returns the output (B, P) for the last frame that counts of (B, T, P)."""
    if length is None:
        return outputs[:, -1]
    places = (length - 1).clamp(min=0)[:, None, None].expand(-1, 1, outputs.shape[-1])
    return torch.gather(outputs, 1, places)[:, 0]
