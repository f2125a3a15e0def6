"""What a robot weighs, and what its joints resist with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import newton
import numpy as np
import torch
import warp as wp
from torch import Tensor

from lab_core.errors import ConfigError
from lab_core.kinematics import KinematicTree
from lab_newton.arrays import present
from lab_newton.kinematics import kinematic_tree
from lab_newton.state import NewtonEntity

_TENSORS = ("mass", "inertia", "armature", "damping", "limits", "gravity")


@dataclass(frozen=True, kw_only=True)
class RobotProperties:
    """A kinematic tree of B bodies and J joints with masses; tensors are float64."""

    tree: KinematicTree
    mass: Tensor
    """(B,) [kg]."""
    inertia: Tensor
    """(B, 3, 3) about the centre of mass, in the frame of the body [kg m^2]."""
    armature: Tensor
    """(J,) inertia of what turns with a joint without being part of a body [kg m^2 or kg]."""
    damping: Tensor
    """(J,) of the joint itself [N m s/rad or N s/m]; the solver treats it implicitly."""
    limits: Tensor
    """(J, 2) lowest and highest position [rad or m]."""
    gravity: Tensor
    """(3,) world frame [m/s^2]."""

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values, for JSON."""
        return {"tree": asdict(self.tree), **{name: getattr(self, name).tolist() for name in _TENSORS}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RobotProperties:
        """Returns the robot that :meth:`to_dict` described."""
        tree = {name: _tuples(value) for name, value in values["tree"].items()}
        tensors = {name: torch.tensor(values[name], dtype=torch.float64) for name in _TENSORS}
        return cls(tree=KinematicTree(**tree), **tensors)

    @classmethod
    def from_model(cls, model: newton.Model, entity: NewtonEntity) -> RobotProperties:
        """Returns those of ``entity`` in the first world.

        Raises:
            ConfigError: a joint has dry friction, whose force does not follow from motion.
            LabError: the bodies form no tree that can be held; the message names the joint.
        """
        bodies, dofs = list(entity.layout.body), list(entity.layout.joint_dof)

        def read(array: wp.array | None, rows: list[int]) -> Tensor:
            return torch.from_numpy(np.asarray(present(array).numpy()[rows], dtype=np.float64))

        friction = read(model.joint_friction, dofs)
        rubbing = [name for name, value in zip(entity.layout.joint_names, friction.tolist(), strict=True) if value]
        if rubbing:
            raise ConfigError(
                f"Joints of entity {entity.name!r} have dry friction, whose force does not follow from motion: "
                f"{', '.join(rubbing)}."
            )
        return cls(
            tree=kinematic_tree(model, entity),
            mass=read(model.body_mass, bodies),
            inertia=read(model.body_inertia, bodies),
            armature=read(model.joint_armature, dofs),
            damping=read(model.joint_damping, dofs),
            limits=torch.stack((read(model.joint_limit_lower, dofs), read(model.joint_limit_upper, dofs)), dim=-1),
            gravity=read(model.gravity, [0])[0],
        )


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
