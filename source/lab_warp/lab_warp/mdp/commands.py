"""Twins of :mod:`lab_core.mdp.commands_velocity`, which says what they do.

Ranges and shares live on the device: a new configuration, and a command that a person fixes, act without a new
recording. Only environments that get a new command draw, each from its own stream: the time until the next one, then
v_x, v_y and w_z, then (with heading commands) the heading and whether to follow it, then whether to stand.
"""

# Kernels are Warp's language; read as Python they have wrong types. Twins take Warp's arrays and masks.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import warp as wp

from lab_core import mdp
from lab_core.mdp import NullCommandCfg, UniformVelocityCommandCfg
from lab_warp.env import WarpEnv
from lab_warp.mdp.functions import clamp, norm2, wrap_to_pi
from lab_warp.reductions import masked_means
from lab_warp.timers import ran_out
from lab_warp.twins import twin_of
from lab_warp.views import share

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@twin_of(mdp.NullCommandCfg)
class NullCommandWarp(mdp.NullCommand):
    """``warp.command`` is (N, 0) float32."""

    _env: WarpEnv
    _state_exclude = ("_time_range",)

    def __init__(self, cfg: NullCommandCfg, env: WarpEnv) -> None:
        self._time_range = torch.zeros(2, device=env.device)
        super().__init__(cfg, env)
        self.set_cfg(cfg)
        self.warp: SimpleNamespace = share(self, ("_command", "time_left", "command_counter", "_time_range"))

    def set_cfg(self, cfg: NullCommandCfg) -> None:
        super().set_cfg(cfg)
        self._time_range.copy_(torch.tensor(cfg.resampling_time_range))

    def compute(self, dt: float) -> None:
        self._launch(None, dt)

    def refresh(self, mask: wp.array) -> None:
        pass

    def reset(self, mask: wp.array, log: Mapping[str, wp.array]) -> None:
        self._launch(mask, 0.0)

    def _launch(self, reset_mask: wp.array | None, dt: float) -> None:
        term = self.warp
        wp.launch(
            _draw_times,
            dim=self._env.num_envs,
            inputs=[reset_mask, dt, term.time_range],
            outputs=[self._env.warp.rng, term.time_left, term.command_counter],
            device=self._env.wp_device,
        )


@wp.kernel
def _draw_times(
    reset_mask: wp.array[wp.bool],
    dt: wp.float32,
    time_range: wp.array[wp.float32],
    rng_state: wp.array[wp.uint32],
    time_left: wp.array[wp.float32],
    counter: wp.array[wp.int64],
):
    """With a mask, starts episodes; without, moves on by ``dt``. Launch over N."""
    env = wp.tid()
    remaining = time_left[env] - dt
    if reset_mask:
        if not reset_mask[env]:
            return
        counter[env] = wp.int64(0)
        remaining = 0.0
    if ran_out(remaining, dt):
        rng = rng_state[env]
        remaining = wp.randf(rng, time_range[0], time_range[1])
        rng_state[env] = rng
        counter[env] = counter[env] + wp.int64(1)
    time_left[env] = remaining


@wp.struct
class _VelocityCommands:
    """Buffers of :class:`UniformVelocityCommandWarp`."""

    # Of the configuration.
    ranges: wp.array[wp.vec2]
    """Time until the next command, v_x, v_y, w_z, heading."""
    heading_command: wp.array[wp.bool]
    heading_control_stiffness: wp.array[wp.float32]
    rel_heading_envs: wp.array[wp.float32]
    rel_standing_envs: wp.array[wp.float32]
    # State.
    command: wp.array2d[wp.float32]
    time_left: wp.array[wp.float32]
    command_counter: wp.array[wp.int64]
    heading_target: wp.array[wp.float32]
    is_heading_env: wp.array[wp.bool]
    is_standing_env: wp.array[wp.bool]
    metric_steps: wp.array[wp.float32]
    error_vel_xy: wp.array[wp.float32]
    error_vel_yaw: wp.array[wp.float32]
    # A command from outside: what is followed is its row, what is drawn goes on beside it.
    is_fixed: wp.array[wp.bool]
    fixed_row: wp.array[wp.float32]
    drawn: wp.array2d[wp.float32]


