"""The constraint problem in double precision, to tell how good a solution is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mujoco_warp import Data, Model


@dataclass
class ConstraintProblem:
    """What one world minimises over its acceleration, of V degrees of freedom with R rows."""

    inertia: np.ndarray
    """(V, V)."""
    smooth: np.ndarray
    """(V,) forces but those of constraints."""
    jacobian: np.ndarray
    """(R, V)."""
    reference: np.ndarray
    stiffness: np.ndarray
    friction: np.ndarray
    """(R,) of dry friction."""
    kinds: tuple[int, int]
    """Number of equalities, which come first, and of rows of dry friction, which follow."""
    contacts: list[tuple[list[int], np.ndarray]]
    """Rows of each elliptic contact, and the factors that make its cone circular."""

    def cost_and_gradient(self, acceleration: np.ndarray) -> tuple[float, np.ndarray]:
        """Returns the cost and its gradient (V,): quadratics of rows and of cones, as MuJoCo's documentation of the
        primal problem has them (Computation, "Friction cones")."""
        x = self.jacobian @ acceleration - self.reference
        force, cost = np.zeros_like(x), 0.5 * acceleration @ self.inertia @ acceleration - acceleration @ self.smooth
        elliptic = {row for rows, _ in self.contacts for row in rows}
        equalities, frictions = self.kinds
        for row in range(len(x)):
            stiffness, limit = self.stiffness[row], self.friction[row]
            if equalities <= row < equalities + frictions and abs(x[row]) * stiffness > limit:
                cost += limit * (abs(x[row]) - 0.5 * limit / stiffness)
                force[row] = -np.sign(x[row]) * limit
            elif row not in elliptic and (row < equalities + frictions or x[row] < 0.0):
                cost += 0.5 * stiffness * x[row] ** 2
                force[row] = -stiffness * x[row]
        for rows, scale in self.contacts:
            mu, u = scale[0], scale * x[rows]
            tangent = np.linalg.norm(u[1:])
            if u[0] >= mu * tangent:
                continue
            if mu * u[0] + tangent <= 0.0:
                cost += 0.5 * self.stiffness[rows] @ x[rows] ** 2
                force[rows] = -self.stiffness[rows] * x[rows]
                continue
            stiffness = self.stiffness[rows[0]] / (mu**2 * (1.0 + mu**2))
            cost += 0.5 * stiffness * (u[0] - mu * tangent) ** 2
            direction = np.concatenate([[1.0], -mu * u[1:] / tangent])
            force[rows] = -scale * direction * stiffness * (u[0] - mu * tangent)
        return float(cost), self.inertia @ acceleration - self.smooth - self.jacobian.T @ force

    def rounding(self, acceleration: np.ndarray) -> float:
        """Returns what a gradient may be because it sums, in single precision, terms that cancel."""
        x = self.jacobian @ acceleration - self.reference
        terms = np.abs(self.jacobian.T) @ (self.stiffness * (np.abs(self.reference) + np.abs(x)))
        terms += np.abs(self.inertia) @ np.abs(acceleration) + np.abs(self.smooth)
        return 1e-6 * float(np.linalg.norm(terms)) + 1e-5 * float(np.trace(self.inertia))


def constraint_problems(m: Model, d: Data) -> list[ConstraintProblem]:
    """Returns the problems of all worlds as they stand."""
    number, address, column = (getattr(m, f"M_{name}").numpy() for name in ("rownnz", "rowadr", "colind"))
    invsqrt = float(m.opt.impratio_invsqrt.numpy()[0])
    kinds, objects = d.efc.type.numpy(), d.efc.id.numpy()
    found = []
    for world in range(d.nworld):
        inertia, packed = np.zeros((m.nv, m.nv)), d.M.numpy()[world]
        for row in range(m.nv):
            for k in range(address[row], address[row] + number[row]):
                inertia[row, column[k]] = inertia[column[k], row] = packed[k]
        rows = min(int(d.nefc.numpy()[world]), d.njmax)
        contacts = []
        for row in range(rows):
            contact = objects[world, row]
            if kinds[world, row] == 7 and d.contact.efc_address.numpy()[contact, 0] == row:
                dim = int(d.contact.dim.numpy()[contact])
                friction = d.contact.friction.numpy()[contact].astype(float)
                scale = np.concatenate([[friction[0] * invsqrt], friction[: dim - 1]])
                contacts.append((list(d.contact.efc_address.numpy()[contact, :dim]), scale))
        arrays = (array.numpy()[world, :rows].astype(float) for array in (d.efc.aref, d.efc.D, d.efc.frictionloss))
        found.append(
            ConstraintProblem(
                inertia,
                d.qfrc_smooth.numpy()[world].astype(float)[: m.nv],
                d.efc.J.numpy()[world, :rows, : m.nv].astype(float),
                *arrays,
                kinds=(int(d.ne.numpy()[world]), int(d.nf.numpy()[world])),
                contacts=contacts,
            )
        )
    return found
