"""Twin of :mod:`lab_core.mdp.commands_velocity`, which says what they do.

Ranges and shares live on the device: a new configuration, and a command that a person fixes, act without a new
capture. Only environments that get a new command draw, each from its own stream: the time until the next one, then
v_x, v_y and w_z, then (with heading commands) the heading and whether to follow it, then whether to stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from lab_core import mdp
from lab_core.mdp import UniformVelocityCommandCfg
from lab_warp.env import CommandArrays, WarpEnv
from lab_warp.launches import Kernel
from lab_warp.mdp import commands_velocity_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import buffer_of, share


@twin_of(mdp.UniformVelocityCommandCfg)
class UniformVelocityCommandWarp(mdp.UniformVelocityCommand):
    """``warp.command`` is (N, 3) float32: what the policy follows, drawn or fixed by a person."""

    _env: WarpEnv
    _pairs = ("ranges", "start_pos_w", "asked_displacement_w")
    _settings = ("heading_command", "heading_control_stiffness", "rel_heading_envs", "rel_standing_envs")

    def __init__(self, cfg: UniformVelocityCommandCfg, env: WarpEnv) -> None:
        numbers, flags = torch.zeros(3, 1, device=env.device), torch.zeros(2, 1, dtype=torch.bool, device=env.device)
        self._ranges = self.scratch(torch.zeros(kernels.NUM_RANGES, 2, device=env.device))
        self._is_fixed, self._heading_command = map(self.scratch, flags)
        self._heading_control_stiffness, self._rel_heading_envs, self._rel_standing_envs = map(self.scratch, numbers)
        super().__init__(cfg, env)
        self.warp = share(CommandArrays, self)
        self._arrays = kernels.VelocityCommands()
        for name in kernels.VelocityCommands.vars:
            tensor = self.metrics[name] if name in self.metrics else buffer_of(self, name)
            setattr(self._arrays, name, wp.from_torch(tensor, dtype=wp.vec2 if name in self._pairs else None))

    def set_cfg(self, cfg: UniformVelocityCommandCfg) -> None:
        super().set_cfg(cfg)
        ranges = cfg.ranges
        rows = (cfg.resampling_time_range, ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z, ranges.heading)
        self._ranges.copy_(torch.tensor([(0.0, 0.0) if row is None else row for row in rows]))
        for name in self._settings:
            getattr(self, f"_{name}").fill_(getattr(cfg, name))

    def set_command(self, values: Sequence[float] | None) -> None:
        super().set_command(values)
        self._is_fixed.fill_(values is not None)

    def compute(self, dt: float) -> None:
        self._launch(kernels.compute, [dt, self._arrays, self._data.warp.heading_w])

    def refresh(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._launch(kernels.refresh, [mask, self._arrays, self._data.warp.heading_w], draws=False)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Draws new commands in the environments of ``mask`` (N,) wp.bool; other rows stay bitwise unchanged."""
        self._launch(kernels.reset, [mask, self._arrays, self._data.warp.root_link_pose_w])

    def update_metrics(self) -> None:
        data = self._data.warp
        inputs = [self._env.step_dt, self._arrays, data.root_com_lin_vel_b, data.root_ang_vel_b, data.heading_w]
        self._launch(kernels.update_metrics, inputs, draws=False)

    def _launch(self, kernel: Kernel, inputs: list[Any], draws: bool = True) -> None:
        streams = [self._env.warp.rng] if draws else []
        wp.launch(kernel, dim=self._env.num_envs, inputs=inputs, outputs=streams, device=self._env.wp_device)
