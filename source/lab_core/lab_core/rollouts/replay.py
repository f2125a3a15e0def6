"""Repeating recorded episodes, and comparing the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lab_core.config import load_yaml
from lab_core.datasets.episode import Episode, nested
from lab_core.datasets.errors import DatasetError
from lab_core.datasets.reader import RecordedDataset
from lab_core.datasets.windows import usable_steps
from lab_core.envs import RLEnv
from lab_core.recorder.terms import scene_state
from lab_core.recorder.transition import flatten
from lab_core.registry import get_task
from lab_core.trust import reading_a_file

_CONDITIONS = "initial_conditions"
_READ_EVERY_STEP = ("joint_stiffness", "joint_damping")
"""Properties of whose change the engine need not be told."""


@dataclass(frozen=True)
class Mismatch:
    """Where a repeated episode first leaves the recorded one."""

    episode: str
    """File and name."""
    env_id: int
    """Environment that was recorded."""
    step: int
    key: str
    component: tuple[int, ...]
    recorded: float
    repeated: float

    def __str__(self) -> str:
        place = f"{self.key}{list(self.component)}"
        return (
            f"step {self.step}, {place}, environment {self.env_id} ({self.episode}): recorded {self.recorded:.9g}, "
            f"repeated {self.repeated:.9g}"
        )


@dataclass
class ReplayReport:
    """How well a recording was repeated."""

    tolerance: float
    episodes: int = 0
    steps: int = 0
    largest_errors: dict[str, float] = field(default_factory=dict)
    """Key -> largest ``|repeated - recorded| / (1 + |recorded|)`` until an episode's first mismatch."""
    mismatches: list[Mismatch] = field(default_factory=list)
    """The first of every episode that has one, the earliest step first."""

    @property
    def ok(self) -> bool:
        return not self.mismatches


def build_replay_env(dataset: RecordedDataset, num_envs: int, device: str = "cpu", task: str | None = None) -> RLEnv:
    """Returns an environment in which the recording can be repeated: from the configuration in the file, or ``task``.

    Raises:
        DatasetError: the file has no configuration and no task is given.
        ConfigError: its configuration names code that is not trusted, see :mod:`lab_core.trust`.
    """
    if task is not None:
        cfg = get_task(task).make_env_cfg()
    elif dataset.config:
        with reading_a_file():
            cfg = load_yaml(dataset.config)
    else:
        raise DatasetError(f"{dataset.path} holds no configuration; name the task that it was recorded in (--task).")
    cfg.scene.num_envs = num_envs
    cfg.recorder = None
    return cfg.build(device)


def replay_episodes(
    dataset: RecordedDataset,
    env: RLEnv,
    episodes: Sequence[int],
    tolerance: float = 1e-4,
    after_step: Callable[[int], None] = lambda steps: None,
) -> ReplayReport:
    """Repeats episodes from their initial states and actions, and compares the states after every step.

    Only actions, actuators and physics run: no terminations, resets, commands or events. What was done to the
    environments from outside is taken from the recording: physical properties, pushes (where ``pre_states`` differ from
    the states before them) and ``external_wrenches``.

    Args:
        dataset: The recording.
        env: See :func:`build_replay_env`. As many episodes as it has environments run at once.
        episodes: Indices of the episodes.
        tolerance: Largest ``|repeated - recorded| / (1 + |recorded|)``, in SI units.
        after_step: Called after every step, for pictures, with the number of steps so far, over all episodes.

    Raises:
        DatasetError: the recording lacks what it takes: initial states, actions, states, or what actuators with a
            memory remembered; or it is of another robot.
    """
    report = ReplayReport(tolerance)
    groups = [episodes[start : start + env.num_envs] for start in range(0, len(episodes), env.num_envs)]
    with torch.no_grad():
        for group in groups:
            _Rerun(dataset, env, group).run(report, after_step)
    report.mismatches.sort(key=lambda mismatch: mismatch.step)
    return report


