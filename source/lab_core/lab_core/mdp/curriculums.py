"""Curriculum: ``func(env, mask, ...)``, called in every step before the environments of ``mask`` are reset."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from lab_core.config import NonNegativeInt
from lab_core.env import ManagerBasedEnv
from lab_core.errors import unknown_name_message
from lab_core.managers import CurriculumTermCfg, ManagerTermBase, SceneEntityCfg, TermError
from lab_core.mdp.commands_velocity import WalkingCommand
from lab_core.terrain import Terrain, TerrainLevels

_ROBOT = SceneEntityCfg("robot")


def terrain_levels_vel(
    env: ManagerBasedEnv, mask: torch.Tensor, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Moves robots to harder or easier ground by how far they walked, and returns the mean level (0-d).

    The way walked is the distance from where the episode began, and is compared with
    :attr:`WalkingCommand.asked_displacement_w`: all commands of the episode count, and the way back in a circle is not
    asked for. Up by one level: farther than half a tile and at least half of what was asked for. Down: less than half
    of what the same commands ask for in a whole episode, so that who falls early has not walked enough. Environments
    that have not made a step stay.

    Raises:
        TermError: the ground is a plane, or the command is no :class:`WalkingCommand`.
    """
    levels, ground, command = walked_ground(env, command_name)
    way = env.scene[asset_cfg.name].data.root_link_pose_w[:, :2] - command.start_pos_w
    walked, half_asked = way.norm(dim=1), 0.5 * command.asked_displacement_w.norm(dim=1)
    steps = env.episode_length_buf.clamp(min=1, max=env.max_episode_length)
    move_up = (walked > 0.5 * ground.tile_size) & (walked >= half_asked)
    move_down = (walked < half_asked * (env.max_episode_length / steps)) & ~move_up
    levels.update(mask & (env.episode_length_buf > 0), move_up, move_down)
    return levels.levels.float().mean()


def walked_ground(env: ManagerBasedEnv, command_name: str) -> tuple[TerrainLevels, Terrain, WalkingCommand]:
    """Returns what :func:`terrain_levels_vel` works on.

    Raises:
        TermError: the ground is a plane, or the command is no :class:`WalkingCommand`.
    """
    levels, ground = env.scene.terrain, env.physics.terrain
    if levels is None or ground is None:
        raise TermError("terrain_levels_vel needs generated ground: set scene.terrain.")
    command = env.command_manager.get_term(command_name)
    if not isinstance(command, WalkingCommand):
        raise TermError(
            f"terrain_levels_vel: command {command_name!r} is a {type(command).__name__}, which says nothing of how "
            "far an episode asks to walk; expected a UniformVelocityCommand or another WalkingCommand."
        )
    return levels, ground, command


def modify_reward_weight(
    env: ManagerBasedEnv, mask: torch.Tensor, term_name: str, weight: float, num_steps: NonNegativeInt
) -> float:
    """Sets the weight of a reward term from environment step ``num_steps`` on, and returns the weight in use."""
    if env.step_count >= num_steps:
        env.reward_manager.weights = {term_name: weight}
    return env.reward_manager.get_term_cfg(term_name).weight


class modify_term_cfg(ManagerTermBase):
    """Changes the configuration of a term once, at environment step ``num_steps``.

    Parameters:
        manager_name: ``"action"``, ``"command"``, ``"event"``, ``"observation"``, ``"reward"`` or ``"termination"``.
        term_name: Term of that manager; observation terms are called ``group/term``.
        changes: Field -> new value; ``params`` is merged into the parameters in use.
        num_steps: Environment steps before the change.
    """

    _state_fields = ("applied",)

    def __init__(self, cfg: CurriculumTermCfg, env: ManagerBasedEnv) -> None:
        super().__init__(cfg, env)
        self.applied = False
        """Whether the change has been made. The managers save what it changed."""
        self._changed_cfg()

    def __call__(
        self,
        env: ManagerBasedEnv,
        mask: torch.Tensor,
        manager_name: str,
        term_name: str,
        changes: dict[str, Any],
        num_steps: NonNegativeInt,
    ) -> float:
        """Returns 1 once the change has been made, else 0."""
        if not self.applied and env.step_count >= num_steps:
            self._manager().set_term_cfg(term_name, self._changed_cfg())
            self.applied = True
        return float(self.applied)

    def _manager(self) -> Any:
        name = self.cfg.params["manager_name"]
        if name not in _MANAGERS:
            raise TermError(unknown_name_message("manager", name, _MANAGERS))
        return getattr(self._env, f"{name}_manager")

    def _changed_cfg(self) -> Any:
        changes = dict(self.cfg.params["changes"])
        cfg = self._manager().get_term_cfg(self.cfg.params["term_name"])
        fields = [field.name for field in dataclasses.fields(cfg)]
        for name in changes:
            if name not in fields:
                raise TermError(unknown_name_message(f"field of {type(cfg).__name__}", name, fields))
        if "params" in changes:
            changes["params"] = cfg.params | changes["params"]
        return dataclasses.replace(cfg, **changes)


_MANAGERS = ("action", "command", "event", "observation", "reward", "termination")
