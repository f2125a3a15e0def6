"""Rays from a body against the static ground."""

from __future__ import annotations

import newton
import warp as wp

from lab_core.errors import ConfigError
from lab_core.sensors import RayCasterCfg, RayCasterData
from lab_newton.sensors import ray_kernels as kernels
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp
from lab_newton.solver import Solver

_ALIGNMENTS = {"base": kernels.BASE, "yaw": kernels.YAW, "world": kernels.WORLD}


class RayCaster(Sensor):
    """Follows from the body's pose alone."""

    def __init__(self, cfg: RayCasterCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity, the alignment or the distance is impossible.
            UnknownNameError: the body is unknown.
        """
        super().__init__(cfg, name, context)
        if cfg.alignment not in _ALIGNMENTS:
            raise ConfigError(
                f"scene.sensors[{name!r}].alignment is {cfg.alignment!r}, expected one of {', '.join(_ALIGNMENTS)}."
            )
        if not cfg.max_distance > 0.0:
            raise ConfigError(f"scene.sensors[{name!r}].max_distance must be positive, got {cfg.max_distance}.")
        self._ground = context.ground
        self._alignment = int(_ALIGNMENTS[cfg.alignment])
        self._max_distance = cfg.max_distance
        self._place = self.entity.layout.body[self.find_body(cfg.body_name)]
        self.data = RayCasterData(cfg, self.num_envs, self.torch_device)
        share_with_warp(self.data, {"pos_w": wp.vec3, "quat_w": wp.quat, "ray_hits_w": wp.vec3})
        starts, directions = (rays.numpy() for rays in cfg.pattern.rays())
        self._starts = wp.array(starts + cfg.offset, dtype=wp.vec3, device=self.device)
        self._directions = wp.array(directions, dtype=wp.vec3, device=self.device)

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        self._bodies_per_world = model.body_count // self.num_envs
        self._state = state
        self._mesh = self._ground.mesh_id

    def refresh(self, mask: wp.array | None) -> None:
        wp.launch(
            kernels.cast_rays,
            dim=self.data.warp.ray_hits_w.shape,
            inputs=[
                mask,
                self._place,
                self._bodies_per_world,
                self._state.body_q,
                self._starts,
                self._directions,
                self._alignment,
                self._max_distance,
                self._ground.has_plane,
                self._mesh,
            ],
            outputs=[self.data.warp.pos_w, self.data.warp.quat_w, self.data.warp.ray_hits_w],
            device=self.device,
        )
