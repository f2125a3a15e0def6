"""What a learning algorithm offers to the commands, and where they find it.

A package announces its algorithm in its ``pyproject.toml``:

    [project.entry-points."lab.algorithms"]
    my_search = "my_package.search:MySearch"        # a class derived from Algorithm

Its name is what ``--algorithm`` takes and what :attr:`lab_core.agents.AgentCfg.algorithm` of its settings says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import torch

from lab_core.agents import AgentCfg
from lab_core.envs import RLEnv
from lab_core.errors import ConfigError, PluginError, unknown_name_message
from lab_core.physics import HealthReport
from lab_core.registry import EntryPointGroup, TaskSpec


@dataclass
class Iteration:
    """What one iteration did."""

    number: int
    """Iterations finished, this one included."""
    env_steps: int
    """Environment steps of the whole run so far, all environments together."""
    steps_per_second: float
    """Environment steps per second of this iteration, learning included."""
    reward: float | None
    """Mean return of the last 100 episodes; None before the first one ended."""
    episode_length: float | None
    """Mean length of the last 100 episodes [steps]."""
    scalars: dict[str, float]
    """Everything to plot, by name."""
    health: HealthReport = field(default_factory=HealthReport)
    """Of the physics, over this iteration."""


class Policy(ABC):
    """A policy attached to an environment that fits it.

    Attributes:
        env: The environment, reset when the policy was attached.
        groups: Observation groups that the policy reads, concatenated in this order.
        clip_actions: Largest absolute action that it gives; None: any.
        memory: What it remembers from step to step, by name -> shape for one environment (layers, numbers); empty for
            most. Policies with a memory override :meth:`forget`.
    """

    env: RLEnv
    groups: Sequence[str]
    clip_actions: float | None = None
    memory: Mapping[str, tuple[int, int]] = MappingProxyType({})

    @abstractmethod
    def act(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Returns the actions (N, A), as the environment receives them, for the observation groups (N, D) each."""

    @abstractmethod
    def exported(self) -> torch.nn.Module:
        """Returns a module that maps concatenated observations (N, D) to what :meth:`act` returns, for ONNX.

        With a :attr:`memory`, it also takes each part of it, (layers, N, numbers), and returns the actions and the new
        parts.
        """

    def forget(self, mask: torch.Tensor) -> None:
        """Forgets what it remembers of the environments of ``mask`` (N,) bool, whose episodes begin."""

    def __call__(self) -> torch.Tensor:
        """Returns the actions (N, A) for the latest observations of the environment."""
        if self.memory:
            self.forget(self.env.episode_length_buf == 0)
        return self.act(self.env.get_observations())


class Runner(ABC):
    """Learns in an environment, iteration by iteration.

    Attributes:
        env: The environment, which the runner resets when it is made.
        groups: Observation groups that its networks read: a checkpoint fits only where they are the same.
        iteration: Iterations finished.
    """

    own_state: ClassVar[Sequence[str]] = ()
    """Keys of :meth:`state_dict` that each of several processes has for itself, such as that of its environments."""

    env: RLEnv
    groups: Sequence[str]
    iteration: int

    @abstractmethod
    def iterate(self) -> Iteration:
        """Runs one iteration.

        Raises:
            LabError: a value is not finite, or the environment refuses one.
        """

    @abstractmethod
    def policy(self) -> Policy:
        """Returns the policy of now, for :attr:`env`."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns all that decides the future of the run, as tensors and plain values, with :attr:`iteration` in it."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where :meth:`state_dict` was taken. Without :attr:`own_state`, that begins anew.

        Raises:
            LabError: the state does not fit the settings or the environment.
        """

    def describe(self) -> str:
        """Returns in words what of an iteration that has been made is recorded, and what is not and why; empty where
        there is nothing to say."""
        return ""

    def randomize_episode_ages(self) -> None:
        """Gives the running episodes random ages, so that their time-outs spread over the coming iterations."""
        with torch.inference_mode():
            ages = self.env.episode_length_buf
            self.env.episode_length_buf = torch.randint_like(ages, high=self.env.max_episode_length)


@dataclass(frozen=True)
class Panel:
    """A panel of a run's ``curves.png``: a title, and the names in :attr:`Iteration.scalars` that it shows."""

    title: str
    names: tuple[str, ...]


CfgT = TypeVar("CfgT", bound=AgentCfg)


class Algorithm(ABC, Generic[CfgT]):
    """A way to learn: its settings, its runner, and the policy in its checkpoints."""

    title: ClassVar[str]
    """Its name in texts, for example ``"PPO"``."""
    cfg_type: type[Any]
    """Class of its settings."""
    panels: ClassVar[Sequence[Panel]] = ()
    """Curves of a run beside return, episode length and speed."""
    only_at_start: ClassVar[Sequence[str]] = ()
    """Settings that act on a new run only, such as the sizes of networks: a resumed one refuses to change them. All
    others must act on it, also those whose values its state holds."""
    many_processes: ClassVar[bool] = False
    """Whether processes that ``torchrun`` started can train one run together. A runner finds them with
    :func:`lab_rl.processes.present_processes`; each has environments of its own, all have the same networks."""

    def check(self, cfg: CfgT) -> None:
        """Checks settings before anything is built.

        Raises:
            LabError: a field has an impossible value, or a library is missing.
        """

    @abstractmethod
    def make_runner(self, env: RLEnv, cfg: CfgT) -> Runner:
        """Returns a fresh runner.

        Raises:
            LabError: the settings do not fit the environment.
        """

    @abstractmethod
    def load_policy(self, env: RLEnv, cfg: CfgT, state: Mapping[str, Any]) -> Policy:
        """Returns the policy in ``state``, which :meth:`Runner.state_dict` returned, for ``env``, and resets that.

        Raises:
            RuntimeError: the networks in ``state`` do not fit ``cfg``.
        """


_ALGORITHMS = EntryPointGroup("lab.algorithms", "algorithm")


def algorithm_names() -> list[str]:
    """Returns the names of the installed algorithms. Imports none."""
    return _ALGORITHMS.names()


def get_algorithm(name: str) -> Algorithm[Any]:
    """Returns the algorithm called ``name``.

    Raises:
        ConfigError: no installed package brings it.
        PluginError: its package is broken.
    """
    if name not in algorithm_names():
        raise ConfigError(unknown_name_message("algorithm", name, algorithm_names()))
    cls = _ALGORITHMS.load(name)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        raise PluginError(f"algorithm {name!r} of package {_ALGORITHMS.package(name)!r} is no class of Algorithm.")
    if cls.cfg_type.algorithm != name:
        raise PluginError(
            f"algorithm {name!r} of package {_ALGORITHMS.package(name)!r} has settings, {cls.cfg_type.__name__}, that "
            f"call it {cls.cfg_type.algorithm!r}."
        )
    return cls()


def make_agent_cfg(task: TaskSpec, algorithm: str | None = None) -> AgentCfg:
    """Returns fresh settings of an algorithm for a task: those of the task, or else the algorithm's defaults.

    Args:
        task: The task.
        algorithm: Name of the algorithm. None: the first of the task.

    Raises:
        ConfigError: the task has no agent and no algorithm is named, or nobody brings the algorithm.
    """
    if algorithm is None or algorithm in task.agents:
        return task.make_agent_cfg(algorithm)
    return get_algorithm(algorithm).cfg_type()
