"""A step of the network ``ContactImpulses``, as kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import newton
import torch
import warp as wp
from torch import nn

from lab_newton.nerd.impulses import bodies_kernels as bodies
from lab_newton.nerd.impulses import rounds_kernels as rounds
from lab_newton.nerd.impulses.parts import Parts
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.networks.impulses import ContactImpulses

_THREADS = 1 << 15
"""Threads that share a list of contacts on a GPU, at most: with 64 units of a layer it has enough to do."""


class ImpulseStep:
    """Moves all worlds by a learned :class:`~lab_newton.nerd.ContactImpulses`, whose weights it reads where they lie.

    It computes the same as the network, in kernels: what the network computes for every place where there might be a
    contact is done for the contacts that there are.

    Args:
        model: Worlds with one robot each.
        learned: A model of a robot with a free root, on the device of the worlds.
        tokens: (N, K, 15) contacts, kept up to date by somebody else.
    """

    def __init__(self, model: newton.Model, learned: NeRDModel, tokens: wp.array) -> None:
        network = learned.network
        assert isinstance(network, ContactImpulses) and learned.robot is not None and learned.robot.tree.free_root
        self._device = model.device
        self._dt = learned.layout.dt
        self._num_worlds = model.world_count
        self._num_bodies = model.body_count // model.world_count
        self._num_positions = learned.layout.num_positions
        self._tokens = tokens
        self._robot = Parts(learned.robot).struct(model, learned.layout)
        worlds, dofs, parts = self._num_worlds, learned.layout.num_velocities, len(self._robot.body)
        self._shape, self._parts = (dofs, worlds), (parts, worlds)

        def zeros(*shape: int, dtype: Any = wp.float32) -> wp.array:
            return wp.zeros(shape, dtype=dtype, device=model.device)

        self._com, self._inertia = zeros(parts, worlds, dtype=wp.vec3), zeros(parts, worlds, dtype=wp.mat33)
        self._motion, self._force_of_parts = (zeros(parts, worlds, dtype=wp.spatial_vector) for _ in range(2))
        self._column, self._carried = (zeros(dofs, worlds, dtype=wp.spatial_vector) for _ in range(2))
        self._velocity, self._force, self._free, self._change = (zeros(dofs, worlds) for _ in range(4))
        self._nothing = zeros(dofs, worlds)
        self._matrix, self._response = zeros(dofs, dofs, worlds), zeros(dofs, dofs, worlds)
        limited = [6 + joint for joint in network.limited.tolist()]
        self._limited = wp.array(limited, dtype=wp.int32, device=model.device)
        self._limits = wp.array(network.limits.cpu().numpy(), dtype=wp.vec2, device=model.device)
        memory = network.memory
        self._contacts = _Rounds([*network.contact_rounds], 3, 15 + memory, tokens.shape[1], self._shape, model.device)
        self._ends = _Rounds([*network.limit_rounds], 1, 4 + memory, len(limited), self._shape, model.device)

    def __call__(self, state_in: newton.State, effort: wp.array, joint_q: wp.array, joint_qd: wp.array) -> None:
        """Writes poses and velocities at the end of a step that begins with ``state_in``; launches kernels only."""
        state = bodies.State()
        state.body_q, state.joint_q, state.joint_qd = state_in.body_q, state_in.joint_q, state_in.joint_qd
        state.effort = effort
        self._find_response(state)
        self._list_places(state)
        contacts, ends = self._contacts, self._ends
        wp.copy(self._change, self._free)
        for look, press in zip(contacts.layers, ends.layers, strict=True):
            seen = [self._velocity, self._change]
            contacts.launch(rounds.look_at_contacts, [*seen, self._dt], [contacts.inputs])
            ends.launch(rounds.look_at_limits, seen, [ends.inputs])
            contacts.apply(look)
            ends.apply(press)
            self._launch(rounds.gather_forces, self._shape, [contacts.places, ends.places], [self._force])
            self._launch(bodies.respond, self._shape, [self._response, self._force, 1.0, self._free], [self._change])
        self._launch(bodies.move, self._num_worlds, [state, self._robot, self._dt, self._change], [joint_q, joint_qd])

    def _find_response(self, state: Any) -> None:
        """Finds what a force does to velocities, and how they change without contacts."""
        robot, shape = self._robot, self._shape
        where = [state, robot, self._num_bodies]
        self._launch(bodies.place_parts, self._parts, where, [self._com, self._inertia])
        self._launch(bodies.find_columns, shape, where, [self._column, self._velocity])
        moving = [self._column, self._velocity]
        self._launch(bodies.find_part_motions, self._parts, [robot, *moving], [self._motion])
        masses = [self._com, self._inertia]
        self._launch(
            bodies.find_part_forces, self._parts, [*where, *moving, self._motion, *masses], [self._force_of_parts]
        )
        self._launch(
            bodies.find_missing_forces,
            shape,
            [state, robot, *moving, *masses, self._force_of_parts],
            [self._carried, self._force],
        )
        self._launch(bodies.assemble_masses, shape, [robot, self._dt, self._column, self._carried], [self._matrix])
        self._launch(bodies.factorise, self._num_worlds, [], [self._matrix])
        self._launch(bodies.invert, shape, [self._matrix], [self._response])
        self._launch(bodies.respond, shape, [self._response, self._force, self._dt, self._nothing], [self._free])

    def _list_places(self, state: Any) -> None:
        contacts, ends, worlds = self._contacts, self._ends, self._num_worlds
        contacts.places.total.zero_()
        ends.places.total.zero_()
        self._launch(rounds.list_contacts, worlds, [self._tokens], [contacts.places])
        limited = [state.joint_q, self._num_positions, self._limited, self._limits]
        self._launch(rounds.list_limits, worlds, limited, [ends.places])
        contacts.launch(rounds.prepare_contacts, [self._tokens, self._robot.moves, self._column, self._response], [])
        ends.launch(rounds.prepare_limits, [self._response], [])

    def _launch(self, kernel: Any, dim: Any, inputs: list[Any], outputs: list[Any]) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self._device)


class _Rounds:
    """Places of one kind in all worlds, and the layers that look at them.

    Args:
        layers: Of each round: linear, activation, linear, activation, linear.
        rows: R, directions of an impulse.
        seen: Numbers that the first layer takes.
        capacity: Places of a world.
        shape: (V, N).
        device: Where all lies.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        rows: int,
        seen: int,
        capacity: int,
        shape: tuple[int, int],
        device: wp.Device,
    ) -> None:
        dofs, worlds = shape
        total = max(worlds * capacity, 1)
        sizes = [layer.out_features for layer in layers[0].children() if isinstance(layer, nn.Linear)]
        hidden, outputs = sizes[0], sizes[-1]
        self.layers = [_linear(layer, device) for layer in layers]
        self._device = device
        self._threads = min(total, _THREADS) if device.is_cuda else 1

        def zeros(*sizes: int, dtype: Any = wp.float32) -> wp.array:
            return wp.zeros(sizes, dtype=dtype, device=device)

        self.places = rounds.Places()
        self.places.total = zeros(1, dtype=wp.int32)
        self.places.world, self.places.slot = zeros(total, dtype=wp.int32), zeros(total, dtype=wp.int32)
        self.places.first, self.places.count = zeros(worlds, dtype=wp.int32), zeros(worlds, dtype=wp.int32)
        self.places.jacobian = zeros(rows, dofs if rows > 1 else 1, total if rows > 1 else 1)
        self.places.sign, self.places.gap = zeros(total), zeros(total)
        self.places.own, self.places.inverse = zeros(rows, rows, total), zeros(rows, rows, total)
        self.places.impulse, self.places.memory = zeros(rows, total), zeros(outputs - rows, total)
        self.inputs = zeros(seen, total)
        self._hidden = [zeros(hidden, total) for _ in range(2)]
        self._outputs = zeros(outputs, total)

    def launch(self, kernel: Any, inputs: list[Any], outputs: list[Any]) -> None:
        """Launches a kernel over the places that there are."""
        arguments = [*inputs, self._threads, self.places, *outputs]
        wp.launch(kernel, dim=self._threads, inputs=arguments, device=self._device)

    def apply(self, layer: list[tuple[wp.array, wp.array]]) -> None:
        """Changes impulses by what three linear layers say of :attr:`inputs`."""
        values = [self.inputs, *self._hidden, self._outputs]
        for i, (weight, bias) in enumerate(layer):
            units = values[i + 1].shape[0]
            wp.launch(
                rounds.apply_layer,
                dim=(len(bias) // rounds.UNITS, self._threads),
                inputs=[self.places.total, values[i], weight, bias, units, i < 2, self._threads],
                outputs=[values[i + 1]],
                device=self._device,
            )
        wp.launch(
            rounds.push, dim=self._threads, inputs=[self._threads, self._outputs, self.places], device=self._device
        )


def _linear(layers: nn.Module, device: wp.Device) -> list[tuple[wp.array, wp.array]]:
    """Returns weights (I, O) and biases (O,) of the linear ones of ``layers``, with zeros that fill the last thread."""
    found = []
    for layer in layers.children():
        if isinstance(layer, nn.Linear):
            filled = (0, -layer.out_features % rounds.UNITS)
            weight, bias = (torch.nn.functional.pad(x.detach().cpu(), filled) for x in (layer.weight.T, layer.bias))
            found.append((_array(weight, device), _array(bias, device)))
    return found


def _array(values: torch.Tensor, device: wp.Device) -> wp.array:
    return wp.array(values.contiguous().numpy(), dtype=wp.float32, device=device)
