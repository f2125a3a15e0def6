"""The buffers of an articulation that is not simulated: made of its state when they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

import torch

from lab_core.imagination.errors import ImaginationError
from lab_core.imagination.state import ArticulationState
from lab_core.kinematics import BodyStates, ForwardKinematics
from lab_core.math import heading, link_lin_vel_from_com, quat_apply_inverse
from lab_core.scene import ArticulationData, Role

GATHERED = (Role.DEFAULT, Role.LIMIT, Role.PROPERTY)
"""What does not follow from the state but belongs to an environment."""


class _derived:
    """A property that is computed when it is first read; unlike :func:`functools.cached_property` without a lock, which
    compilers of Python code cannot look through."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._name = f"_{function.__name__.lstrip('_')}_found"
        self.__doc__ = function.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        found = owner.__dict__.get(self._name)
        if found is None:
            found = owner.__dict__[self._name] = self._function(owner)
        return found


class ImaginedData:
    """Has the attributes of :class:`ArticulationData` that follow from the state, and those that an environment keeps:
    defaults, limits and properties. What depends on the state has gradients.

    Raises:
        ImaginationError: an attribute is read that only the physics know, such as an effort, or that was not given.
    """

    def __init__(
        self,
        name: str,
        data: ArticulationData,
        state: ArticulationState,
        before: ArticulationState | None,
        env_ids: torch.Tensor,
        kinematics: ForwardKinematics,
        gravity: torch.Tensor,
        step_dt: float,
        gathered: Collection[str],
    ) -> None:
        """Looks at ``state`` of the entity ``name``, which led from ``before`` in a step of ``step_dt`` [s].

        Args:
            data: Buffers of the entity in the environment.
            env_ids: (K,) environments whose settings the K rows have.
            kinematics: Of all bodies, in the numbers of the state.
            gravity: (3,) its direction in the world.
            gathered: Buffers that belong to an environment, of the roles :data:`GATHERED`.
        """
        self._name = name
        self._data = data
        self._state = state
        self._before = before
        self._env_ids = env_ids
        self._kinematics = kinematics
        self._gravity = gravity
        self._step_dt = step_dt
        self._gathered = gathered
        self._poses: dict[int, torch.Tensor] = {}
        self.joint_pos = state.joint_pos
        self.joint_vel = state.joint_vel
        self.joint_names = data.joint_names
        self.body_names = data.body_names
        self.fixed_base = data.fixed_base

    def __getattr__(self, name: str) -> torch.Tensor:
        """Takes over what belongs to an environment, the rows of ``env_ids``."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._gathered:
            self._refuse(name)
        rows = getattr(self._data, name).index_select(0, self._env_ids).to(self.joint_pos.dtype)
        setattr(self, name, rows)
        return rows

    @_derived
    def joint_acc(self) -> torch.Tensor:
        if self._before is None:
            raise ImaginationError(
                f"joint_acc of {self._name!r} needs the state at the beginning of the step: give it as `before`."
            )
        return (self.joint_vel - self._before.joint_vel) / self._step_dt

    _bodies_found: BodyStates | None = None

    @_derived
    def _bodies(self) -> BodyStates:
        state = self._state
        return self._kinematics.states(
            state.joint_pos, state.joint_vel, state.root_link_pose_w, state.root_com_vel_w, self.body_com_pos_b
        )

    def link_pose_w(self, body: int) -> torch.Tensor:
        """Returns the pose (K, 7) of one body, for less than those of all where nobody asks for these."""
        alone = self._kinematics.of_body(body)  # made when a term is tried, so that compilers find it
        if self._bodies_found is not None:
            return self._bodies_found.pose[:, body]
        if body not in self._poses:
            self._poses[body] = alone.poses(self.joint_pos, self._state.root_link_pose_w)[:, 0]
        return self._poses[body]

    @property
    def body_link_pose_w(self) -> torch.Tensor:
        return self._bodies.pose

    @property
    def body_com_vel_w(self) -> torch.Tensor:
        return self._bodies.com_vel

    @property
    def root_link_pose_w(self) -> torch.Tensor:
        return self._bodies.pose[:, 0] if self.fixed_base else self._state.root_link_pose_w

    @property
    def root_com_vel_w(self) -> torch.Tensor:
        return self._bodies.com_vel[:, 0] if self.fixed_base else self._state.root_com_vel_w

    @_derived
    def root_link_vel_w(self) -> torch.Tensor:
        linear, angular = self.root_com_vel_w.split(3, dim=-1)
        linear = link_lin_vel_from_com(linear, angular, self._root_quat, self.body_com_pos_b[:, 0])
        return torch.cat((linear, angular), dim=-1)

    @_derived
    def root_com_lin_vel_b(self) -> torch.Tensor:
        return quat_apply_inverse(self._root_quat, self.root_com_vel_w[:, :3])

    @_derived
    def root_link_lin_vel_b(self) -> torch.Tensor:
        return quat_apply_inverse(self._root_quat, self.root_link_vel_w[:, :3])

    @_derived
    def root_ang_vel_b(self) -> torch.Tensor:
        return quat_apply_inverse(self._root_quat, self.root_com_vel_w[:, 3:])

    @_derived
    def projected_gravity_b(self) -> torch.Tensor:
        return quat_apply_inverse(self._root_quat, self._gravity)

    @_derived
    def heading_w(self) -> torch.Tensor:
        return heading(self._root_quat)

    @property
    def _root_quat(self) -> torch.Tensor:
        return self.root_link_pose_w[:, 3:7]

    def _refuse(self, name: str) -> NoReturn:
        raise ImaginationError(
            f"{name} of {self._name!r} does not follow from root and joints, which is all that imagination has."
        )