_TIME, _HEADING = wp.constant(0), wp.constant(4)
_NUM_RANGES = 5


@twin_of(mdp.UniformVelocityCommandCfg)
class UniformVelocityCommandWarp(mdp.UniformVelocityCommand):
    """``warp.command`` is (N, 3) float32: what the policy follows, drawn or fixed by a person."""

    _env: WarpEnv
    _settings = ("heading_command", "heading_control_stiffness", "rel_heading_envs", "rel_standing_envs")
    _state_exclude = ("_ranges", "_is_fixed", *(f"_{name}" for name in _settings))

    def __init__(self, cfg: UniformVelocityCommandCfg, env: WarpEnv) -> None:
        self._ranges = torch.zeros(_NUM_RANGES, 2, device=env.device)
        self._is_fixed = torch.zeros(1, dtype=torch.bool, device=env.device)
        self._heading_command = torch.zeros(1, dtype=torch.bool, device=env.device)
        self._heading_control_stiffness, self._rel_heading_envs, self._rel_standing_envs = torch.zeros(
            3, 1, device=env.device
        ).unbind()
        super().__init__(cfg, env)
        own = ("_command", "_drawn", "_fixed_row", "_is_fixed", "_metric_steps", "time_left", "command_counter")
        flags = ("heading_target", "is_heading_env", "is_standing_env")
        self.warp: SimpleNamespace = share(self, (*own, *flags, *(f"_{name}" for name in self._settings)))
        self.warp.ranges = wp.from_torch(self._ranges, dtype=wp.vec2)
        for name, values in self.metrics.items():
            setattr(self.warp, name, wp.from_torch(values))
        self._arrays = _VelocityCommands()
        for name, array in vars(self.warp).items():
            setattr(self._arrays, name, array)

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
        self._launch(_compute, [dt, self._arrays, self._data.warp.heading_w])

    def refresh(self, mask: wp.array) -> None:
        self._launch(_refresh, [mask, self._arrays, self._data.warp.heading_w], draws=False)

    def reset(self, mask: wp.array, log: Mapping[str, wp.array]) -> None:
        """Draws new commands in the environments of ``mask``; other rows stay bitwise unchanged.

        Args:
            mask: (N,) wp.bool.
            log: Metric -> (1,) float32, which receives the mean over these environments, if there are any.
        """
        for name in self.metrics:
            values = getattr(self.warp, name).reshape((self._env.num_envs, 1))
            masked_means(values, mask, self._env.warp.reset_count, log[name], 1.0, self._env.wp_device)
        self._launch(_reset, [mask, self._arrays])

    def update_metrics(self) -> None:
        data = self._data.warp
        self._launch(_update_metrics, [self._arrays, data.root_com_lin_vel_b, data.root_ang_vel_b], draws=False)

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], draws: bool = True) -> None:
        streams = [self._env.warp.rng] if draws else []
        wp.launch(kernel, dim=self._env.num_envs, inputs=inputs, outputs=streams, device=self._env.wp_device)


@wp.kernel
def _compute(dt: wp.float32, term: _VelocityCommands, heading_w: wp.array[wp.float32], rng_state: wp.array[wp.uint32]):
    """Timers, new commands where the time is up, and their adaptation to the state. Launch over N."""
    env = wp.tid()
    term.time_left[env] = term.time_left[env] - dt
    command = _followed_or_drawn(term, env)
    if ran_out(term.time_left[env], dt):
        command = _renew(term, env, rng_state)
    _write(term, env, _adapted(term, env, command, heading_w))


