"""A model in one file that is safe to open.

The first line says what the file is, and the SHA-256 of all that follows: a dictionary of torch with a description, as
JSON, and tensors by name. It is read without running anything that it holds, and the description names no code but one
of our networks.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lab_core.errors import ConfigError
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.wrenches.robot import RobotProperties

VERSION = 2
"""Of the format. Another one is refused: a model that is read differently moves differently."""
_MAGIC = "lab NeRD model"
_LONGEST_LINE = 256


@dataclass(frozen=True)
class ModelDescription:
    """What a file says of its model."""

    fingerprint: Mapping[str, Any]
    """Of the physics that it learned, by field; see :meth:`lab_core.physics.PhysicsBackend.fingerprint`."""
    extra: Mapping[str, Any]
    """What whoever saved it added: data, training, figures."""
    sha256: str
    """Of the file's content."""


def describe_model(
    model: NeRDModel, fingerprint: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns all of a model but its tensors as plain values; see :func:`save_model`."""
    return {
        "layout": model.layout.to_dict(),
        "network": model.network_name,
        "options": model.options,
        "contacts": None if model.search is None else asdict(model.search),
        "robot": None if model.robot is None else model.robot.to_dict(),
        "fingerprint": dict(fingerprint),
        "extra": dict(extra or {}),
    }


def model_maker(description: Mapping[str, Any]) -> Callable[[], NeRDModel]:
    """Returns what makes the model of :func:`describe_model`, with tensors that are still to be filled.

    Raises:
        KeyError: the description lacks something.
        TypeError: something in it is of another kind.
        ValueError: the same.
    """
    layout = RobotLayout.from_dict(description["layout"])
    network, options = description["network"], description["options"]
    contacts, described = description.get("contacts"), description.get("robot")
    search = None if contacts is None else ContactSearch(**contacts)
    robot = None if described is None else RobotProperties.from_dict(described)
    return lambda: NeRDModel(layout, network, options, search, robot)


def save_model(
    path: str | Path, model: NeRDModel, fingerprint: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> str:
    """Writes a model, whole or not at all, and returns the SHA-256 of its content.

    Args:
        path: The file, which is replaced.
        fingerprint: Of the physics that it learned.
        extra: Anything else worth knowing, plain values.
    """
    description = describe_model(model, fingerprint, extra)
    state = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.save({"description": json.dumps(description), "state": state}, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(f"{_MAGIC} {VERSION} {digest}\n".encode() + content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return digest


def load_model(path: str | Path, device: torch.device | str = "cpu") -> tuple[NeRDModel, ModelDescription]:
    """Reads a model, ready to predict.

    Raises:
        ConfigError: there is no such file, it is something else, damaged, of another version, or names an unknown
            network.
    """
    path = Path(path)
    content, digest = _read(path)
    try:
        saved = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        description = json.loads(saved["description"])
        state = saved["state"]
        make_model = model_maker(description)
        known = ModelDescription(description["fingerprint"], description["extra"], digest)
    except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{str(path)!r} holds no model: {type(error).__name__}: {error}") from error
    try:
        model = make_model()
        model.load_state_dict(state)
    except (ConfigError, RuntimeError) as error:
        raise ConfigError(f"{str(path)!r} does not fit this version of lab: {error}") from error
    return model.to(device).eval().requires_grad_(False), known


def _read(path: Path) -> tuple[bytes, str]:
    """Returns the content of a model file, checked, and its SHA-256."""
    try:
        with path.open("rb") as file:
            line, content = file.readline(_LONGEST_LINE), file.read()
    except FileNotFoundError:
        raise ConfigError(f"There is no model file {str(path)!r}; `lab nerd fit` makes one.") from None
    except OSError as error:
        raise ConfigError(f"Model file {str(path)!r}: {error.strerror}.") from error
    magic, _, rest = line.decode(errors="replace").rstrip("\n").partition(f"{_MAGIC} ")
    words = rest.split()
    if magic or len(words) != 2:
        raise ConfigError(f"{str(path)!r} is no model file: it does not begin with {_MAGIC!r}.")
    version, digest = words
    if version != str(VERSION):
        raise ConfigError(f"{str(path)!r} has version {version} of the format, this lab reads version {VERSION}.")
    if hashlib.sha256(content).hexdigest() != digest:
        raise ConfigError(f"{str(path)!r} is damaged or incomplete: its content does not match its SHA-256.")
    return content, digest
