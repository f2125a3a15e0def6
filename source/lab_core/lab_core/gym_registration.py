"""Tasks as gymnasium ids: ``gymnasium.make_vec("Lab-Cartpole", num_envs=8)``."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

from lab_core.errors import ConfigError
from lab_core.registry import get_task, task_ids

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv


def register_gymnasium_ids() -> None:
    """Register every task id with gymnasium, once. Imports no task."""
    for task_id in task_ids():
        if task_id not in gymnasium.registry:
            gymnasium.register(task_id, vector_entry_point=f"{__name__}:make_task_env", kwargs={"task_id": task_id})


def make_task_env(
    task_id: str,
    num_envs: int,
    *,
    seed: int | Sequence[int] | None = None,
    render_mode: str | None = None,
    device: str | None = None,
    cfg: Any = None,
    play: bool = False,
    frontend: str = "auto",
) -> VectorEnv:
    """Returns the environment of a task; what ``gymnasium.make_vec(task_id, num_envs, ...)`` calls.

    Args:
        task_id: one of ``lab_core.registry.task_ids()``.
        num_envs: environments to simulate. ``make_vec`` says 1 unless told, also with a ``cfg`` of another number.
        seed: replaces the seed of the config; see :func:`lab_core.seeding.one_seed`.
        render_mode: ``"rgb_array"``, which every environment has anyway; None: nothing is asked.
        device: torch name, e.g. ``cpu`` or ``cuda:0``; default the first GPU, else the CPU.
        cfg: a ready environment config instead of the task's own; it is copied.
        play: the task's config for watching (ignored with ``cfg``).
        frontend: what runs the config; see :func:`lab_core.envs.make_env`.

    Raises:
        UnknownTaskError: there is no such task.
        PluginError: the package of the task or of the front end is broken.
        ConfigError: no installed package brings the front end, or a setting is missing or impossible, or
            the render mode is another.
    """
    from lab_core.envs import make_env
    from lab_core.seeding import one_seed

    if render_mode not in (None, "rgb_array"):
        raise ConfigError(
            f"render_mode must be 'rgb_array' or None, got {render_mode!r}. To watch: `lab play {task_id}`."
        )

    cfg = get_task(task_id).make_env_cfg(play) if cfg is None else copy.deepcopy(cfg)
    cfg.scene.num_envs = operator.index(num_envs)
    if seed is not None:
        cfg.seed = one_seed(seed)
    return make_env(cfg, device or _default_device(), frontend)


def _default_device() -> str:
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"
