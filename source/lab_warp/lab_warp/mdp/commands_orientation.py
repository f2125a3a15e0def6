"""Twin of :mod:`lab_core.mdp.commands_orientation`, which says what they do.

Tolerance and offset live on the device: a new configuration acts without a new capture. Only environments that get a
new goal draw, each from its own stream: the time until the next one, then four numbers for the orientation.
"""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core import mdp
from lab_core.mdp import OrientationGoalCommandCfg
from lab_warp.env import OrientationGoalArrays, WarpEnv
from lab_warp.launches import Kernel
from lab_warp.mdp import commands_orientation_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import buffer_of, share


@twin_of(mdp.OrientationGoalCommandCfg)
class OrientationGoalCommandWarp(mdp.OrientationGoalCommand):
    """``warp.command`` is (N, 7) float32."""

    _env: WarpEnv

    def __init__(self, cfg: OrientationGoalCommandCfg, env: WarpEnv) -> None:
        self._time_range = self.scratch(torch.zeros(1, 2, device=env.device))
        super().__init__(cfg, env)
        self.warp = share(OrientationGoalArrays, self)
        self._arrays = kernels.OrientationGoals()
        types = {"command": wp.transform, "pos_offset": wp.vec3, "time_range": wp.vec2}
        for name in kernels.OrientationGoals.vars:
            tensor = self.metrics[name] if name in self.metrics else buffer_of(self, name)
            setattr(self._arrays, name, wp.from_torch(tensor, dtype=types.get(name)))

    def set_cfg(self, cfg: OrientationGoalCommandCfg) -> None:
        super().set_cfg(cfg)
        self._time_range.copy_(torch.tensor(cfg.resampling_time_range))

    def compute(self, dt: float) -> None:
        data = self._data.warp
        self._launch(kernels.compute, [dt, self._arrays, data.root_link_pose_w, data.default_root_pose])

    def refresh(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._launch(kernels.refresh, [mask, self._arrays, self._data.warp.root_link_pose_w], draws=False)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Draws new goals in the environments of ``mask`` (N,) wp.bool; other rows stay bitwise unchanged."""
        self._launch(kernels.reset, [mask, self._arrays, self._data.warp.default_root_pose])

    def update_metrics(self) -> None:
        inputs = [self._arrays, self._data.warp.root_link_pose_w, self._env.warp.env_origins]
        self._launch(kernels.update_metrics, inputs, draws=False)

    def _launch(self, kernel: Kernel, inputs: list[Any], draws: bool = True) -> None:
        streams = [self._env.warp.rng] if draws else []
        wp.launch(kernel, dim=self._env.num_envs, inputs=inputs, outputs=streams, device=self._env.wp_device)
