"""How a kind of actuator drives its joints, beside the PD law that all of them have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
import warp as wp
from newton.actuators import DrivePD

from lab_core.errors import ConfigError
from lab_core.scene import ActuatorCfg
from lab_newton.state import NewtonEntity


class Drive(ABC):
    """What one group of joints adds to the PD law, or has in its place; made by :func:`make_drive`.

    :meth:`change_efforts` and :meth:`reset` are captured as part of the backend's graphs: they launch kernels and do
    nothing else.
    """

    @abstractmethod
    def change_efforts(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        efforts: wp.array,
    ) -> None:
        """Makes the efforts of the group's joints of one physics step.

        Args:
            positions: Newton's joint coordinates, those of all worlds.
            velocities: Newton's joint velocities.
            target_pos: Position targets, late where the group has a lag.
            pos_indices: (N * J,) where the coordinate of each joint of the entity lies, world by world.
            vel_indices: The same for ``velocities``.
            target_pos_indices: The same for ``target_pos``.
            efforts: (N * J,) the PD law of the joints' gains, with the effort target. Limits come after it.
        """

    def reset(self, mask: wp.array) -> None:
        """Forgets what it remembers of the worlds of ``mask`` (N,) bool."""

    def memory(self) -> dict[str, torch.Tensor]:
        """Returns what it carries from step to step, by name, in rows of worlds; checkpoints hold it."""
        return {}


@singledispatch
def make_drive(cfg: ActuatorCfg, joints: Sequence[int], entity: NewtonEntity) -> Drive | None:
    """Returns the drive of the actuator group that ``cfg`` describes; None where the PD law is all of it.

    What is registered for the class of ``cfg``, or for the nearest of its bases, makes it. Another package adds a kind
    of actuator by registering it beside its configuration::

        make_drive.register(SpringCfg, Spring)

    Gains, limits and lag need nothing there: :meth:`ActuatorCfg.joint_parameters` and the other methods of the
    configuration say what they are. A drive that reads parameters from the buffers, ``entity.data.warp``, follows
    events that draw them.

    Args:
        cfg: The group.
        joints: Its joints, as columns of the entity's buffers.
        entity: Whose joints.

    Raises:
        ConfigError: nothing is registered for the class of ``cfg``, or it describes nothing that can be built.
    """
    group = next((name for name, actuator in entity.actuators.items() if actuator is cfg), "")
    known = ", ".join(sorted(kind.__name__ for kind in make_drive.registry if kind is not object))
    raise ConfigError(
        f"scene.entities[{entity.name!r}].actuators[{group!r}]: no drive is registered for a {type(cfg).__name__}, "
        f"only for {known}. lab_newton.actuators.make_drive.register({type(cfg).__name__}, ...) adds one."
    )


class DrivePDAndOthers(DrivePD):
    """The PD law on all joints of an entity, then the drives of some; where gains are 0 it is the effort target."""

    def __init__(self, kp: wp.array, kd: wp.array, drives: Sequence[Drive]) -> None:
        super().__init__(kp=kp, kd=kd)
        self._drives = drives

    def compute(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        target_vel: wp.array,
        feedforward: wp.array | None,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        forces: wp.array,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        indices = (pos_indices, vel_indices, target_pos_indices)
        super().compute(
            positions, velocities, target_pos, target_vel, feedforward, *indices, target_vel_indices, forces,
            *args, **kwargs,
        )  # fmt: skip
        for drive in self._drives:
            drive.change_efforts(positions, velocities, target_pos, *indices, forces)
