"""Ghosts have a model of their own, which no solver knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import newton
import warp as wp

from lab_core.physics import Ghost
from lab_core.state import lasting_tensors
from lab_newton.arrays import present
from lab_newton.model import new_builder
from lab_newton.robot_files import EntityLayout
from lab_newton.state import NewtonEntity

COLOR = (0.96, 0.42, 0.72)
"""Of ghosts of robots, in no robot's and no ground's colour."""
OPACITY = 0.5


class GhostModel:
    """The ghosts of the first environments, as they are drawn."""

    @lasting_tensors()
    def __init__(self, entities: Sequence[NewtonEntity], num_envs: int, device: wp.Device) -> None:
        """Builds ``num_envs`` worlds that hold one ghost for each of ``entities``, and nothing else."""
        world = new_builder()
        self._layouts = []
        for entity in entities:
            first = world.shape_count
            self._layouts.append(entity.add_ghost_to(world))
            if not entity.has_own_colors_as_ghost:
                world.shape_color[first:] = [COLOR] * (world.shape_count - first)
        touching = newton.ShapeFlags.COLLIDE_SHAPES | newton.ShapeFlags.COLLIDE_PARTICLES
        world.shape_flags = [flags & ~int(touching) for flags in world.shape_flags]
        world.shape_opacity = [OPACITY] * world.shape_count
        builder = new_builder()
        builder.replicate(world, num_envs)
        self.model = builder.finalize(device=device)
        self.state = self.model.state()
        self._joint_q = wp.to_torch(present(self.state.joint_q)).view(num_envs, -1)

    def pose(self, ghosts: Sequence[Ghost]) -> None:
        """Moves the bodies in :attr:`state` to where ``ghosts``, one for each articulation, have them."""
        for layout, ghost in zip(self._layouts, ghosts, strict=True):
            self._place(layout, ghost)
        newton.eval_fk(self.model, present(self.state.joint_q), present(self.state.joint_qd), self.state)

    def _place(self, layout: EntityLayout, ghost: Ghost) -> None:
        rows = len(self._joint_q)
        if layout.floating:
            self._joint_q[:, layout.root_coord : layout.root_coord + 7] = ghost.root_pose_w[:rows]
        if ghost.joint_pos is not None:
            self._joint_q[:, list(layout.joint_coord)] = ghost.joint_pos[:rows]


class GhostModels:
    """Finds out which ghosts there are, and keeps the model of them for one who looks."""

    def __init__(
        self, ghosts: Callable[[], Sequence[Ghost]], entities: Mapping[str, NewtonEntity], device: wp.Device
    ) -> None:
        self._ghosts = ghosts
        self._entities = entities
        self._device = device
        self._key: tuple[int, tuple[str, ...]] = (0, ())
        self._model: GhostModel | None = None

    def present(self, num_envs: int) -> GhostModel | None:
        """Returns the ghosts of the first ``num_envs`` environments as they are now; None where there are none.

        Raises:
            LabError: a ghost is of an entity of a kind that cannot be drawn as one.
        """
        ghosts = self._ghosts()
        key = (num_envs, tuple(ghost.entity for ghost in ghosts))
        if key != self._key:
            self._model = (
                GhostModel([self._entities[name] for name in key[1]], num_envs, self._device) if ghosts else None
            )
            self._key = key
        if self._model is not None:
            self._model.pose(ghosts)
        return self._model
