"""A step of the network ``ContactImpulses``, as kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import newton
import torch
import warp as wp
from torch import nn

from lab_newton.nerd.impulses import bodies_kernels as bodies
from lab_newton.nerd.impulses import places_kernels as listing
from lab_newton.nerd.impulses import rounds_kernels as rounds
from lab_newton.nerd.impulses.inverse_kernels import make_inverse
from lab_newton.nerd.impulses.parts import Parts
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.networks.impulses import ContactImpulses

_THREADS = 1 << 15
"""Threads that share a list of contacts on a GPU, at most: with 64 units of a layer it has enough to do."""
_TOGETHER = 32
"""Threads that invert a matrix together."""


class ImpulseStep:
    """Moves all worlds by a learned :class:`~lab_newton.nerd.ContactImpulses`, whose weights it copies.

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
        self._unit = wp.array(torch.eye(dofs).numpy(), dtype=wp.float32, device=model.device)
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
        contacts, ends, change = self._contacts, self._ends, self._change
        both, threads = [contacts.places, ends.places], contacts.places.threads + ends.places.threads
        inputs = [contacts.inputs, ends.inputs]
        self._launch(listing.find_masses, threads, [self._response, *both], [])
        for layers in zip(contacts.layers, ends.layers, strict=True):
            self._launch(rounds.look, threads, [self._velocity, change, self._dt, *both], inputs)
            *hidden, last = zip(*layers, strict=True)
            for pair, outputs in zip(hidden, zip(contacts.hidden, ends.hidden, strict=True), strict=True):
                self._launch(rounds.apply_layers, (_blocks(pair), threads), [*both, *pair], [*outputs])
            self._launch(rounds.push, (_blocks(last), threads), [*both, *last], [])
            self._launch(rounds.gather_changes, self._shape, [*both, self._response, self._free], [change])
        self._launch(bodies.move, self._num_worlds, [state, self._robot, self._dt, change], [joint_q, joint_qd])

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
        wp.launch_tiled(
            make_inverse(shape[0]),
            dim=[self._num_worlds],
            inputs=[self._matrix, self._unit],
            outputs=[self._response],
            block_dim=_TOGETHER,
            device=self._device,
        )
        self._launch(bodies.respond, shape, [self._response, self._force, self._dt], [self._free, self._change])

    def _list_places(self, state: Any) -> None:
        contacts, ends, worlds = self._contacts, self._ends, self._num_worlds
        contacts.places.total.zero_()
        ends.places.total.zero_()
        self._launch(listing.list_contacts, worlds, [self._tokens], [contacts.places])
        limited = [state.joint_q, self._num_positions, self._limited, self._limits]
        self._launch(listing.list_limits, worlds, limited, [ends.places])
        shape = self._shape[0], contacts.places.threads
        self._launch(
            listing.find_jacobians, shape, [self._tokens, self._robot.moves, self._column, contacts.places], []
        )
        self._launch(listing.find_reach, shape, [self._response, contacts.places], [])

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

        def zeros(*sizes: int, dtype: Any = wp.float32) -> wp.array:
            return wp.zeros(sizes, dtype=dtype, device=device)

        self.places = listing.Places()
        self.places.threads = min(total, _THREADS) if device.is_cuda else 1
        self.places.total = zeros(1, dtype=wp.int32)
        self.places.world, self.places.slot = zeros(total, dtype=wp.int32), zeros(total, dtype=wp.int32)
        self.places.first, self.places.count = zeros(worlds, dtype=wp.int32), zeros(worlds, dtype=wp.int32)
        wide = (rows, dofs, total) if rows > 1 else (1, 1, 1)
        self.places.jacobian, self.places.reach = zeros(*wide), zeros(*wide)
        self.places.sign, self.places.gap = zeros(total), zeros(total)
        self.places.own, self.places.inverse = zeros(rows, rows, total), zeros(rows, rows, total)
        self.places.impulse, self.places.memory = zeros(rows, total), zeros(outputs - rows, total)
        self.inputs = zeros(seen, total)
        self.hidden = [zeros(hidden, total) for _ in range(2)]
        self.layers = [_linear(layer, [self.inputs, *self.hidden], device) for layer in layers]


def _blocks(layers: Sequence[Any]) -> int:
    """Returns how many times ``UNITS`` units the widest of ``layers`` has."""
    return max(len(layer.bias) for layer in layers) // rounds.UNITS


def _linear(layers: nn.Module, inputs: Sequence[wp.array], device: wp.Device) -> list[Any]:
    """Returns the linear ones of ``layers``, which take ``inputs``, with zeros that fill the last thread."""
    linear = [layer for layer in layers.children() if isinstance(layer, nn.Linear)]
    found = []
    for layer, values in zip(linear, inputs, strict=True):
        filled = (0, -layer.out_features % rounds.UNITS)
        weight, bias = (torch.nn.functional.pad(x.detach().cpu(), filled) for x in (layer.weight.T, layer.bias))
        made = rounds.Layer()
        made.inputs, made.weight, made.bias = values, _array(weight, device), _array(bias, device)
        found.append(made)
    return found


def _array(values: torch.Tensor, device: wp.Device) -> wp.array:
    return wp.array(values.contiguous().numpy(), dtype=wp.float32, device=device)
