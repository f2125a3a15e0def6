"""Model files: what is saved comes back, and nothing else is opened."""

from __future__ import annotations

import hashlib
import io
import json
import os

import pytest
import torch

from lab_core.errors import ConfigError
from lab_newton.nerd import load_model, save_model

FINGERPRINT = {"timing": {"dt": 0.005}}


@pytest.fixture
def path(tmp_path, rover_layout, make_model):
    path = tmp_path / "models" / "rover.nerd"
    save_model(path, make_model(rover_layout), FINGERPRINT, {"updates": 3})
    return path


def rewrite(path, change) -> None:
    """Lets ``change`` edit the content of a model file, and gives it the hash that belongs to it."""
    line, _, content = path.read_bytes().partition(b"\n")
    saved = torch.load(io.BytesIO(content), weights_only=True)
    description = json.loads(saved["description"])
    change(description, saved)
    buffer = io.BytesIO()
    torch.save({**saved, "description": json.dumps(description)}, buffer)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    path.write_bytes(b" ".join([*line.split(b" ")[:-1], digest.encode()]) + b"\n" + buffer.getvalue())


def test_what_is_saved_comes_back(path, rover_layout, make_model, make_state):
    model, description = load_model(path)
    original = make_model(rover_layout)
    assert model.layout == rover_layout and model.options == {"hidden": [16, 16]} and not model.training
    assert description.fingerprint == FINGERPRINT and description.extra == {"updates": 3}
    assert description.sha256 == hashlib.sha256(path.read_bytes().partition(b"\n")[2]).hexdigest()
    features = original.representation.features(*make_state(rover_layout, 5, 1))
    assert torch.equal(model.predict(features), original.predict(features))
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_failed_write_leaves_the_old_file(path, rover_layout, make_model, monkeypatch):
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(path, make_model(rover_layout, seed=1), FINGERPRINT)
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="There is no model file"):
        load_model(tmp_path / "none.nerd")


@pytest.mark.parametrize("keep", [0, 10, 60, 5000])
def test_a_truncated_file(path, keep):
    content = path.read_bytes()
    assert len(content) > 5000
    path.write_bytes(content[:keep])
    with pytest.raises(ConfigError, match="no model file|damaged or incomplete"):
        load_model(path)


def test_a_flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ConfigError, match="does not match its SHA-256"):
        load_model(path)


def test_a_file_of_torch_is_no_model_file(tmp_path):
    torch.save({}, tmp_path / "weights.pt")
    with pytest.raises(ConfigError, match="is no model file"):
        load_model(tmp_path / "weights.pt")


@pytest.mark.parametrize("version", ["1", "3"])
def test_another_version(path, version):
    magic, _, rest = path.read_bytes().partition(b" 2 ")
    path.write_bytes(magic + f" {version} ".encode() + rest)
    with pytest.raises(ConfigError, match=f"has version {version} of the format, this lab reads version 2"):
        load_model(path)


def test_an_unknown_network(path):
    rewrite(path, lambda description, saved: description.update(network="os.system"))
    with pytest.raises(ConfigError, match="unknown network 'os.system'"):
        load_model(path)


def test_an_unknown_option(path):
    rewrite(path, lambda description, saved: description["options"].update(depth=3))
    with pytest.raises(ConfigError, match="Options of the network MLP: .*depth"):
        load_model(path)


def test_an_unknown_field_of_the_layout(path):
    """So does a model say no that was driven by something else than efforts."""
    rewrite(path, lambda description, saved: description["layout"].update(target="position"))
    with pytest.raises(ConfigError, match="holds no model: .*target"):
        load_model(path)


def test_weights_of_another_network(path):
    rewrite(path, lambda description, saved: description["options"].update(hidden=[8]))
    with pytest.raises(ConfigError, match="does not fit this version of lab"):
        load_model(path)


def test_nothing_in_it_is_run(path, tmp_path):
    class Payload:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "ran"),))

    buffer = io.BytesIO()
    torch.save({"description": "{}", "state": Payload()}, buffer)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    path.write_bytes(f"lab NeRD model 2 {digest}\n".encode() + buffer.getvalue())
    with pytest.raises(ConfigError, match="holds no model"):
        load_model(path)
    assert not (tmp_path / "ran").exists()
