"""What terms, managers, sensors and recorders may use of an environment.

Environments of every front end look like this, and so do stand-ins in tests. ``N`` is the number of environments, ``A``
the width of an action; selections of environments are bool masks (N,).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from lab_core.physics import PhysicsBackend, PhysicsCfg
    from lab_core.scene import Scene, SceneCfg


class EnvCfg(Protocol):
    """Settings that every environment has."""

    physics: PhysicsCfg
    scene: SceneCfg
    decimation: int
    """Physics steps per environment step."""
    compute_final_obs: bool


class Env(Protocol):
    """N environments that are stepped and reset together. Tensors are live buffers with one address for life."""

    num_envs: int
    device: torch.device
    seed: int
    generator: torch.Generator
    """Random numbers of torch terms."""
    scene: Scene
    physics: PhysicsBackend
    physics_dt: float
    """Duration of a physics step [s]."""
    step_dt: float
    """Duration of an environment step [s]."""
    max_episode_length: int
    """Longest episode [steps]."""
    max_episode_length_s: float
    """Longest episode [s]."""

    reset_mask: torch.Tensor
    """(N,) bool, environments of the reset that is under way, or of the latest one."""

    # The step that was just made:
    reset_terminated: torch.Tensor
    """(N,) bool, episodes that failed or succeeded."""
    reset_time_outs: torch.Tensor
    """(N,) bool, episodes that ran out of time."""
    reset_buf: torch.Tensor
    """(N,) bool, episodes that ended for either reason."""
    reward_buf: torch.Tensor
    """(N,) reward."""

    @property
    def final_obs_buf(self) -> dict[str, Any]:
        """Observations of the end of the step, before any reset; empty where they are not computed."""
        ...

    @property
    def step_count(self) -> int:
        """Steps that the environment has made since it was built."""
        ...

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """(N,) int64, steps of the running episodes."""
        ...

    @property
    def obs_buf(self) -> dict[str, Any]:
        """Observations after the step: group -> (N, D), or term -> tensor."""
        ...

    @property
    def cfg(self) -> EnvCfg:
        """Configuration in use."""
        ...

    def reset_ids(self) -> torch.Tensor:
        """Returns the indices of ``reset_mask`` (int64); it waits for the device, once per reset."""
        ...


class ManagerBasedEnv(Env, Protocol):
    """An environment that is made of managers. One is there from when its terms may need it on."""

    @property
    def command_manager(self) -> Commands: ...
    @property
    def action_manager(self) -> Actions: ...
    @property
    def observation_manager(self) -> Terms: ...
    @property
    def termination_manager(self) -> Terminations: ...
    @property
    def reward_manager(self) -> Rewards: ...
    @property
    def curriculum_manager(self) -> Terms: ...
    @property
    def metrics_manager(self) -> Terms: ...
    @property
    def event_manager(self) -> Terms: ...


class Terms(Protocol):
    """The terms of a manager and their configurations."""

    @property
    def term_names(self) -> list[str]:
        """Names, in order of evaluation."""
        ...

    def find_terms(self, patterns: str | Sequence[str]) -> list[str]:
        """Returns the names that fully match one of the regular expressions."""
        ...

    def get_term_cfg(self, name: str) -> Any:
        """Returns the configuration in use."""
        ...

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        """Replaces the configuration of a term."""
        ...


class Actions(Terms, Protocol):
    """The action in parts."""

    action: torch.Tensor
    """(N, A) as the policy gave it, delayed where a term says so."""
    prev_action: torch.Tensor
    """(N, A) of the step before."""

    def get_term(self, name: str) -> Action:
        """Returns a term."""
        ...


class Action(Protocol):
    """One part of the action."""

    @property
    def raw_actions(self) -> torch.Tensor:
        """(N, D) columns of the action."""
        ...

    @property
    def processed_actions(self) -> torch.Tensor:
        """(N, D) what the term makes of them."""
        ...


class Commands(Terms, Protocol):
    """What the policy is asked to do."""

    def get_term(self, name: str) -> Command:
        """Returns a term."""
        ...

    def get_command(self, name: str) -> torch.Tensor:
        """Returns the command (N, D) of a term."""
        ...


class Command(Protocol):
    """One command."""

    metrics: dict[str, torch.Tensor]
    """Name -> (N,) value of the running episode."""

    @property
    def command(self) -> torch.Tensor:
        """(N, D)."""
        ...


class Terminations(Terms, Protocol):
    """Why episodes ended in the step that was just made."""

    terminated: torch.Tensor
    """(N,) bool, episodes that failed or succeeded."""
    time_outs: torch.Tensor
    """(N,) bool, episodes that ran out of time."""

    def get_term(self, name: str) -> torch.Tensor:
        """Returns what a term said (N,) bool."""
        ...


class Rewards(Terms, Protocol):
    """The terms of the reward."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight of every term; assign a dict to change some of them. It refuses to be written item by item."""
        ...

    @weights.setter
    def weights(self, weights: Mapping[str, float]) -> None: ...
