"""Evaluating an environment's own terms on states that nobody simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import torch

from lab_core.env import Command, ManagerBasedEnv
from lab_core.errors import LabError
from lab_core.imagination.data import GATHERED, ImaginedData
from lab_core.imagination.errors import ImaginationError
from lab_core.imagination.state import ArticulationState
from lab_core.imagination.view import (
    ImaginedActions,
    ImaginedCommands,
    ImaginedEntity,
    ImaginedEnv,
    ImaginedScene,
    TerminationRules,
)
from lab_core.kinematics import ForwardKinematics, KinematicTree
from lab_core.managers import (
    FunctionTerms,
    GroupObservation,
    ObservationTerms,
    RewardTermCfg,
    RewardTerms,
    TerminationTerms,
)
from lab_core.math import normalize
from lab_core.scene import ArticulationData
from lab_core.signals import NoiseCfg


class Imagination:
    """Observations, rewards and terminations of a task for any batch of states, with gradients.

    It calls the terms that the environment's managers resolved, with their parameters, weights and scales of this
    moment, on a view that derives everything from root and joints. A term takes part if it says that it can
    (``@declare(differentiable=True)``, a class by an attribute of that name); it is tried once at the beginning. The
    built-in termination ``non_finite`` has no place here.

    Whoever wants a task's values at the end of a step gives the command that was followed in it; for the observation
    that comes next, the next command.
    """

    def __init__(
        self,
        env: ManagerBasedEnv,
        groups: Sequence[str] | None = None,
        without_rewards: str | Sequence[str] = (),
        without_terminations: str | Sequence[str] = (),
        predicted_rewards: str | Sequence[str] = (),
    ) -> None:
        """Takes over the terms of ``env``.

        Args:
            groups: Observation groups to imagine; None: all.
            without_rewards: Names or expressions of rewards that are left out of :meth:`reward`.
            without_terminations: Likewise of terminations.
            predicted_rewards: Likewise of rewards whose values are given to :meth:`reward`, since only the physics know
                them.

        Raises:
            ImaginationError: terms that are not left out cannot be imagined; it names each with the reason.
            LabError: the physics do not know how the bodies of an articulation hang together.
            UnknownNameError: nothing matches what is to be left out.
            UnknownTermError: there is no such group.
        """
        self.env = env
        observations, rewards, terminations = env.observation_manager, env.reward_manager, env.termination_manager
        assert isinstance(observations, ObservationTerms)
        assert isinstance(rewards, RewardTerms) and isinstance(terminations, TerminationTerms)
        self._observations, self._rewards, self._terminations = observations, rewards, terminations
        self.groups = tuple(observations.group_obs_dim if groups is None else groups)
        self.reward_names = _others(rewards, without_rewards)
        given = set(rewards.find_terms(predicted_rewards) if predicted_rewards else ())
        self.predicted_names = tuple(name for name in self.reward_names if name in given)
        """Rewards that are given."""
        self.termination_names = _others(terminations, without_terminations)
        self._trees: dict[str, KinematicTree] = {
            name: env.physics.kinematic_tree(name)
            for name in env.scene
            if isinstance(env.scene[name].data, ArticulationData)
        }
        self._gathered = {name: frozenset(env.scene[name].data.buffers(*GATHERED)) for name in self._trees}
        self._kinematics: dict[tuple[str, torch.dtype], ForwardKinematics] = {}
        self._gravity: dict[torch.dtype, torch.Tensor] = {}
        actions = env.action_manager
        widths = [actions.get_term(name).raw_actions.shape[1] for name in actions.term_names]
        ends = list(accumulate(widths, initial=0))
        self._columns = {name: slice(*ends[i : i + 2]) for i, name in enumerate(actions.term_names)}
        self._require_all()

    def settings(self) -> list[Any]:
        """Returns what decides the values of the terms, but for the weights of rewards, as it is in use: calls that
        somebody captured or compiled are of the settings of that moment, and are to be made anew for others. To find
        out, compare with a copy."""
        cfgs = [manager.get_term_cfg(name) for manager, name in self._terms()]
        return [replace(cfg, weight=1.0) if isinstance(cfg, RewardTermCfg) else cfg for cfg in cfgs]

    def weights(self) -> list[float]:
        """Returns the present weights of :attr:`reward_names`."""
        weights = self._rewards.weights
        return [weights[name] for name in self.reward_names]

    def view(
        self,
        states: Mapping[str, ArticulationState],
        env_ids: torch.Tensor,
        *,
        action: torch.Tensor,
        prev_action: torch.Tensor,
        commands: Mapping[str, torch.Tensor | Command] | None = None,
        before: Mapping[str, ArticulationState] | None = None,
        episode_length: torch.Tensor | None = None,
    ) -> ImaginedEnv:
        """Returns K environments as they are at the end of a step.

        All numbers are those of the states: float32 or float64. Nothing is copied to or from the host.

        Args:
            states: Name of each articulation -> its state (K, ...).
            env_ids: (K,) int64, environments whose defaults, limits, properties and origins the rows have.
            action: (K, A) action of the step, as the policy gave it.
            prev_action: (K, A) action of the step before.
            commands: Command term -> (K, D), or an object with what terms read of it, such as a
                :meth:`lab_core.mdp.ClipCommandTerm.reference`.
            before: States at the beginning of the step, for accelerations.
            episode_length: (K,) int64, steps that the episodes have lasted.

        Raises:
            ImaginationError: the state of an articulation is missing, or it or a command has another shape than K rows
                need.
        """
        env, before = self.env, before or {}
        entities = {}
        for name, tree in self._trees.items():
            if name not in states:
                raise ImaginationError(f"The state of {name!r} was not given, only {sorted(states) or 'none'}.")
            self._check_shapes(name, states[name], len(env_ids))
            state, data = states[name], env.scene[name].data
            dtype = state.joint_pos.dtype
            if (name, dtype) not in self._kinematics:
                self._kinematics[name, dtype] = ForwardKinematics(tree, device=env.device, dtype=dtype)
            entities[name] = ImaginedEntity(
                ImaginedData(
                    name, data, state, before.get(name), env_ids, self._kinematics[name, dtype],
                    self._gravity_in(dtype), env.step_dt, self._gathered[name],
                )
            )  # fmt: skip
        return ImaginedEnv(
            num_envs=len(env_ids),
            device=env.device,
            scene=ImaginedScene(entities, env.scene.env_origins.index_select(0, env_ids).to(action.dtype)),
            action_manager=ImaginedActions(action, prev_action, self._columns),
            command_manager=ImaginedCommands(commands or {}, len(env_ids)),
            step_dt=env.step_dt,
            max_episode_length=env.max_episode_length,
            max_episode_length_s=env.max_episode_length_s,
            episode_length=episode_length,
            rules=self._termination_rules(),
        )

    def with_commands(
        self,
        view: ImaginedEnv,
        action: torch.Tensor,
        prev_action: torch.Tensor,
        commands: Mapping[str, torch.Tensor | Command],
    ) -> ImaginedEnv:
        """Returns the same states with other actions and commands; bodies are computed once for both views."""
        return replace(
            view,
            action_manager=ImaginedActions(action, prev_action, self._columns),
            command_manager=ImaginedCommands(commands, view.num_envs),
            found={},
        )

    def present(self) -> ImaginedEnv:
        """Returns a view of the present state of all environments, a copy, with the terms of their commands."""
        env = self.env
        states = {}
        for name in self._trees:
            data = env.scene[name].data
            assert isinstance(data, ArticulationData)
            states[name] = ArticulationState.read(data)
        return self.view(
            states,
            torch.arange(env.num_envs, device=env.device),
            action=env.action_manager.action.clone(),
            prev_action=env.action_manager.prev_action.clone(),
            commands={name: env.command_manager.get_term(name) for name in env.command_manager.term_names},
            before=states,
            episode_length=env.episode_length_buf.clone(),
        )

    def observe(
        self, view: ImaginedEnv, group: str, noise_scale: float = 0.0, generator: torch.Generator | None = None
    ) -> GroupObservation:
        """Returns what an observation group shows of ``view``: (K, D), or term -> tensor.

        Args:
            group: One of :attr:`groups`.
            noise_scale: Factor of the noise of the terms where the group is corrupted, drawn anew for every row, biases
                too; 1: as the environment has it, 0: none.
            generator: Where noise comes from, never the environment's own.

        Raises:
            ImaginationError: the group is not imagined, or noise has no generator.
        """
        if group not in self.groups:
            raise ImaginationError(f"Observation group {group!r} is not imagined, only {list(self.groups)}.")
        if noise_scale == 0.0:
            return self._observations.compute_for(view, group)
        if generator is None:
            raise ImaginationError(f"Noise of the observation group {group!r} needs a generator.")
        return self._observations.compute_for(view, group, _noise_adder(noise_scale, generator))

    def reward_terms(
        self, view: ImaginedEnv, predicted: Mapping[str, torch.Tensor] | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the weighted terms (K,) by name, per second; those of weight 0 are not called.

        Args:
            predicted: Values (K,) of :attr:`predicted_names`.
        """
        weights = self._rewards.weights
        return {
            name: self._reward_of(view, name, predicted) * weights[name]
            for name in self.reward_names
            if weights[name] != 0.0
        }

    def reward(
        self,
        view: ImaginedEnv,
        predicted: Mapping[str, torch.Tensor] | None = None,
        weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns the reward (K,) of the step that ends in ``view``: sum(weight * term) * dt.

        Args:
            view: At the end of the step.
            predicted: Values (K,) of :attr:`predicted_names`.
            weights: (R,) of :attr:`reward_names` on the device, for calls that are captured; all terms are called.
                None: those of the manager.

        Raises:
            ImaginationError: one of :attr:`predicted_names` is missing.
        """
        if weights is None:
            terms = list(self.reward_terms(view, predicted).values())
        else:
            values = zip(self.reward_names, weights.to(view.action_manager.action.dtype).unbind(), strict=True)
            terms = [self._reward_of(view, name, predicted) * weight for name, weight in values]
        if not terms:
            return view.action_manager.action.new_zeros(view.num_envs)
        return torch.stack(terms, dim=1).sum(dim=1) * view.step_dt

    def terminated(self, view: ImaginedEnv) -> torch.Tensor:
        """Returns which episodes fail or succeed in ``view`` (K,) bool; who runs out of time is in
        ``view.termination_manager.time_outs``."""
        return view.termination_manager.terminated

    def _reward_of(self, view: ImaginedEnv, name: str, predicted: Mapping[str, torch.Tensor] | None) -> torch.Tensor:
        if name not in self.predicted_names:
            return self._call(self._rewards, view, name)
        if predicted is None or name not in predicted:
            raise ImaginationError(f"Reward {name!r} is predicted: give its values.")
        return predicted[name]

    def _call(
        self, manager: FunctionTerms[Any], view: ImaginedEnv, name: str, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        value = manager.call_for(name, view)
        is_right = isinstance(value, torch.Tensor) and value.shape == (view.num_envs,) and dtype in (None, value.dtype)
        if not is_right:
            given = f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
            raise ImaginationError(f"{manager.kind} term {name!r} must return ({view.num_envs},), got {given}.")
        return value

    def _termination_rules(self) -> TerminationRules:
        manager, names = self._terminations, self.termination_names
        cut_off = [name for name in names if manager.get_term_cfg(name).time_out]
        ended = [name for name in names if name not in cut_off]
        return TerminationRules(partial(self._call, manager, dtype=torch.bool), ended, cut_off)

    def _gravity_in(self, dtype: torch.dtype) -> torch.Tensor:
        if dtype not in self._gravity:
            gravity = torch.tensor(self.env.cfg.physics.gravity, dtype=dtype, device=self.env.device)
            self._gravity[dtype] = normalize(gravity)
        return self._gravity[dtype]

    def _check_shapes(self, name: str, state: ArticulationState, rows: int) -> None:
        joints = len(self._trees[name].joint_names)
        expected = {"root_link_pose_w": 7, "root_com_vel_w": 6, "joint_pos": joints, "joint_vel": joints}
        for field, width in expected.items():
            shape = tuple(getattr(state, field).shape)
            if shape != (rows, width):
                raise ImaginationError(f"{field} of {name!r} must be ({rows}, {width}), got {shape}.")

    def _require_all(self) -> None:
        """Tries every term on the present state."""
        view, reasons = self.present(), {}
        for manager, name in self._terms():
            if reason := self._refusal(manager, name, view):
                reasons[f"{manager.kind} term {name!r}"] = reason
        if reasons:
            listed = "\n".join(f"- {term}: {reason}" for term, reason in reasons.items())
            raise ImaginationError(
                f"Terms that cannot be imagined; leave rewards and terminations out by name, or use another group:\n"
                f"{listed}",
                reasons,
            )

    def _terms(self) -> Iterator[tuple[FunctionTerms[Any], str]]:
        """Yields the terms that are called, with their managers."""
        observed = [term for group in self.groups for term in self._observations.group_terms(group)]
        rewards = [name for name in self.reward_names if name not in self.predicted_names]
        for manager, names in (
            (self._observations, observed),
            (self._terminations, self.termination_names),
            (self._rewards, rewards),
        ):
            yield from ((manager, name) for name in names)

    def _refusal(self, manager: FunctionTerms[Any], name: str, view: ImaginedEnv) -> str:
        """Returns why a term cannot be imagined, or nothing."""
        func = manager.get_term_cfg(name).func
        if not getattr(func, "differentiable", False):
            return (
                f"{getattr(func, '__name__', func)} does not declare that it is differentiable and needs nothing but "
                "root, joints, actions and commands"
            )
        if isinstance(manager, ObservationTerms) and (memories := manager.memories(name)):
            return f"its {', '.join(memories)} would need the steps before"
        try:
            if isinstance(manager, ObservationTerms):
                manager.call_for(name, view)
            else:
                self._call(manager, view, name, torch.bool if isinstance(manager, TerminationTerms) else None)
        except LabError as error:
            return str(error)
        return ""


def _others(manager: FunctionTerms[Any], left_out: str | Sequence[str]) -> tuple[str, ...]:
    names: Iterable[str] = manager.find_terms(left_out) if left_out else ()
    return tuple(name for name in manager.term_names if name not in set(names))


def _noise_adder(scale: float, generator: torch.Generator) -> Callable[[NoiseCfg, torch.Tensor], torch.Tensor]:
    """Returns what moves values by ``scale`` times as far as their noise does."""

    def add(cfg: NoiseCfg, value: torch.Tensor) -> torch.Tensor:
        noise = cfg.build(value.shape, value.device)
        noise.reset(torch.ones(len(value), dtype=torch.bool, device=value.device), generator)
        return value + scale * (noise(value, generator) - value)

    return add
