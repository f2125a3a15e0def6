"""What motion tracking needs of a task: one robot, one clip command, and terms that can be imagined."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from lab_core.agents import SuperMimicCfg
from lab_core.config import same_values
from lab_core.env import Command
from lab_core.envs import ManagerBasedRLEnv, RLEnv
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.imagination import Imagination, ImaginedEnv
from lab_core.math import normalize
from lab_core.mdp import ClipCommandTerm
from lab_core.scene import ArticulationData
from lab_rl.supermimic.motion import RobotMotion
from lab_rl.supermimic.state import RobotState

_NOISE_DRAWS = 64
"""Draws of every environment by which the noise of observations is measured."""


class TrackingTask:
    """A task whose terms the algorithm evaluates on imagined states.

    Args:
        env: The environment, reset.
        cfg: Which groups, rewards and terminations take part, and which properties are the context.

    Raises:
        ConfigError: the task has no clip command, several robots, other commands, or a group or property is unknown.
        ImaginationError: a term cannot be imagined; the message names each.
    """

    def __init__(self, env: RLEnv, cfg: SuperMimicCfg) -> None:
        if not hasattr(env, "observation_manager"):
            raise ConfigError("SuperMimic needs an environment made of managers: it evaluates their terms.")
        self.env = cast(ManagerBasedRLEnv, env)
        self.robot, self.data = self._find_robot()
        self.command_name, self.command = self._find_command()
        self.actor_groups, self.critic_groups = (self._groups(cfg, network) for network in ("actor", "critic"))
        time_outs = [name for name in self.env.cfg.terminations if self._cuts_off(name)]
        self.imagination = Imagination(
            self.env,
            groups=list(dict.fromkeys((*self.actor_groups, *self.critic_groups))),
            without_rewards=tuple(cfg.without_rewards),
            without_terminations=(*cfg.without_terminations, *time_outs),
            predicted_rewards=tuple(cfg.predicted_rewards),
        )
        self.events = self.imagination.predicted_names
        """Rewards that count events, which the world model predicts."""
        weights = self.imagination.weights()
        self._weights = torch.tensor(weights, device=env.device)
        self._copied_weights = weights
        self._settings = copy.deepcopy(self.imagination.settings())
        self.num_actions = self.env.action_manager.total_action_dim
        self.motion = RobotMotion(
            self.data.num_joints,
            not self.data.fixed_base,
            env.step_dt,
            env.cfg.decimation,
            normalize(torch.tensor(env.cfg.physics.gravity, device=env.device)),
        )
        self._context = dict(cfg.world_model.context)
        if unknown := [name for name in self._context if name not in env.scene[self.robot].default_properties]:
            known = env.scene[self.robot].default_properties
            raise ConfigError(f"agent.world_model.context: {unknown_name_message('property', unknown[0], known)}")

    def context(self) -> Tensor:
        """Returns how far properties are from their configured values (N, C), over their scales."""
        nominal = self.env.scene[self.robot].default_properties
        parts = [
            ((getattr(self.data, name) - nominal[name]) / scale).flatten(1) for name, scale in self._context.items()
        ]
        return torch.cat(parts, dim=1) if parts else torch.zeros(self.env.num_envs, 0, device=self.env.device)

    def root_com(self, env_ids: Tensor) -> Tensor:
        """Returns the centres of mass (K, 3) of the root link [m] in environments (K,)."""
        return self.data.body_com_pos_b[:, 0].index_select(0, env_ids)

    def targets(self, view: ImaginedEnv, action: Tensor) -> Tensor:
        """Returns what the action terms make of actions (K, A) that follow on ``view``: (K, A).

        Raises:
            TermError: an action term cannot be imagined.
        """
        manager, parts, start = self.env.action_manager, [], 0
        for name in manager.term_names:
            term = manager.get_term(name)
            parts.append(term.processed_for(view, action[:, start : start + term.action_dim]))
            start += term.action_dim
        return torch.cat(parts, dim=1)

    def view(
        self,
        state: RobotState,
        env_ids: Tensor,
        action: Tensor,
        prev_action: Tensor,
        reference: Command,
        before: RobotState | None = None,
    ) -> ImaginedEnv:
        """Returns K imagined environments at the end of a step; see :meth:`Imagination.view`."""
        com = self.root_com(env_ids).to(state.quat.dtype)
        return self.imagination.view(
            {self.robot: state.to_articulation(com)},
            env_ids,
            action=action,
            prev_action=prev_action,
            commands={self.command_name: reference},
            before=None if before is None else {self.robot: before.to_articulation(com)},
            episode_length=torch.zeros_like(env_ids),
        )

    def refresh(self) -> bool:
        """Hands changed weights of rewards to the device, where captured calls read them; call it between steps.

        Returns:
            Whether other settings of terms changed, so that calls must be captured anew.
        """
        if (weights := self.imagination.weights()) != self._copied_weights:
            self._copied_weights = weights
            for place, weight in enumerate(weights):
                self._weights[place].fill_(weight)
        settings = self.imagination.settings()
        if same_values(settings, self._settings):
            return False
        self._settings = copy.deepcopy(settings)
        return True

    def reward(self, view: ImaginedEnv, events: Tensor) -> Tensor:
        """Returns the reward (K,) of the step that ends in ``view``, in which ``events`` (K, E) happened, as shares."""
        predicted = dict(zip(self.events, events.unbind(-1), strict=True))
        return self.imagination.reward(view, predicted, self._weights)

    def follow(self, view: ImaginedEnv, action: Tensor, prev_action: Tensor, reference: Command) -> ImaginedEnv:
        """Returns ``view`` with other actions, and another reference to follow."""
        return self.imagination.with_commands(view, action, prev_action, {self.command_name: reference})

    def observe(self, view: ImaginedEnv, groups: Sequence[str]) -> Tensor:
        """Returns observation groups (K, D), one behind the other, without noise."""
        return torch.cat([cast(Tensor, self.imagination.observe(view, group)) for group in groups], dim=-1)

    def noise_std(self, generator: torch.Generator) -> Tensor:
        """Returns the standard deviation (D,) of the noise on each number that the policy is shown, by measuring it."""
        view, parts = self.imagination.present(), []
        for group in self.actor_groups:
            clean = cast(Tensor, self.imagination.observe(view, group))
            noisy = [cast(Tensor, self.imagination.observe(view, group, 1.0, generator)) for _ in range(_NOISE_DRAWS)]
            parts.append((torch.stack(noisy) - clean).flatten(0, 1).std(dim=0))
        return torch.cat(parts)

    def _find_robot(self) -> tuple[str, ArticulationData]:
        robots = {name: entity.data for name, entity in self.env.scene.items() if _is_articulation(entity.data)}
        if len(robots) != 1:
            raise ConfigError(f"SuperMimic tracks clips with one articulation, the scene has {sorted(robots)}.")
        ((name, data),) = robots.items()
        return name, cast(ArticulationData, data)

    def _find_command(self) -> tuple[str, ClipCommandTerm]:
        terms = {name: self.env.command_manager.get_term(name) for name in self.env.command_manager.term_names}
        if len(terms) != 1 or not isinstance(term := next(iter(terms.values())), ClipCommandTerm):
            given = {name: type(term).__name__ for name, term in terms.items()}
            raise ConfigError(f"SuperMimic needs a task with one command, which plays clips; this one has {given}.")
        return next(iter(terms)), term

    def _groups(self, cfg: SuperMimicCfg, network: str) -> tuple[str, ...]:
        if set(cfg.obs_groups) != {"actor", "critic"}:
            raise ConfigError(f"agent.obs_groups has the keys 'actor' and 'critic', got {sorted(cfg.obs_groups)}.")
        shapes = self.env.observation_manager.group_obs_dim
        for group in cfg.obs_groups[network]:
            if group not in shapes:
                raise ConfigError(f"agent.obs_groups: {unknown_name_message('observation group', group, shapes)}")
            if not isinstance(shapes[group], tuple) or len(shapes[group]) != 1:
                raise ConfigError(f"Observation group {group!r} must be one row of numbers, got {shapes[group]}.")
        return tuple(cfg.obs_groups[network])

    def _cuts_off(self, name: str) -> bool:
        term = self.env.cfg.terminations[name]
        return term is not None and term.time_out


def _is_articulation(data: Any) -> bool:
    return isinstance(data, ArticulationData)
