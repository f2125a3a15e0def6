"""What acts in an environment that learns nothing: while episodes are recorded, or somebody watches."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lab_core.config import resolve_reference
from lab_core.errors import ConfigError
from lab_core.rollouts.contract import check_contract
from lab_core.seeding import make_generator

if TYPE_CHECKING:
    from lab_core.envs import RLEnv
    from lab_core.registry import TaskSpec

Policy = Callable[[dict[str, Any]], torch.Tensor]
"""Observations -> actions (N, A)."""


def find_policy(description: str, task: TaskSpec) -> str:
    """Returns what :func:`make_policy` takes for what a user asks for; ``demo`` is the policy that comes with ``task``.

    Raises:
        ConfigError: there is none. To be said before the environment is built.
    """
    if description == "demo":
        return str(task.demo_path())
    if description.endswith(".onnx"):
        if not Path(description).exists():
            raise ConfigError(f"There is no file {description}.")
    elif ":" in description:
        resolve_reference(description)
    elif description not in ("zero", "random"):
        raise _unknown(description)
    return description


def make_policy(description: str, env: RLEnv, noise: float = 0.0, force: bool = False) -> Policy:
    """Returns the policy that a user means.

    Args:
        description: ``zero``; ``random``, uniform in -1 .. 1; an exported policy, ``FILE.onnx``; or ``module:function``
            with ``function(env, observations) -> (N, A)``.
        env: What it acts in.
        noise: Standard deviation of normal noise that is added to its actions.
        force: Whether an exported policy may act in an environment with other joints, scales, timing or terms than
            those that it was made for, if it only reads and writes as many numbers.

    Raises:
        ContractError: the policy was made for another environment; the message names what differs.
        ConfigError: there is no such policy, or it does not fit the environment.
    """
    width = env.single_action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
    size = (env.num_envs, width)
    generator = make_generator(env.seed, env.device, "recorded policy")
    if description == "zero":
        policy: Policy = lambda observations: torch.zeros(size, device=env.device)  # noqa: E731
    elif description == "random":
        policy = lambda observations: torch.rand(size, generator=generator, device=env.device) * 2.0 - 1.0  # noqa: E731
    elif description.endswith(".onnx"):
        policy = OnnxPolicy(Path(description), env, force)
    elif ":" in description:
        policy = _scripted(description, env)
    else:
        raise _unknown(description)

    def act(observations: dict[str, Any]) -> torch.Tensor:
        actions = policy(observations)
        if not isinstance(actions, torch.Tensor) or actions.shape != size:
            given = tuple(actions.shape) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise ConfigError(f"The policy {description!r} must return actions {size}, got {given}.")
        if noise:
            actions = actions + noise * torch.randn(size, generator=generator, device=env.device)
        return actions

    return act


def _unknown(description: str) -> ConfigError:
    return ConfigError(
        f"There is no policy {description!r}; use demo, random, zero, FILE.onnx (from `lab export`) or module:function."
    )


class OnnxPolicy:
    """A policy exported to ONNX: input ``obs`` (batch, D), output ``actions`` (batch, A).

    Other inputs, ``<name>_in`` (layers, batch, numbers), are what it remembers: zero where an episode begins, else the
    output ``<name>_out`` of the step before.

    The observation groups that it reads, and their order, come from its metadata under ``lab``; without these it reads
    the group ``policy``.

    Raises:
        ContractError: it was made for another environment, and ``force`` is not given.
        ConfigError: onnxruntime is not installed, or the file does not fit.
    """

    def __init__(self, path: Path, env: RLEnv, force: bool = False) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ConfigError("An ONNX policy needs onnxruntime: pip install 'lab_core[onnx]'.") from None
        if not path.exists():
            raise ConfigError(f"There is no file {path}.")
        try:
            self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ConfigError(f"{path} is no ONNX policy: {error}") from error
        contract = json.loads(self._session.get_modelmeta().custom_metadata_map.get("lab", "{}"))
        groups = [term["group"] for term in contract.get("observations", [])] or ["policy"]
        self.groups = list(dict.fromkeys(groups))
        self._device, self._env = env.device, env
        self._memory = {
            part.name.removesuffix("_in"): torch.zeros(part.shape[0], env.num_envs, part.shape[2])
            for part in self._session.get_inputs()[1:]
        }
        available = env.obs_buf
        if missing := [group for group in self.groups if not isinstance(available.get(group), torch.Tensor)]:
            raise ConfigError(f"{path} reads the observation groups {missing}; the task has {sorted(available)}.")
        if contract:
            check_contract(str(path), contract, env, self.groups, force)
        else:
            warnings.warn(f"{path} does not say which robot, scales and timing it was made for.", stacklevel=3)
        width, expected = self._join(available).shape[1], self._session.get_inputs()[0].shape[-1]
        if width != expected:
            raise ConfigError(f"{path} reads {expected} observations; {self.groups} of this task have {width}.")

    def __call__(self, observations: dict[str, Any]) -> torch.Tensor:
        inputs = {"obs": self._join(observations).cpu().numpy()}
        if self._memory:
            starts = (self._env.episode_length_buf == 0).cpu()
            for name, part in self._memory.items():
                part[:, starts] = 0.0
                inputs[f"{name}_in"] = part.numpy()
        outputs = self._session.run(["actions", *(f"{name}_out" for name in self._memory)], inputs)
        actions, *new = [torch.as_tensor(output) for output in outputs]
        self._memory = dict(zip(self._memory, new, strict=True))
        return actions.to(self._device)

    def _join(self, observations: dict[str, Any]) -> torch.Tensor:
        return torch.cat([observations[group] for group in self.groups], dim=-1)


def _scripted(reference: str, env: RLEnv) -> Policy:
    function = resolve_reference(reference)
    try:
        inspect.signature(function).bind(env, {})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{reference} must take (env, observations): {error}.") from error
    return lambda observations: function(env, observations)
