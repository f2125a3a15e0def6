"""What happens in the substeps of a step, copied inside the physics stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import torch
import warp as wp

from lab_core.physics import ENTERING, ENTITY_FIELDS, TraceBuffers
from lab_core.sensors import SensorData
from lab_newton.arrays import present
from lab_newton.state import trace_kernels as kernels
from lab_newton.state.entity import NewtonEntity


class SubstepTraces:
    """Fills the traces that somebody asked for, and launches nothing where nobody did.

    Args:
        entities: The entities by name; may still grow.
        sensors: Measurements by name; may still grow.
    """

    def __init__(
        self, entities: Mapping[str, NewtonEntity], sensors: Mapping[str, SensorData], num_envs: int, device: wp.Device
    ) -> None:
        self._entities = entities
        self._sensors = sensors
        self._num_envs = num_envs
        self._device = device
        self._buffers = TraceBuffers()
        self._columns: dict[tuple[str, str], wp.array] = {}
        self._first_row = wp.zeros(1, dtype=wp.int32, device=device)

    @property
    def rows(self) -> Mapping[tuple[str, str], torch.Tensor]:
        """(Owner, field) -> (N, K, ...)."""
        return self._buffers.rows

    def request(self, owner: str, field: str, substeps: int) -> bool:
        """As :meth:`TraceBuffers.request`."""
        sources: dict[str, dict[str, torch.Tensor]] = {
            name: {field: getattr(data, field) for field in data.traceable} for name, data in self._sensors.items()
        }
        for name, entity in self._entities.items():
            there = [quantity for quantity in ENTITY_FIELDS if quantity in entity.data.buffers()]
            fields = {quantity: getattr(entity.data, quantity) for quantity in there}
            sources[name] = sources.get(name, {}) | fields  # a sensor may be called like an entity
        is_new = self._buffers.request(owner, field, substeps, sources)
        if is_new:
            columns = self._columns_of(owner, field)
            self._columns[owner, field] = wp.array(columns, dtype=wp.int32, device=self._device)
        return is_new

    def begin(self, substeps: int) -> None:
        """Before the first of ``substeps`` substeps. A whole step begins with the first row, a shorter one goes on."""
        if self._buffers.rows and substeps >= self._buffers.substeps:
            self._first_row.zero_()

    def before_solver(self, substep: int, control: newton.Control) -> None:
        """When the efforts of a substep are known."""
        for owner, field in self._buffers.rows:
            if field == ENTERING:
                self._copy(owner, field, substep, present(control.joint_f))

    def after_solver(self, substep: int, state: newton.State) -> None:
        """When a substep has been made."""
        for owner, field in self._buffers.rows:
            if field != ENTERING:
                self._copy(owner, field, substep, self._source(owner, field, state))

    def end(self, substeps: int) -> None:
        """After the last substep."""
        if self._buffers.rows:
            wp.launch(
                kernels.advance_row,
                dim=1,
                inputs=[substeps, self._buffers.substeps],
                outputs=[self._first_row],
                device=self._device,
            )

    def _copy(self, owner: str, field: str, substep: int, source: wp.array) -> None:
        columns, rows = self._columns[owner, field], self._buffers.rows[owner, field]
        wp.launch(
            kernels.copy_row,
            dim=(self._num_envs, len(columns)),
            inputs=[source.reshape((self._num_envs, -1)), columns, self._first_row, substep],
            outputs=[wp.from_torch(rows.view(self._num_envs, self._buffers.substeps, -1))],
            device=self._device,
        )

    def _source(self, owner: str, field: str, state: newton.State) -> wp.array:
        """Where a quantity lies that a substep led to."""
        if field == "joint_pos" or field == "root_link_pose_w" and self._entities[owner].layout.floating:
            return present(state.joint_q)
        if field == "joint_vel" or field == "root_com_vel_w" and self._entities[owner].layout.floating:
            return present(state.joint_qd)
        # A contact force, or the root of an entity that is fixed.
        return wp.from_torch(self._buffers.sources[owner, field].view(-1))

    def _columns_of(self, owner: str, field: str) -> Any:
        """Which numbers of a world are copied."""
        source = self._buffers.sources[owner, field]
        if field not in ENTITY_FIELDS:
            return range(source[0].numel())
        layout = self._entities[owner].layout
        if field == "joint_pos":
            return layout.joint_coord
        if field in (ENTERING, "joint_vel"):
            return layout.joint_dof
        width = source.shape[1]
        if not layout.floating:
            return range(width)
        first = layout.root_coord if field == "root_link_pose_w" else layout.root_dof
        return range(first, first + width)
