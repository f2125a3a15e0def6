"""Models as modules of PhysicsNeMo: they predict the same, come back whole, and nothing else is opened.

A small stand-in takes the place of PhysicsNeMo where that is not installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import subprocess
import sys
import types
import zipfile

import pytest
import torch

from lab_core.errors import ConfigError
from lab_newton.nerd import NETWORKS, load_mdlus, mdlus, save_mdlus

FINGERPRINT = {"timing": {"dt": 0.005}}
INSTALLED = importlib.util.find_spec("physicsnemo") is not None


class Module(torch.nn.Module):
    """Keeps the arguments that it is made of, and writes them beside its tensors, as PhysicsNeMo 2.2 does."""

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.__dict__["_args"] = {
            "__name__": cls.__name__, "__module__": cls.__module__, "__args__": {"description": args[0]}
        }  # fmt: skip
        return made

    def __init__(self, meta=None):
        super().__init__()
        self.meta = meta
        self.register_buffer("device_buffer", torch.empty(0), persistent=False)

    def save(self, file_name):
        buffer = io.BytesIO()
        torch.save(self.state_dict(), buffer)
        with zipfile.ZipFile(file_name, "w") as archive:
            archive.writestr("model.pt", buffer.getvalue())
            archive.writestr("args.json", json.dumps(self._args))
            archive.writestr("metadata.json", "{}")


@pytest.fixture
def physicsnemo(monkeypatch):
    """PhysicsNeMo, or its stand-in."""
    mdlus.module_class.cache_clear()
    if not INSTALLED:
        core = types.ModuleType("physicsnemo.core")
        core.__dict__.update(Module=Module, ModelMetaData=object)
        monkeypatch.setitem(sys.modules, "physicsnemo", types.ModuleType("physicsnemo"))
        monkeypatch.setitem(sys.modules, "physicsnemo.core", core)
    yield importlib.import_module("physicsnemo.core")
    mdlus.module_class.cache_clear()


@pytest.fixture
def path(physicsnemo, tmp_path, rover_layout, make_model):
    path = tmp_path / "rover.mdlus"
    save_mdlus(path, make_model(rover_layout), FINGERPRINT, {"updates": 3})
    return path


def rewrite(path, **files: bytes) -> None:
    """Puts other content in the place of members of the file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members |= {name.replace("_", "."): content for name, content in files.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "network, options",
    [
        ("MLP", {"hidden": [16, 16]}),
        ("VectorNeRD", {"context": 3, "size": 16, "depth": 1, "heads": 2}),
        ("ParallelNeRD", {"context": 3, "size": 16, "depth": 1, "body_depth": 1, "heads": 2}),
    ],
)
def test_a_module_predicts_what_its_model_does_and_comes_back(
    physicsnemo, tmp_path, rover_layout, make_model, make_state, network, options
):
    model = make_model(rover_layout, network, **options)
    path = tmp_path / "models" / "rover.mdlus"
    digest = save_mdlus(path, model, FINGERPRINT, {"updates": 3})
    loaded, known = load_mdlus(path, digest)
    assert known.fingerprint == FINGERPRINT and known.extra == {"updates": 3} and known.sha256 == digest
    states = make_state(rover_layout, 5, model.network.context)
    expected = model.predict(model.representation.features(*states))
    assert torch.equal(loaded.predict(loaded.representation.features(*states)), expected)
    assert [file.name for file in path.parent.iterdir()] == ["rover.mdlus"]

    made = getattr(mdlus, f"Lab{network}")
    assert issubclass(made, physicsnemo.Module) and made is mdlus.module_class(network)
    with zipfile.ZipFile(path) as archive:
        args = json.loads(archive.read("args.json"))
        state = torch.load(io.BytesIO(archive.read("model.pt")), weights_only=True)
    assert (args["__name__"], args["__module__"]) == (f"Lab{network}", "lab_newton.nerd.mdlus")
    module = made(**args["__args__"]) if INSTALLED else made(args["__args__"]["description"])
    module.load_state_dict(state)
    assert torch.equal(module(*states), expected)


def test_every_network_is_announced_under_its_name():
    found = {point.name: point.value for point in importlib.metadata.entry_points(group="physicsnemo.models")}
    ours = {name: value for name, value in found.items() if value.startswith("lab_newton.")}
    assert ours == {f"Lab{name}": f"lab_newton.nerd.mdlus:Lab{name}" for name in NETWORKS}


def test_physicsnemo_is_not_imported_before_it_is_asked_for():
    code = "import sys, lab_newton.nerd; assert 'physicsnemo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_physicsnemo_the_message_says_what_to_install(monkeypatch, tmp_path, rover_layout, make_model):
    mdlus.module_class.cache_clear()
    monkeypatch.setitem(sys.modules, "physicsnemo", None)
    monkeypatch.setitem(sys.modules, "physicsnemo.core", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lab_newton\[nerd\]'"):
        save_mdlus(tmp_path / "rover.mdlus", make_model(rover_layout), FINGERPRINT)
    with pytest.raises(ModuleNotFoundError, match="lab_newton"):
        _ = mdlus.LabMLP
    with pytest.raises(AttributeError, match="LabNothing"):
        _ = mdlus.LabNothing


def test_what_a_file_names_is_neither_imported_nor_run(path):
    with zipfile.ZipFile(path) as archive:
        args = json.loads(archive.read("args.json"))
    rewrite(path, args_json=json.dumps(args | {"__name__": "Evil", "__module__": "no_such_module"}).encode())
    with pytest.raises(ConfigError, match="holds a Evil, which is none of our networks"):
        load_mdlus(path)
    buffer = io.BytesIO()
    torch.save({"model.inputs.mean": print}, buffer)
    rewrite(path, args_json=json.dumps(args).encode(), model_pt=buffer.getvalue())
    with pytest.raises(ConfigError, match="holds no model"):
        load_mdlus(path)


def test_other_files_are_refused(path, tmp_path, rover_layout, make_model):
    with pytest.raises(ConfigError, match="SHA-256 is .*, not 12ab"):
        load_mdlus(path, "12ab")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ConfigError, match="holds no model"):
        load_mdlus(path)
    with pytest.raises(ConfigError, match="No such file"):
        load_mdlus(tmp_path / "nothing.mdlus")
    with pytest.raises(ConfigError, match="end with .mdlus"):
        save_mdlus(tmp_path / "rover.nerd", make_model(rover_layout), FINGERPRINT)


def test_a_module_is_of_one_network(physicsnemo, rover_layout, make_model):
    description = mdlus.describe_model(make_model(rover_layout), FINGERPRINT)
    with pytest.raises(ConfigError, match="LabVectorNeRD cannot be a MLP"):
        mdlus.module_class("VectorNeRD")(description)
