"""A policy as one ONNX file, checked by running it."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab_core.errors import LabError
from lab_rl.algorithms import Policy
from lab_rl.export.metadata import mjlab_metadata, policy_metadata
from lab_rl.runs.files import write_file
from lab_rl.runs.trained_policy import TrainedPolicy

TOLERANCE = 1e-5
"""Largest difference between the actions of the file and of the policy, relative to 1 or the action if larger."""
OPSET = 18


class ExportError(LabError, RuntimeError):
    """An exported file does not do what the policy does."""


def export_onnx(trained: TrainedPolicy, policy: Policy, path: Path) -> dict[str, Any]:
    """Writes the policy to ``path``: input ``obs`` (batch, D), output ``actions`` (batch, A).

    What a policy with a memory remembers is input and output too, ``h_in`` and ``h_out`` (layers, batch, numbers), and
    with a long short-term memory ``c_in`` and ``c_out``: zero where an episode begins, else what the step before gave.

    The actions are those that the environment receives, with the statistics of the observations and the clip of the
    actions inside. The file's metadata hold one JSON text under ``lab`` (see :mod:`lab_rl.export.metadata`) and the
    keys of mjlab. The finished bytes are run with onnxruntime on random observations and on ones from the environment,
    before the file gets its name.

    Args:
        trained: What the policy is.
        policy: The policy, attached to an environment on the CPU, which is stepped.
        path: Ends in ``.onnx``.

    Returns:
        The metadata under ``lab``.

    Raises:
        ExportError: The file's actions differ from the policy's.
        LabError: ``path`` cannot be written.
    """
    check_path(path)
    metadata = policy_metadata(policy, trained)
    width = metadata["input"]["width"]
    data = _serialise(policy, width, metadata)
    if policy.memory:
        check_memory(data, policy, *_play(policy))
    else:
        check_onnx(data, *_acts(policy, width))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"Cannot write {path}: {error.strerror or error}.") from error
    write_file(path, data)
    return metadata


def check_path(path: Path) -> None:
    """Raises ``LabError`` unless ``path`` can be the name of an exported policy."""
    if path.suffix != ".onnx":
        raise LabError(f"An exported policy must end in .onnx, got {path.name!r}.")


def check_onnx(data: bytes, observations: torch.Tensor, actions: torch.Tensor) -> None:
    """Runs the ONNX model ``data``.

    Raises:
        ExportError: its actions for ``observations`` (M, D) are not ``actions`` (M, A).
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    expected = actions.numpy()
    # Also one by one, as on a robot: the batch size is left open in the file.
    for rows in (slice(None), *(slice(index, index + 1) for index in range(8))):
        _compare(np.asarray(session.run(["actions"], {"obs": observations[rows].numpy()})[0]), expected[rows])


def check_memory(
    data: bytes, policy: Policy, observations: torch.Tensor, starts: torch.Tensor, actions: torch.Tensor
) -> None:
    """Runs the ONNX model ``data`` of a policy with a memory over T steps of N environments.

    Args:
        data: The model.
        policy: Says what it remembers.
        observations: (T, N, D).
        starts: (T, N) bool, where an episode begins.
        actions: (T, N, A) of the policy.

    Raises:
        ExportError: its actions are others.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for rows in (slice(None), slice(0, 1)):  # also one alone, as on a robot
        count = observations[0, rows].shape[0]
        memory = {name: np.zeros((layers, count, width), "f") for name, (layers, width) in policy.memory.items()}
        for seen, start, expected in zip(observations, starts, actions, strict=True):
            for part in memory.values():
                part[:, start[rows].numpy()] = 0.0
            inputs = {"obs": seen[rows].numpy(), **{f"{name}_in": part for name, part in memory.items()}}
            outputs = session.run(["actions", *(f"{name}_out" for name in memory)], inputs)
            actual, *parts = [np.array(output) for output in outputs]
            memory = dict(zip(memory, parts, strict=True))
            _compare(actual, expected[rows].numpy())


def _compare(actual: np.ndarray, expected: np.ndarray) -> None:
    error = (np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))).max()
    if not error <= TOLERANCE:
        raise ExportError(f"The exported policy differs from the trained one by {error:.2g} (limit {TOLERANCE}).")


def _serialise(policy: Policy, width: int, metadata: dict[str, Any]) -> bytes:
    batch = torch.export.Dim("batch")
    memory = [torch.zeros(layers, 2, numbers) for layers, numbers in policy.memory.values()]
    with _quiet():
        program = torch.onnx.export(
            policy.exported().cpu().eval(),
            (torch.zeros(2, width), *memory),
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            input_names=["obs", *(f"{name}_in" for name in policy.memory)],
            output_names=["actions", *(f"{name}_out" for name in policy.memory)],
            dynamic_shapes=({0: batch}, tuple({1: batch} for _ in memory)) if memory else ({0: batch},),
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.producer_name = "lab_rl"
    for part in (model.graph, *model.graph.node, *model.graph.value_info):  # stack traces, with folders of this machine
        del part.metadata_props[:]
    for key, value in {"lab": json.dumps(metadata, allow_nan=False), **mjlab_metadata(metadata)}.items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def _acts(policy: Policy, width: int, steps: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns observations (M, D) and what the policy does on them (M, A): random ones, common and large, and those of
    ``steps`` steps."""
    groups = {name: policy.env.get_observations()[name].shape[1] for name in policy.groups}
    random = torch.randn(200, width, generator=torch.Generator().manual_seed(0))
    random[100:] *= 10.0  # where actions reach their clip
    parts = [dict(zip(groups, random.split(list(groups.values()), dim=1), strict=True))]
    with torch.inference_mode():
        for _ in range(steps):
            parts.append({name: policy.env.get_observations()[name] for name in groups})
            policy.env.step(policy())
        actions = torch.cat([policy.act(part) for part in parts])
    observations = torch.cat([torch.cat([part[name] for name in groups], dim=1) for part in parts])
    return observations.clone(), actions.clone()


def _play(policy: Policy, steps: int = 100) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns what the policy saw (T, N, D), where episodes began (T, N) and what it did (T, N, A) in ``steps`` steps;
    a third of the environments begins anew in the middle."""
    env, seen, starts, actions = policy.env, [], [], []
    with torch.inference_mode():
        env.reset()
        for step in range(steps):
            if step == steps // 2:
                env.reset(mask=torch.arange(env.num_envs, device=env.device) % 3 == 0)
            observations = env.get_observations()
            seen.append(torch.cat([observations[name] for name in policy.groups], dim=1).clone())
            starts.append(env.episode_length_buf == 0)
            actions.append(policy().clone())
            env.step(actions[-1])
    return torch.stack(seen), torch.stack(starts), torch.stack(actions)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on optional packages and on its own future."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