class _Rerun:
    """Episodes side by side, one in each of the first environments."""

    def __init__(self, dataset: RecordedDataset, env: RLEnv, episodes: Sequence[int]) -> None:
        self._env = env
        self._names = [dataset.where(index) for index in episodes]
        self._episodes = [dataset.load(index, device=env.device) for index in episodes]
        self._check(dataset)
        self._lengths = [usable_steps(episode.info) for episode in self._episodes]
        self._actions = self._stacked("actions")
        self._states = {key: self._stacked(key) for key, _ in flatten("states", env.scene.read_state())}
        self._before = {
            key: self._stacked(f"pre_{key}") for key in self._states if f"pre_{key}" in self._episodes[0].steps
        }
        self._wrenches = {
            name: self._stacked(f"external_wrenches/{name}")
            for name in env.scene
            if f"external_wrenches/{name}" in self._episodes[0].steps
        }

    def run(self, report: ReplayReport, after_step: Callable[[int], None]) -> None:
        env = self._env
        self._begin()
        running = set(range(len(self._episodes)))
        for step in range(max(self._lengths)):
            self._disturb(step)
            for name, wrenches in self._wrenches.items():
                env.scene[name].data.body_wrench_w.copy_(wrenches[step])
            env.advance(self._actions[step])
            self._compare(step, running, report)
            report.steps += sum(step < length for length in self._lengths)
            after_step(report.steps)
        report.episodes += len(self._episodes)

    def _begin(self) -> None:
        """Puts the first environments into the state in which the episodes began."""
        env, used = self._env, len(self._episodes)
        conditions = self._rows_at_start(_CONDITIONS)
        if "env_origin" in conditions:
            env.scene.env_origins[:used] = conditions["env_origin"]
        state = env.scene.get_state(is_relative=True)
        for key, live in dict(flatten("initial_state", state)).items():
            live[:used] = torch.stack([episode.initial[key] for episode in self._episodes])
        env.reset_to(state, is_relative=True)
        self._set_properties(conditions)
        mask = torch.arange(env.num_envs, device=env.device) < used
        for name in env.scene:
            entity = env.scene[name]
            entity.data.body_wrench_w.zero_()
            if not entity.data.fixed_base and f"root_pose_w/{name}" in conditions:
                pose = entity.data.root_link_pose_w.clone()  # a sum with the origin rounds, the stored pose does not
                pose[:used] = conditions[f"root_pose_w/{name}"]
                entity.write_root_link_pose(pose, mask)
        for name, live in env.physics.actuator_memory().items():
            live[:used] = conditions[f"actuators/{name}"]
        env.physics.forward()

    def _set_properties(self, conditions: Mapping[str, torch.Tensor]) -> None:
        env, used = self._env, len(self._episodes)
        for name in env.scene:
            changed = []
            for prop in env.scene[name].default_properties:
                stored = conditions.get(f"properties/{name}/{prop}")
                live = getattr(env.scene[name].data, prop)
                if stored is not None and not torch.equal(live[:used], stored):
                    live[:used] = stored
                    if prop not in _READ_EVERY_STEP:
                        changed.append(prop)
            if changed:
                env.physics.notify(name, *changed)

    def _disturb(self, step: int) -> None:
        """Sets the state of environments that were pushed between two steps."""
        env, used = self._env, len(self._episodes)
        if not self._before:
            return
        pushed = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        for key, before in self._before.items():
            if step:
                last = self._states[key][step - 1]
            else:
                last = torch.zeros_like(before[0])
                initial = f"initial_state/{key.removeprefix('states/')}"
                last[:used] = torch.stack([episode.initial[initial] for episode in self._episodes])
            pushed |= (before[step] != last).flatten(1).any(dim=1)
        ended = torch.tensor([step >= length for length in self._lengths], device=env.device)
        pushed[:used] &= ~ended
        if pushed.any():
            rows = nested({key.removeprefix("states/"): value[step] for key, value in self._before.items()})
            env.scene.set_state(rows, pushed, is_relative=True)
            env.physics.forward()

    def _compare(self, step: int, running: set[int], report: ReplayReport) -> None:
        repeated = dict(flatten("states", scene_state(self._env)))
        for key, recorded in self._states.items():
            error = (repeated[key] - recorded[step]).abs() / (1.0 + recorded[step].abs())
            for row in sorted(running):
                if step >= self._lengths[row]:
                    continue
                worst = float(error[row].max())
                if worst <= report.tolerance:
                    report.largest_errors[key] = max(report.largest_errors.get(key, 0.0), worst)
                    continue
                index = int(error[row].nan_to_num(torch.inf).argmax())
                component = [int(i) for i in torch.unravel_index(torch.tensor(index), error[row].shape)]
                report.mismatches.append(
                    Mismatch(
                        self._names[row],
                        self._episodes[row].info.env_id,
                        step,
                        key,
                        tuple(component),
                        float(recorded[step, row].flatten()[index]),
                        float(repeated[key][row].flatten()[index]),
                    )
                )
                running.discard(row)

    def _stacked(self, key: str) -> torch.Tensor:
        """(steps, N, ...); zero in environments without an episode and after its end."""
        sample = self._episodes[0].steps[key]
        size = (max(len(episode) for episode in self._episodes), self._env.num_envs, *sample.shape[1:])
        rows = torch.zeros(size, dtype=sample.dtype, device=self._env.device)
        for env_id, episode in enumerate(self._episodes):
            rows[: len(episode), env_id] = episode.steps[key]
        return rows

    def _rows_at_start(self, prefix: str) -> dict[str, torch.Tensor]:
        keys = [key for key in self._episodes[0].initial if key.startswith(f"{prefix}/")]
        return {
            key.removeprefix(f"{prefix}/"): torch.stack([episode.initial[key] for episode in self._episodes])
            for key in keys
        }

    def _check(self, dataset: RecordedDataset) -> None:
        env = self._env
        for name, episode in zip(self._names, self._episodes, strict=True):
            _require(name, episode, env)
        for entity in env.scene:
            stored, present = dataset.entity_names(entity, "joint_names"), list(env.scene[entity].joint_names)
            if stored is not None and stored != present:
                raise DatasetError(
                    f"{dataset.path}: the joints of {entity!r} are {stored}, those of the task {present}."
                )


