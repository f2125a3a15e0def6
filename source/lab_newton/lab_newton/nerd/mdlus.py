"""Models as files and modules of PhysicsNeMo (nvidia-physicsnemo 2.2, extra ``nerd``).

A class per network, made when somebody asks for it: ``from lab_newton.nerd.mdlus import LabVectorNeRD``, or by name
through the entry points ``physicsnemo.models``. PhysicsNeMo is imported then, not before.

``physicsnemo.core.Module.from_checkpoint`` imports what a file names. :func:`load_mdlus` makes one of our networks or
nothing, runs nothing that the file holds, and needs no PhysicsNeMo.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab_core.errors import ConfigError, unknown_name_message
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.model_file import ModelDescription, describe_model, model_maker
from lab_newton.nerd.networks import NETWORKS, Contacts

SUFFIX = ".mdlus"
_PREFIX = "Lab"
"""Before names of networks: all packages share one table of names in PhysicsNeMo."""
_MODEL = "model."
"""Where the model lies in the module."""
_BROKEN = (
    pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, ValueError, KeyError, TypeError, AttributeError
)  # fmt: skip
"""What a file that is none of ours, or damaged, raises while it is read."""


def __getattr__(name: str) -> Any:
    if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in NETWORKS:
        return module_class(name.removeprefix(_PREFIX))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def module_class(network: str) -> type[nn.Module]:
    """Returns the subclass of ``physicsnemo.core.Module`` that is a model with ``network``.

    It is made from a description, :func:`lab_newton.nerd.model_file.describe_model`, which a file keeps. Its
    ``forward`` takes poses (B, T, Q), velocities (B, T, V) and efforts (B, T, J) of windows of frames, oldest first,
    contacts of the same frames if it sees any, and how many frames count (B,); it returns changes of velocity (B, V)
    in the step after the last of them. ``model`` is the model, which also moves poses.

    Raises:
        ConfigError: there is no such network.
        ModuleNotFoundError: PhysicsNeMo is not installed.
    """
    if network not in NETWORKS:
        raise ConfigError(unknown_name_message("network", network, NETWORKS))
    try:
        core: Any = importlib.import_module("physicsnemo.core")
    except ModuleNotFoundError as error:
        message = f"Modules of PhysicsNeMo need pip install 'lab_newton[nerd]': {error}"
        raise ModuleNotFoundError(message, name=error.name) from error

    def __init__(self: Any, description: dict[str, Any]) -> None:
        if description["network"] != network:
            raise ConfigError(f"{_PREFIX}{network} cannot be a {description['network']}.")
        core.Module.__init__(self, meta=core.ModelMetaData())
        self.model = model_maker(description)()

    def forward(
        self: Any,
        q: Tensor,
        qd: Tensor,
        effort: Tensor,
        contacts: Contacts | None = None,
        length: Tensor | None = None,
    ) -> Tensor:
        return self.model.predict(self.model.representation.features(q, qd, effort), contacts, length)

    members = {"__init__": __init__, "forward": forward, "__module__": __name__, "__doc__": NETWORKS[network].__doc__}
    return type(f"{_PREFIX}{network}", (core.Module,), members)


def save_mdlus(
    path: str | Path, model: NeRDModel, fingerprint: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> str:
    """Writes a model as a module of PhysicsNeMo, whole or not at all, and returns the SHA-256 of the file.

    Args:
        path: The file, which is replaced; its name ends with ``.mdlus``.
        model: The model.
        fingerprint: Of the physics that it learned.
        extra: Anything else worth knowing, plain values.

    Raises:
        ConfigError: the name ends otherwise.
        ModuleNotFoundError: PhysicsNeMo is not installed.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ConfigError(f"Files of PhysicsNeMo end with {SUFFIX}, got {str(path)!r}.")
    module: Any = module_class(model.network_name)(describe_model(model, fingerprint, extra))
    module.model.load_state_dict(model.state_dict())
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{SUFFIX}")
    try:
        module.save(str(partial))
        digest = load_mdlus(partial)[1].sha256
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return digest


def load_mdlus(path: str | Path, sha256: str | None = None) -> tuple[NeRDModel, ModelDescription]:
    """Reads a model that :func:`save_mdlus` wrote, ready to predict.

    Args:
        path: The file.
        sha256: What its SHA-256 must be; None: any.

    Raises:
        ConfigError: there is no such file, it is another one, damaged, or of a class that is none of ours.
    """
    where = str(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"Model file {where!r}: {error.strerror}.") from error
    digest = hashlib.sha256(content).hexdigest()
    if sha256 is not None and digest != sha256:
        raise ConfigError(f"{where!r} is another file than was meant: its SHA-256 is {digest}, not {sha256}.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            made_by, weights = json.loads(archive.read("args.json")), archive.read("model.pt")
        name, description = made_by["__name__"], made_by["__args__"].get("description")
        if name.removeprefix(_PREFIX) not in NETWORKS or description is None:
            raise ConfigError(f"It holds a {name}, which is none of our networks.")
        state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
        known = ModelDescription(description["fingerprint"], description["extra"], digest)
        model = model_maker(description)()
        model.load_state_dict({key.removeprefix(_MODEL): value for key, value in state.items()})
    except ConfigError as error:
        raise ConfigError(f"{where!r} does not fit this version of lab: {error}") from error
    except _BROKEN as error:
        raise ConfigError(f"{where!r} holds no model: {type(error).__name__}: {error}") from error
    return model.eval().requires_grad_(False), known
