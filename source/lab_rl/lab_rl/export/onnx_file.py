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
from rsl_rl.models import MLPModel

from lab_core.errors import LabError
from lab_rl.algorithms.ppo import RslRlEnv
from lab_rl.export.metadata import mjlab_metadata, policy_metadata
from lab_rl.runs.files import write_file
from lab_rl.runs.trained_policy import TrainedPolicy

TOLERANCE = 1e-5
"""Largest difference between the actions of the file and of the policy, relative to 1 or the action if larger."""
OPSET = 18


class ExportError(LabError, RuntimeError):
    """An exported file does not do what the policy does."""


def export_onnx(trained: TrainedPolicy, adapter: RslRlEnv, policy: MLPModel, path: Path) -> dict[str, Any]:
    """Writes the policy to `path`: input `obs` (batch, D), output `actions` (batch, A).

    The mean action, with the statistics of the observations and the clip of the actions inside. The file's metadata
    hold one JSON text under `lab` (see `lab_rl.export.metadata`) and the keys of mjlab. The finished bytes are run with
    onnxruntime on random observations and on ones from the environment, before the file gets its name.

    Args:
        trained: What the policy is.
        adapter: The environment to record observations in; it is stepped.
        policy: The policy attached to it.
        path: Ends in `.onnx`.

    Returns:
        The metadata under `lab`.

    Raises:
        ExportError: The file's actions differ from the policy's.
        LabError: `path` cannot be written.
    """
    check_path(path)
    metadata = policy_metadata(adapter, trained)
    network = _Exported(policy, adapter.clip_actions).cpu().eval()
    data = _serialise(network, metadata)
    check_onnx(data, network, _observations(adapter, policy))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"Cannot write {path}: {error.strerror or error}.") from error
    write_file(path, data)
    return metadata


def check_path(path: Path) -> None:
    """Raises `LabError` unless `path` can be the name of an exported policy."""
    if path.suffix != ".onnx":
        raise LabError(f"An exported policy must end in .onnx, got {path.name!r}.")


def check_onnx(data: bytes, network: torch.nn.Module, observations: torch.Tensor) -> None:
    """Raises `ExportError` unless the ONNX model `data` acts as `network` on `observations` (M, D)."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    with torch.inference_mode():
        expected = network(observations).numpy()
    # Also one by one, as on a robot: the batch size is left open in the file.
    for rows in (slice(None), *(slice(index, index + 1) for index in range(8))):
        actual = np.asarray(session.run(["actions"], {"obs": observations[rows].numpy()})[0])
        error = (np.abs(actual - expected[rows]) / np.maximum(1.0, np.abs(expected[rows]))).max()
        if not error <= TOLERANCE:
            raise ExportError(f"The exported policy differs from the trained one by {error:.2g} (limit {TOLERANCE}).")


class _Exported(torch.nn.Module):
    def __init__(self, policy: MLPModel, clip_actions: float | None) -> None:
        super().__init__()
        self.policy = policy.as_onnx(verbose=False)
        self.width = policy.obs_dim
        self.clip_actions = clip_actions

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions = self.policy(obs)
        return actions if self.clip_actions is None else actions.clamp(-self.clip_actions, self.clip_actions)


def _serialise(network: _Exported, metadata: dict[str, Any]) -> bytes:
    with _quiet():
        program = torch.onnx.export(
            network,
            (torch.zeros(2, network.width),),
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            input_names=["obs"],
            output_names=["actions"],
            dynamic_shapes={"obs": {0: "batch"}},
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


def _observations(adapter: RslRlEnv, policy: MLPModel, steps: int = 50) -> torch.Tensor:
    """Random observations, and those of `steps` steps of the policy, on the CPU (M, D)."""
    recorded = []
    with torch.inference_mode():
        for _ in range(steps):
            observations = adapter.get_observations()
            recorded.append(torch.cat([observations[group] for group in adapter.groups], dim=-1).cpu())
            adapter.step(policy(observations))
    generator = torch.Generator().manual_seed(0)
    return torch.cat([torch.randn(100, policy.obs_dim, generator=generator), *recorded]).clone()


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
