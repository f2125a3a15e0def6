"""Joints that follow another one: mimic joints of URDF files, joint equalities of MJCF files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationData
from lab_newton.robot_files.engine import mujoco
from lab_newton.robot_files.imported import ImportedFile

_ROUNDING = 1e-4
"""How far a position may be outside its limits, which files round [rad or m]."""


@dataclass(frozen=True)
class Followers:
    """Which joints of an entity follow which, in the order of its joints."""

    leaders: np.ndarray
    """(J,) int32, -1 for a joint that goes its own way."""
    coefficients: np.ndarray
    """(J, 5) float32: position = c0 + c1 x + ... + c4 x^4 of the leader's position x."""

    @classmethod
    def of(cls, entity: str, imported: ImportedFile | None, joint_names: tuple[str, ...]) -> Followers:
        """Returns those that the file holds and that are active from the start.

        Raises:
            ConfigError: a joint follows two others, or one that follows itself.
        """
        leaders = np.full(len(joint_names), -1, dtype=np.int32)
        coefficients = np.zeros((len(joint_names), 5), dtype=np.float32)
        for follower, leader, polynomial in followers_in(imported):
            if follower not in joint_names or leader not in joint_names:
                continue
            place = joint_names.index(follower)
            if leaders[place] >= 0:
                raise ConfigError(f"Entity {entity!r}: joint {follower!r} follows two others.")
            leaders[place], coefficients[place] = joint_names.index(leader), polynomial
        for place, leader in enumerate(leaders):
            if leader >= 0 and leaders[leader] >= 0:
                raise ConfigError(
                    f"Entity {entity!r}: joint {joint_names[place]!r} follows {joint_names[leader]!r}, which follows "
                    f"{joint_names[leaders[leader]]!r}. Let both follow the first."
                )
        return cls(leaders, coefficients)

    @property
    def places(self) -> list[int]:
        """The joints that follow another one."""
        return np.nonzero(self.leaders >= 0)[0].tolist()

    def fill_defaults(self, entity: str, data: ArticulationData) -> None:
        """Puts the default positions and velocities of followers to where those of their leaders demand, and warns of
        those that are outside of their limits there."""
        for place, leader in enumerate(self.leaders.tolist()):
            if leader < 0:
                continue
            x, coefficients = data.default_joint_pos[:, leader], self.coefficients[place].tolist()
            powers = torch.stack([x**k for k in range(5)], dim=-1)
            slopes = torch.stack([k * x ** max(k - 1, 0) for k in range(5)], dim=-1)
            weights = powers.new_tensor(coefficients)
            data.default_joint_pos[:, place] = powers @ weights
            data.default_joint_vel[:, place] = slopes @ weights * data.default_joint_vel[:, leader]
            self._check_limits(entity, data, place, leader)

    def _check_limits(self, entity: str, data: ArticulationData, place: int, leader: int) -> None:
        position, (low, high) = float(data.default_joint_pos[0, place]), data.joint_pos_limits[0, place].tolist()
        if low - _ROUNDING <= position <= high + _ROUNDING:
            return
        follower, first = data.joint_names[place], data.joint_names[leader]
        warnings.warn(
            f"Entity {entity!r}: joint {follower!r} follows {first!r}, whose default position "
            f"{float(data.default_joint_pos[0, leader]):g} puts it to {position:g}, outside of its limits {low:g} to "
            f"{high:g}. Set init_state.joint_pos[{first!r}].",
            stacklevel=4,
        )


def followers_in(imported: ImportedFile | None) -> list[tuple[str, str, np.ndarray]]:
    """Returns (follower, leader, polynomial) of a file's active joint equalities."""
    if imported is None or imported.file is None or imported.names is None:
        return []
    model, names = imported.file.model, imported.names
    return [
        (
            names.of("joint", int(model.eq_obj1id[index])),
            names.of("joint", int(model.eq_obj2id[index])),
            model.eq_data[index, :5],
        )
        for index in range(model.neq)
        if model.eq_type[index] == mujoco.mjtEq.mjEQ_JOINT and model.eq_active0[index] and model.eq_obj2id[index] >= 0
    ]
