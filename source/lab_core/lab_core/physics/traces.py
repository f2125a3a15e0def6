"""Buffers of what happens in the substeps of a step."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from lab_core.errors import LabError, unknown_name_message

ENTERING = "applied_effort"
"""The quantity that enters the solver; all others are what a substep led to."""
ENTITY_FIELDS = (ENTERING, "joint_pos", "joint_vel", "root_link_pose_w", "root_com_vel_w")
"""What can be traced of an entity."""
Trace = tuple[str, str]
"""Owner (entity or sensor) and field."""


class TraceBuffers:
    """The buffers behind :meth:`PhysicsBackend.trace`, for a backend that fills them.

    Attributes:
        rows: Trace -> (N, K, ...), in the order in which they were asked for.
        sources: Trace -> (N, ...) live buffer of one substep.
        substeps: K; 0 while nothing is traced.
    """

    def __init__(self) -> None:
        self.rows: dict[Trace, torch.Tensor] = {}
        self.sources: dict[Trace, torch.Tensor] = {}
        self.substeps = 0

    def request(self, owner: str, field: str, substeps: int, sources: Mapping[str, Mapping[str, torch.Tensor]]) -> bool:
        """Makes the buffer of a quantity, unless it is there.

        Args:
            owner: Name of an entity or a sensor.
            field: Its quantity.
            substeps: K.
            sources: Owner -> field -> (N, ...), all that can be traced.

        Returns:
            Whether it is new.

        Raises:
            LabError: there is no such quantity, or others are traced with another K.
        """
        if owner not in sources:
            raise LabError(f"Substeps cannot be traced: {unknown_name_message('entity or sensor', owner, sources)}")
        if field not in sources[owner]:
            known = unknown_name_message(f"quantity of {owner!r}", field, sources[owner])
            raise LabError(f"Substeps cannot be traced: {known}")
        if substeps < 1 or self.substeps not in (0, substeps):
            raise LabError(
                f"Traces of {owner!r} were asked for with {substeps} substeps; they need at least 1, and as many as "
                f"those that there are ({self.substeps})."
            )
        if (owner, field) in self.rows:
            return False
        self.substeps = substeps
        source = sources[owner][field]
        with torch.inference_mode(False):
            rows = torch.zeros(len(source), substeps, *source.shape[1:], dtype=source.dtype, device=source.device)
        self.rows[owner, field], self.sources[owner, field] = rows, source
        return True

    def record(self, row: int, entering: bool) -> None:
        """Copies the live values into row ``row`` (counted on, around the end): those that enter the solver, or those
        that it led to."""
        for trace, rows in self.rows.items():
            if (trace[1] == ENTERING) == entering:
                rows[:, row % self.substeps].copy_(self.sources[trace])
