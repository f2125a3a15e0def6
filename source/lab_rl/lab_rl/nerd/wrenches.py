"""Wrenches that a model's motion implies, beside those that its teacher finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab_newton.nerd import (
    ContactPoints,
    JointWrenches,
    NeRDModel,
    Representation,
    WrenchReconstruction,
)
from lab_rl.nerd.interventions import GROUPS, WrenchError, intervene
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.solver_wrenches import SolverWrenches
from lab_rl.nerd.windows import window_starts


@dataclass(frozen=True)
class WrenchFigures:
    """How well wrenches follow from predictions, over a number of steps."""

    count: int
    errors: Mapping[str, WrenchError]
    """By what was recorded instead of predicted; the first one, ``"none"``, is of the model itself."""
    residual: float
    """Most by which M q'' + h and efforts with contacts differ in the row of a joint [N m or N]."""
    unexplained: tuple[float, float]
    """Root mean square of joint accelerations that neither efforts nor contacts explain, of predicted and of recorded
    motion [rad/s^2 or m/s^2]."""
    off: float
    """Most by which a velocity that the teacher's solver led to differs from the recorded one [m/s or rad/s]."""


def choose_steps(steps: PhysicsSteps, context: int, count: int, seed: int) -> dict[str, Tensor]:
    """Returns windows (B, context) of rows by regime, at most ``count`` of each, drawn with ``seed``; regimes that have
    none are left out."""
    device, starts = steps.q.device, window_starts(steps, context)
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for index, regime in enumerate(steps.regimes):
        mine = starts[steps.regime[starts] == index]
        if len(mine):
            chosen = mine[torch.randperm(len(mine), generator=generator)[:count].to(device)]
            found[regime] = chosen[:, None] + torch.arange(context, device=device)
    return found


@torch.no_grad()
def measure_wrenches(
    model: NeRDModel,
    steps: PhysicsSteps,
    chosen: Mapping[str, Tensor],
    reconstruction: WrenchReconstruction,
    solver: SolverWrenches,
) -> dict[str, WrenchFigures]:
    """Returns figures by regime.

    Args:
        model: Predicts from recorded windows.
        steps: Held out, on the model's device, with contacts where the robot touches anything.
        chosen: Which windows, see :func:`choose_steps`.
        reconstruction: Of the robot, on the same device.
        solver: What the teacher's solver found in the last steps of all these windows, in their order.
    """
    found, first = {}, 0
    for regime, rows in chosen.items():
        mine = solver.select(slice(first, first + len(rows)))
        found[regime] = _measure(model, steps, rows, reconstruction, mine)
        first += len(rows)
    return found


def _measure(
    model: NeRDModel,
    steps: PhysicsSteps,
    rows: Tensor,
    reconstruction: WrenchReconstruction,
    solver: SolverWrenches,
) -> WrenchFigures:
    representation, last = model.representation, rows[:, -1]
    q, qd, qd_next, effort = (value[last] for value in (steps.q, steps.qd, steps.qd_next, steps.effort))
    contacts = steps.contacts(rows) if model.network.contact_channels else None
    predicted = model.predict(representation.features(steps.q[rows], steps.qd[rows], steps.effort[rows]), contacts)
    touched = touched_points(steps, last, model.layout.floating)

    def reconstruct(velocity: Tensor) -> JointWrenches:
        return reconstruction(q, qd, velocity, effort, touched)

    recorded, learned = reconstruct(qd_next), reconstruct(representation.apply_change(q, qd, predicted)[1])
    truth = solver.force, solver.torque
    groups = groups_of(representation)
    return WrenchFigures(
        count=len(rows),
        errors=intervene(representation, (q, qd), predicted, qd_next, reconstruct, truth, groups),
        residual=float(learned.residual.max()),
        unexplained=(_joint_rms(learned, model), _joint_rms(recorded, model)),
        off=float(solver.off.max()),
    )


def _joint_rms(found: JointWrenches, model: NeRDModel) -> float:
    return float(found.deviation[..., 6 * model.layout.floating :].square().mean().sqrt())


def touched_points(steps: PhysicsSteps, rows: Tensor, floating: bool) -> ContactPoints:
    """Returns where the robot is touched in steps ``rows`` (B,), in as few places as they need; nowhere where no
    contacts were read or the root is fixed."""
    contacts = steps.contacts(rows)
    if contacts is None or not floating:
        tokens = torch.zeros(len(rows), 0, 15, device=steps.q.device)
        return ContactPoints.from_tokens(tokens, _still(steps.q, len(rows)))
    tokens = torch.cat((contacts.valid[..., None], contacts.owner[..., None], contacts.geometry), dim=-1)
    points = ContactPoints.from_tokens(tokens, steps.q[rows, :7])
    width = int(points.active.sum(1).max()) if points.active.numel() else 0
    places = torch.argsort((~points.active).to(torch.uint8), dim=1, stable=True)[:, :width]  # contacts first
    vectors = places[..., None].expand(-1, -1, 3)
    return ContactPoints(
        active=points.active.gather(1, places),
        part=points.part.gather(1, places),
        point=points.point.gather(1, vectors),
        normal=points.normal.gather(1, vectors),
    )


def groups_of(representation: Representation) -> dict[str, str]:
    """Returns the groups of :data:`~lab_rl.nerd.interventions.GROUPS` that a robot has; of another robot than a
    quadruped, every joint as a group of its own."""
    names = representation.change_names
    found = {group: pattern for group, pattern in GROUPS.items() if any(re.fullmatch(pattern, name) for name in names)}
    if any(group in found for group in ("hip abduction", "hip flexion", "knee")):
        return found
    joints = {name: re.escape(name) for name in names if name.startswith("velocity ")}
    everything = found.pop("all velocities")
    return {**found, **joints, "all velocities": everything}


def friction_of(fingerprint: Mapping[str, Any]) -> float:
    """Returns the greatest coefficient of friction of a fingerprint's materials: of two surfaces that touch, MuJoCo
    takes the greater one. 1 where there are none."""

    def coefficients(value: Any) -> list[float]:
        if isinstance(value, Mapping):
            own = [float(value["friction"])] if "friction" in value else []
            return own + [found for part in value.values() for found in coefficients(part)]
        return [found for part in value for found in coefficients(part)] if isinstance(value, list | tuple) else []

    return max(coefficients(fingerprint.get("materials", {})), default=1.0)


def _still(q: Tensor, count: int) -> Tensor:
    return torch.nn.functional.pad(torch.ones(count, 1, dtype=q.dtype, device=q.device), (6, 0))
