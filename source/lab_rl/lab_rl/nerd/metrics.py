"""How well a model predicts one physics step that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_newton.nerd import NeRDModel, Normaliser
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.windows import window_starts

_FRAMES_AT_ONCE = 65_536

ABLATIONS = ("contacts", "history", "efforts", "velocities")
"""What a model can be asked to predict without: no contact at all, the latest frame alone, or the mean of all efforts
or velocities in the place of each."""
_KINDS = {"efforts": "effort", "velocities": "velocity"}


@dataclass(frozen=True)
class OneStepError:
    """Mean squared errors of changes over a physics step, each divided by the variance of that change in training.

    Figures compare only where :attr:`scale` is the same.
    """

    scale: str
    """Tells the normalisation from others."""
    count: int
    """Steps that were predicted."""
    poses: Mapping[str, float]
    """Of each change of pose, which follows from the predicted velocity by the rule of the model."""
    velocities: Mapping[str, float]
    """Of each change of velocity."""

    @property
    def all_channels(self) -> float:
        """Mean over changes of pose and velocity: the "normalised MSE"."""
        return _mean([*self.poses.values(), *self.velocities.values()])

    @property
    def velocity(self) -> float:
        """Mean over changes of velocity, the only ones that the network predicts."""
        return _mean(list(self.velocities.values()))

    @property
    def velocity_rmse(self) -> float:
        """Root of :attr:`velocity`: in standard deviations of a change of velocity."""
        return math.sqrt(self.velocity)

    @property
    def name(self) -> str:
        """What to call :attr:`all_channels` where it is compared."""
        return f"nmse[{self.scale}]"


class OneStepEvaluator:
    """Predicts the last step of windows of recorded steps.

    Args:
        steps: Held-out steps.
        context: Frames that the model looks at.
        pose_scale: (V,) standard deviation of changes of pose in the training data.
    """

    def __init__(self, steps: PhysicsSteps, context: int, pose_scale: Tensor) -> None:
        self._steps = steps
        self._starts = window_starts(steps, context)
        self._rows_at_once = max(_FRAMES_AT_ONCE // context, 1)
        self._offsets = torch.arange(context, device=steps.q.device)
        self._pose_scale = pose_scale

    @torch.no_grad()
    def __call__(self, model: NeRDModel, regime: str | None = None, without: str | None = None) -> OneStepError:
        """Returns the errors of ``model`` over all steps, or those of one regime; NaN where it has none.

        Args:
            model: The model.
            regime: Label of the steps; None: all.
            without: One of :data:`ABLATIONS`, kept from the model to see what it makes of it.
        """
        steps, starts = self._steps, self._starts
        if regime is not None:
            starts = starts[steps.regime[starts] == steps.regimes.index(regime)]
        names = model.representation
        sums = torch.zeros(2, model.layout.num_velocities, dtype=torch.float64, device=starts.device)
        for chunk in starts.split(self._rows_at_once):
            sums += self._squared(model, chunk[:, None] + self._offsets, without).sum(dim=1)
        poses, velocities = (sums / len(starts)).tolist()
        return OneStepError(
            scale=scale_name(model, self._pose_scale),
            count=len(starts),
            poses=dict(zip(names.pose_names, poses, strict=True)),
            velocities=dict(zip(names.change_names, velocities, strict=True)),
        )

    def _squared(self, model: NeRDModel, rows: Tensor, without: str | None) -> Tensor:
        """Returns (2, B, V): squared errors of poses and velocities."""
        steps, representation = self._steps, model.representation
        if without == "history":
            rows = rows[:, -1:]
        contacts = steps.contacts(rows) if model.network.contact_channels else None
        if contacts is not None and without == "contacts":
            contacts = contacts._replace(valid=torch.zeros_like(contacts.valid))
        features = representation.features(steps.q[rows], steps.qd[rows], steps.effort[rows])
        if without in _KINDS:
            hidden = [kind == _KINDS[without] for kind in representation.feature_kinds]
            features = torch.where(torch.tensor(hidden, device=features.device), model.inputs.mean, features)
        change = model.predict(features, contacts)
        last = rows[:, -1]
        q, qd = steps.q[last], steps.qd[last]
        q_next, _ = representation.apply_change(q, qd, change)
        poses = representation.pose_change(steps.q_next[last], q_next) / self._pose_scale
        velocities = (change - representation.velocity_change(q, qd, steps.qd_next[last])) / model.changes.std
        return torch.stack((poses, velocities)).to(torch.float64).square()


def ablations_of(model: NeRDModel) -> tuple[str, ...]:
    """Returns those of :data:`ABLATIONS` that take something from a model."""
    sees = {
        "contacts": model.network.contact_channels > 0,
        "history": model.network.context > 1,
        "efforts": "effort" in model.representation.feature_kinds,
        "velocities": True,
    }
    return tuple(name for name in ABLATIONS if sees[name])


def scale_name(model: NeRDModel, pose_scale: Tensor) -> str:
    """Returns what tells the scale of a model's figures from others."""
    poses = Normaliser(len(pose_scale))
    poses.std.copy_(pose_scale)
    return f"{model.changes.digest()[:6]}{poses.digest()[:6]}"


def check_comparable(errors: Mapping[str, OneStepError]) -> None:
    """Refuses to rank figures of different scales.

    Raises:
        LabError: which of them differ.
    """
    if len({error.scale for error in errors.values()}) > 1:
        told = ", ".join(f"{name}: {error.name}" for name, error in errors.items())
        raise LabError(f"These figures are normalised differently and do not compare ({told}).")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
