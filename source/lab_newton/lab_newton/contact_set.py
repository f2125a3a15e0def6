"""Contacts from geometry, in places of each world: what a learned model sees, and what gaps are read from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import newton
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.sensors import TOKEN_SIZE, ContactSetCfg
from lab_newton import contact_set_kernels as kernels
from lab_newton.arrays import present


@dataclass(frozen=True)
class ContactSearch:
    """Which contacts to find."""

    distance: float
    """Gap between surfaces up to which they count [m]."""
    capacity: int | None = None
    """Places per world; None: as many as whoever else looks asks for."""

    def check(self, what: str) -> None:
        """Refuses numbers that cannot be; ``what`` is the setting that they come from.

        Raises:
            ConfigError: the message names the field.
        """
        if not self.distance > 0.0:
            raise ConfigError(f"{what}.distance must be positive, got {self.distance}.")
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(f"{what}.capacity must be at least 1, got {self.capacity}.")


class ContactSet:
    """Contacts of one articulation in all worlds, by a deterministic collision pipeline of its own.

    It reads where bodies are; whoever moves them does not matter. See :class:`lab_core.sensors.ContactSetData` for
    what a token is.

    Args:
        model: Worlds that hold the same.
        search: Which contacts to find.
        bodies: Places of the articulation's bodies in the slice of a world; None: all of them.
    """

    def __init__(self, model: newton.Model, search: ContactSearch, bodies: Sequence[int] | None = None) -> None:
        self.search = search
        self._model = _with_gap(model, search.distance)
        worlds = model.world_count
        capacity = search.capacity or ContactSetCfg.capacity
        device = model.device
        self._pipeline = newton.CollisionPipeline(
            self._model, rigid_contact_max=worlds * capacity, deterministic=True, contact_matching="disabled"
        )
        self.contacts = self._pipeline.contacts()
        """Of all worlds in one pool."""
        part_of, self.parts, self.root = find_parts(model, bodies)
        self._part_of = wp.array(part_of, dtype=wp.int32, device=device)
        self.gaps = wp.zeros(self.contacts.rigid_contact_max, dtype=wp.float32, device=device)
        """(M,) distance between the surfaces of each contact of the pool [m]."""
        self.tokens = wp.zeros((worlds, capacity, TOKEN_SIZE), dtype=wp.float32, device=device)
        """(N, K, 15), those of the latest :meth:`update`."""
        self.excess = wp.zeros(worlds, dtype=wp.float32, device=device)
        """(N,) contacts that found no place."""
        self._counts = wp.zeros(worlds, dtype=wp.int32, device=device)
        self._sides = wp.zeros((worlds, capacity), dtype=wp.int32, device=device)
        self._worst = wp.zeros(3, dtype=wp.int32, device=device)
        triangles = self._pipeline.narrow_phase.triangle_pairs_count  # None where nothing is made of triangles
        self._triangles = wp.zeros(1, dtype=wp.int32, device=device) if triangles is None else triangles
        self._pool = _pool(self.contacts)

    @property
    def torch_tokens(self) -> torch.Tensor:
        """:attr:`tokens` as a tensor in the same memory."""
        return wp.to_torch(self.tokens)

    def update(self, state: newton.State) -> None:
        """Finds the contacts of ``state``, whose bodies are where its joints put them. Launches kernels only."""
        self._pipeline.collide(state, self.contacts)
        model, worlds, device = self._model, len(self.excess), self._part_of.device
        self._counts.zero_()
        wp.launch(
            kernels.collect,
            dim=self.contacts.rigid_contact_max,
            inputs=[self._pool, model.shape_body, state.body_q, self._part_of, self.search.distance],
            outputs=[self.gaps, self._counts, self._sides],
            device=device,
        )
        wp.launch(
            kernels.sort,
            dim=worlds,
            inputs=[self._pool, self._triangles, self._pipeline.narrow_phase.max_triangle_pairs, self._counts],
            outputs=[self._sides, self.excess, self._worst],
            device=device,
        )
        wp.launch(
            kernels.encode,
            dim=self.tokens.shape[:2],
            inputs=[
                self._pool,
                model.shape_body,
                state.body_q,
                state.body_qd,
                model.body_com,
                self._part_of,
                self.root,
                self.gaps,
                self._counts,
                self._sides,
            ],
            outputs=[self.tokens],
            device=device,
        )

    def overflows(self) -> dict[str, str]:
        """Reads and forgets what found no place since the last call; see :meth:`lab_newton.solver.Solver.overflows`."""
        in_world, in_pool, triangles = (int(most) for most in self._worst.numpy())
        self._worst.zero_()
        worlds, capacity = self.tokens.shape[:2]
        found = {}
        if in_world > capacity:
            found["contact set"] = f"a world has room for {capacity} contacts and needs {in_world}: raise its capacity"
        if in_pool > self.contacts.rigid_contact_max:
            needed = -(-in_pool // worlds)
            found["pool of the contact set"] = (
                f"all {worlds} worlds together have room for {worlds * capacity} contacts and need {in_pool}: "
                f"raise the capacity to at least {needed}"
            )
        if triangles > self._pipeline.narrow_phase.max_triangle_pairs:
            found["triangles of the contact set"] = (
                f"there is room for {self._pipeline.narrow_phase.max_triangle_pairs} and {triangles} are near: use "
                "larger triangles, or fewer worlds"
            )
        return found


def find_parts(model: newton.Model, bodies: Sequence[int] | None = None) -> tuple[list[int], list[str], int]:
    """Returns what of an articulation moves as one.

    Args:
        model: Worlds that hold the same.
        bodies: Places of the articulation's bodies in the slice of a world; None: all of them.

    Returns:
        Part of each body of a world, -1 for what is none; name of each part, the root first if it is free, then one per
        moving joint in their order; place of the root.
    """
    worlds = model.world_count
    own = set(range(model.body_count // worlds) if bodies is None else bodies)
    kinds, parents, children = (
        present(array).numpy()[: model.joint_count // worlds]
        for array in (model.joint_type, model.joint_parent, model.joint_child)
    )
    part_of, names, root = [-1] * (model.body_count // worlds), [], -1
    for kind, parent, child in zip(kinds, parents, children, strict=True):
        if child not in own:
            continue
        root = int(child) if root < 0 else root
        if newton.JointType(kind) != newton.JointType.FIXED:
            part_of[child] = len(names)
            names.append(model.body_label[child].rsplit("/", 1)[-1])
        elif parent >= 0:
            part_of[child] = part_of[parent]
    return part_of, names, root


def _with_gap(model: newton.Model, distance: float) -> newton.Model:
    """Returns the same model, whose shapes count as contacts at another distance; no array is shared that differs."""
    other = copy.copy(model)
    other.shape_gap = wp.full(model.shape_count, 0.5 * distance, dtype=wp.float32, device=model.device)
    return other


def _pool(contacts: newton.Contacts) -> Any:
    pool = kernels.ContactPool()
    pool.count = contacts.rigid_contact_count
    for name in ("shape0", "shape1", "point0", "point1", "normal", "margin0", "margin1"):
        setattr(pool, name, getattr(contacts, f"rigid_contact_{name}"))
    return pool


def share_contact_set(
    model: newton.Model,
    present_set: ContactSet | None,
    wanted: Sequence[tuple[str, ContactSearch, Sequence[int]]],
) -> ContactSet | None:
    """Returns the one set that all look at.

    Args:
        model: Worlds that hold the same.
        present_set: That of a solver which looks at contacts itself.
        wanted: Who else looks, at what, and on which bodies.

    Raises:
        ConfigError: they ask for different ones.
    """
    for what, search, _ in wanted:
        search.check(what)
    searches = [search for _, search, _ in wanted] + ([present_set.search] if present_set else [])
    if not searches:
        return None
    for field in ("distance", "capacity"):
        asked = {f"{what}.{field}": getattr(search, field) for what, search, _ in wanted}
        if present_set is not None:
            asked[f"{field} of the solver"] = getattr(present_set.search, field)
        asked = {what: value for what, value in asked.items() if value is not None}
        if len(set(asked.values())) > 1:
            listed = ", ".join(f"{what} is {value}" for what, value in asked.items())
            raise ConfigError(f"All who look at contacts share one set, and they ask for different ones: {listed}.")
    if len({tuple(bodies) for _, _, bodies in wanted}) > 1:
        listed = ", ".join(what for what, _, _ in wanted)
        raise ConfigError(f"All who look at contacts look at one entity, these look at several: {listed}.")
    if present_set is not None:
        return present_set
    capacity = next((search.capacity for search in searches if search.capacity is not None), None)
    return ContactSet(model, ContactSearch(searches[0].distance, capacity), wanted[0][2])
