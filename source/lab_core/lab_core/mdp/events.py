"""Events of the state: ``func(env, mask, ...)`` changes the environments of ``mask`` (N,) bool, which may be empty.

Values are drawn for all environments and written where the mask says, so that the random stream does not depend on
which environments were reset. Reset events read and write positions and velocities only; poses of bodies follow when
all of them are done.
"""

from __future__ import annotations

import math

import torch
from torch.nn.functional import max_pool2d

from lab_core.config import Interval, NonNegative, Share
from lab_core.env import Env
from lab_core.managers import EventTermCfg, ManagerTermBase, SceneEntityCfg, TermError
from lab_core.managers.checks import check_range
from lab_core.math import quat_from_euler_xyz, quat_mul, random_orientation
from lab_core.mdp.draws import draw_six
from lab_core.sampling import uniform
from lab_core.terrain import HeightField

_ROBOT = SceneEntityCfg("robot")


def reset_scene_to_default(env: Env, mask: torch.Tensor) -> None:
    """Puts every entity into its default state."""
    env.physics.write_default_state(mask)


def reset_joints_by_offset(
    env: Env,
    mask: torch.Tensor,
    position_range: Interval,
    velocity_range: Interval,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Joint state = default + uniform offset, drawn per joint; positions are clamped to the soft limits.

    ``position_range`` [rad or m], ``velocity_range`` [rad/s or m/s].
    """
    check_range(position_range, "position_range")
    check_range(velocity_range, "velocity_range")
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, velocity = data.default_joint_pos[:, ids], data.default_joint_vel[:, ids]
    position = position + uniform(*position_range, position.shape, env.generator)
    velocity = velocity + uniform(*velocity_range, velocity.shape, env.generator)
    _write_joints(env, mask, asset_cfg, position, velocity)


def reset_joints_by_scale(
    env: Env,
    mask: torch.Tensor,
    position_range: Interval,
    velocity_range: Interval,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Joint state = default * uniform factor, drawn per joint; positions are clamped to the soft limits."""
    check_range(position_range, "position_range")
    check_range(velocity_range, "velocity_range")
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, velocity = data.default_joint_pos[:, ids], data.default_joint_vel[:, ids]
    position = position * uniform(*position_range, position.shape, env.generator)
    velocity = velocity * uniform(*velocity_range, velocity.shape, env.generator)
    _write_joints(env, mask, asset_cfg, position, velocity)


def reset_joints_within_limits(
    env: Env,
    mask: torch.Tensor,
    fraction: Share = 0.2,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Joint position = default, taken by ``fraction`` of the way towards a point that is drawn between the soft limits,
    uniformly and per joint; velocity 0. A ``fraction`` of 1 is that point."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    low, high = data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    default = data.default_joint_pos[:, ids]
    point = low + (high - low) * uniform(0.0, 1.0, low.shape, env.generator)
    _write_joints(env, mask, asset_cfg, default + fraction * (point - default), torch.zeros_like(default))


def _write_joints(
    env: Env, mask: torch.Tensor, asset_cfg: SceneEntityCfg, position: torch.Tensor, velocity: torch.Tensor
) -> None:
    """Writes the state of the selected joints; the others keep theirs."""
    entity, ids = env.scene[asset_cfg.name], asset_cfg.joint_ids
    low, high = entity.data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    entity.write_joint_state(position.clamp(low, high), velocity, mask, ids)


def reset_root_state_uniform(
    env: Env,
    mask: torch.Tensor,
    pose_range: dict[str, Interval],
    velocity_range: dict[str, Interval],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Root state = default, moved by uniform draws; keys x, y, z, roll, pitch, yaw, missing ones are 0.

    Position: default + environment's origin + draw [m]. Orientation: default * q(roll, pitch, yaw) [rad].
    Velocity of the centre of mass: default + draw in the world frame [m/s, rad/s].
    """
    entity = env.scene[asset_cfg.name]
    pose = draw_six(env, pose_range, "pose_range")
    velocity = draw_six(env, velocity_range, "velocity_range")
    default = entity.data.default_root_pose
    position = default[:, :3] + env.scene.env_origins + pose[:, :3]
    orientation = quat_mul(default[:, 3:], quat_from_euler_xyz(*pose[:, 3:].unbind(dim=1)))
    entity.write_root_link_pose(torch.cat([position, orientation], dim=1), mask)
    entity.write_root_com_velocity(entity.data.default_root_vel + velocity, mask)


def reset_root_state_with_random_orientation(
    env: Env,
    mask: torch.Tensor,
    pose_range: dict[str, Interval],
    velocity_range: dict[str, Interval],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Root state = default, moved by uniform draws, at an orientation that is uniform over all rotations.

    Position: default + environment's origin + draw; keys x, y, z [m], missing ones are 0. Velocity of the centre of
    mass: default + draw in the world frame; keys x, y, z, roll, pitch, yaw [m/s, rad/s].

    Raises:
        TermError: ``pose_range`` limits an angle.
    """
    require_no_angles(pose_range)
    entity = env.scene[asset_cfg.name]
    move = draw_six(env, pose_range, "pose_range")[:, :3]
    orientation = random_orientation((env.num_envs,), env.generator)
    velocity = draw_six(env, velocity_range, "velocity_range")
    position = entity.data.default_root_pose[:, :3] + env.scene.env_origins + move
    entity.write_root_link_pose(torch.cat([position, orientation], dim=1), mask)
    entity.write_root_com_velocity(entity.data.default_root_vel + velocity, mask)


def require_no_angles(pose_range: dict[str, Interval]) -> None:
    """Raises :class:`TermError` for a range of an angle, where an orientation is drawn from all."""
    if angles := [key for key in pose_range if key in ("roll", "pitch", "yaw")]:
        raise TermError(f"pose_range has {angles[0]!r}, and the orientation is any. Give x, y and z.")


class reset_root_above_ground(ManagerTermBase):
    """Root state = default, moved by uniform draws, at a height above the highest ground nearby: what hangs no deeper
    below the root than the least height, and reaches no farther than ``reach``, begins outside of the ground.

    Parameters:
        pose_range: As for :func:`reset_root_state_uniform`, but z is the height above the ground [m].
        velocity_range: As for :func:`reset_root_state_uniform`.
        reach: Half the side of the square around the root whose highest ground counts [m].
    """

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        reach = cfg.params["reach"]
        if not 0.0 <= reach < math.inf:
            raise TermError(f"reach must not be negative, got {reach}.")
        terrain = env.physics.terrain
        field = HeightField([[0.0, 0.0], [0.0, 0.0]], reach + 1.0) if terrain is None else terrain.to_heightfield()
        self.spacing = field.spacing
        """Between the nodes of :attr:`highest` [m]."""
        nodes = math.ceil(reach / field.spacing) + 1  # one more: the root lies between nodes
        heights = torch.tensor(field.heights, device=env.device)[None]
        for size in ((2 * nodes + 1, 1), (1, 2 * nodes + 1)):
            heights = max_pool2d(heights, size, stride=1, padding=(size[0] // 2, size[1] // 2))
        self.highest = self.scratch(heights[0])
        """(X, Y) greatest height within reach of each node of the ground [m]; their middle is the world's origin."""

    def __call__(
        self,
        env: Env,
        mask: torch.Tensor,
        pose_range: dict[str, Interval],
        velocity_range: dict[str, Interval],
        reach: NonNegative,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        entity = env.scene[asset_cfg.name]
        pose = draw_six(env, pose_range, "pose_range")
        velocity = draw_six(env, velocity_range, "velocity_range")
        default = entity.data.default_root_pose
        x, y = (default[:, :2] + env.scene.env_origins[:, :2] + pose[:, :2]).unbind(dim=1)
        height = self._highest_at(x, y) + pose[:, 2]
        orientation = quat_mul(default[:, 3:], quat_from_euler_xyz(*pose[:, 3:].unbind(dim=1)))
        position = torch.stack((x, y, height), dim=1)
        entity.write_root_link_pose(torch.cat([position, orientation], dim=1), mask)
        entity.write_root_com_velocity(entity.data.default_root_vel + velocity, mask)

    def _highest_at(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Greatest height around positions (N,); those beyond the terrain count as the nearest on it."""
        i, j = (
            torch.floor(along / self.spacing + 0.5 * nodes).clamp(0, nodes - 1).long()
            for along, nodes in zip((x, y), self.highest.shape, strict=True)
        )
        return self.highest[i, j]


def push_by_setting_velocity(
    env: Env,
    mask: torch.Tensor,
    velocity_range: dict[str, Interval],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Adds a uniform draw to the velocity of the root's centre of mass, world frame.

    Keys x, y, z [m/s], roll, pitch, yaw [rad/s]; missing ones are 0.
    """
    entity = env.scene[asset_cfg.name]
    velocity = entity.data.root_com_vel_w + draw_six(env, velocity_range, "velocity_range")
    entity.write_root_com_velocity(velocity, mask)
