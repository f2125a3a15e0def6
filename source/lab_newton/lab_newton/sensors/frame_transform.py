"""Poses of bodies relative to another body."""

from __future__ import annotations

import newton
import warp as wp

from lab_core.sensors import FrameTransformCfg, FrameTransformData
from lab_newton.sensors import body_kernels as kernels
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp
from lab_newton.solver import Solver


class FrameTransformSensor(Sensor):
    """Follows from the bodies' poses alone."""

    def __init__(self, cfg: FrameTransformCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown, or the source is a pattern that matches several bodies.
            UnknownNameError: a body is unknown.
        """
        super().__init__(cfg, name, context)
        layout = self.entity.layout
        self._source = layout.body[self.find_body(cfg.source_body)]
        targets = self.find_bodies(cfg.target_bodies)
        self._targets = wp.array([layout.body[body] for body in targets], dtype=wp.int32, device=self.device)
        names = tuple(layout.body_names[body] for body in targets)
        self.data = FrameTransformData(names, self.num_envs, self.torch_device)
        share_with_warp(self.data, {"target_pose_source": wp.transform})

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        self._bodies_per_world = model.body_count // self.num_envs
        self._state = state

    def refresh(self, mask: wp.array | None) -> None:
        wp.launch(
            kernels.read_transforms,
            dim=self.data.warp.target_pose_source.shape,
            inputs=[mask, self._source, self._targets, self._bodies_per_world, self._state.body_q],
            outputs=[self.data.warp.target_pose_source],
            device=self.device,
        )