@wp.kernel
def _refresh(mask: wp.array[wp.bool], term: _VelocityCommands, heading_w: wp.array[wp.float32]):
    """Adapts commands to the state. Launch over N."""
    env = wp.tid()
    if mask[env]:
        _write(term, env, _adapted(term, env, _followed_or_drawn(term, env), heading_w))


@wp.kernel
def _reset(mask: wp.array[wp.bool], term: _VelocityCommands, rng_state: wp.array[wp.uint32]):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    term.error_vel_xy[env] = 0.0
    term.error_vel_yaw[env] = 0.0
    term.metric_steps[env] = 0.0
    term.command_counter[env] = wp.int64(0)
    _write(term, env, _renew(term, env, rng_state))


@wp.kernel
def _update_metrics(term: _VelocityCommands, lin_vel_b: wp.array[wp.vec3], ang_vel_b: wp.array[wp.vec3]):
    """Running means of the errors. Launch over N."""
    env = wp.tid()
    steps = term.metric_steps[env] + 1.0
    term.metric_steps[env] = steps
    velocity = lin_vel_b[env]
    error_xy = norm2(term.command[env, 0] - velocity[0], term.command[env, 1] - velocity[1])
    error_yaw = wp.abs(term.command[env, 2] - ang_vel_b[env][2])
    term.error_vel_xy[env] = term.error_vel_xy[env] + (error_xy - term.error_vel_xy[env]) / steps
    term.error_vel_yaw[env] = term.error_vel_yaw[env] + (error_yaw - term.error_vel_yaw[env]) / steps


@wp.func
def _followed_or_drawn(term: _VelocityCommands, env: wp.int32) -> wp.vec3:
    """The command that the draws go on from."""
    if term.is_fixed[0]:
        return wp.vec3(term.drawn[env, 0], term.drawn[env, 1], term.drawn[env, 2])
    return wp.vec3(term.command[env, 0], term.command[env, 1], term.command[env, 2])


@wp.func
def _write(term: _VelocityCommands, env: wp.int32, drawn: wp.vec3):
    for i in range(3):
        if term.is_fixed[0]:
            term.drawn[env, i] = drawn[i]
            term.command[env, i] = term.fixed_row[i]
        else:
            term.command[env, i] = drawn[i]


@wp.func
def _renew(term: _VelocityCommands, env: wp.int32, rng_state: wp.array[wp.uint32]) -> wp.vec3:
    """Draws a command and for how long it holds."""
    rng = rng_state[env]
    command = wp.vec3()
    term.time_left[env] = wp.randf(rng, term.ranges[_TIME][0], term.ranges[_TIME][1])
    for i in range(3):
        command[i] = wp.randf(rng, term.ranges[1 + i][0], term.ranges[1 + i][1])
    if term.heading_command[0]:
        term.heading_target[env] = wp.randf(rng, term.ranges[_HEADING][0], term.ranges[_HEADING][1])
        term.is_heading_env[env] = wp.randf(rng) < term.rel_heading_envs[0]
    term.is_standing_env[env] = wp.randf(rng) < term.rel_standing_envs[0]
    term.command_counter[env] = term.command_counter[env] + wp.int64(1)
    rng_state[env] = rng
    return command


@wp.func
def _adapted(term: _VelocityCommands, env: wp.int32, command: wp.vec3, heading_w: wp.array[wp.float32]) -> wp.vec3:
    """Steers by heading, or stands."""
    yaw_rate = command[2]
    if term.heading_command[0] and term.is_heading_env[env]:
        error = wrap_to_pi(term.heading_target[env] - heading_w[env])
        limits = term.ranges[3]
        yaw_rate = clamp(term.heading_control_stiffness[0] * error, limits[0], limits[1])
    if term.is_standing_env[env]:
        return wp.vec3(0.0, 0.0, 0.0)
    return wp.vec3(command[0], command[1], yaw_rate)