def _require(name: str, episode: Episode, env: RLEnv) -> None:
    """Raises :class:`DatasetError` unless an episode holds what it takes to repeat it."""
    if episode.info.dropped_steps:
        raise DatasetError(
            f"{name}: its first {episode.info.dropped_steps} steps were not kept, so that it cannot be repeated."
        )
    state = env.scene.get_state()
    needed: dict[str, tuple[Any, Any]] = {}
    for key, value in flatten("", state):
        needed[f"initial_state{key}"] = (episode.initial, value.shape[1:])
        needed[f"states{key}"] = (episode.steps, (len(episode), *value.shape[1:]))
    needed["actions"] = (episode.steps, (len(episode), *(env.single_action_space.shape or ())))
    if unknown := sorted(key for key in episode.initial if key.startswith("initial_state/") and key not in needed):
        raise DatasetError(f"{name} holds {unknown[0]!r}, of which the task has nothing.")
    for key, (values, shape) in needed.items():
        if key not in values:
            raise DatasetError(f"{name} holds no {key!r}, without which it cannot be repeated.")
        if values[key].shape != shape:
            raise DatasetError(f"{name}: {key!r} has shape {tuple(values[key].shape)}, the task needs {tuple(shape)}.")
    for key, live in env.physics.actuator_memory().items():
        stored = episode.initial.get(f"{_CONDITIONS}/actuators/{key}")
        if stored is None or stored.shape != live.shape[1:]:
            raise DatasetError(
                f"{name}: the actuators of this task remember the past ({key}), and the file does not hold what they "
                "remembered when the episode began; record it with the term InitialConditions."
            )
