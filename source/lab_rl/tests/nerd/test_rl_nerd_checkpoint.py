"""Checkpoints of a fit: what is saved comes back, and nothing else is opened."""

from __future__ import annotations

import io

import pytest
import torch

from lab_core.errors import LabError
from lab_rl.nerd.checkpoint import VERSION, FitCheckpoint, load_checkpoint, save_checkpoint
from lab_rl.runs.checkpoint import CheckpointError


@pytest.fixture
def checkpoint(layout, make_trainer) -> FitCheckpoint:
    trainer = make_trainer(precision="fp16")
    for _ in range(3):
        trainer.update()
    return FitCheckpoint(
        cfg=trainer.cfg,
        layout=layout,
        fingerprint={"timing": {"dt": 1.0 / 120.0}},
        sources=[{"file": "a.hdf5", "episodes": 12, "sha256": "12ab"}],
        pose_scale=torch.tensor([0.1, 0.2]),
        trainer=trainer.state_dict(),
        samplers=[trainer.sampler.state_dict()],
    )


@pytest.fixture
def path(tmp_path, checkpoint):
    path = tmp_path / "3.pt"
    save_checkpoint(path, checkpoint)
    return path


def rewrite(path, **changes) -> None:
    torch.save({**torch.load(path, weights_only=True), **changes}, path)


def test_what_is_saved_comes_back(path, checkpoint, assert_same):
    found = load_checkpoint(path)
    assert found.update == 3
    for name, value in vars(checkpoint).items():
        assert_same(getattr(found, name), value, name)


def test_the_scale_of_gradients_is_saved(path, checkpoint):
    scaler = load_checkpoint(path).trainer["scaler"]
    assert scaler["scale"] == checkpoint.trainer["scaler"]["scale"] and scaler["scale"] > 1.0
    assert "_growth_tracker" in scaler


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, None])
def test_another_version_is_refused(path, version):
    rewrite(path, version=version)
    with pytest.raises(CheckpointError, match=rf"3\.pt has version {version}, this lab_rl reads version 2"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [{"format_version": 1, "task": "Lab-Cartpole"}, [1, 2], torch.zeros(3)])
def test_something_else_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"other\.pt is no checkpoint of `lab nerd fit`"):
        load_checkpoint(tmp_path / "other.pt")


def test_a_text_is_refused(tmp_path):
    (tmp_path / "notes.pt").write_text("loss 0.1\n")
    with pytest.raises(CheckpointError, match=r"Cannot read the checkpoint .*notes\.pt"):
        load_checkpoint(tmp_path / "notes.pt")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match=r"Cannot read the checkpoint .*3\.pt: \S"):
        load_checkpoint(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.pt"):
        load_checkpoint(tmp_path / "none.pt")


class Opened:
    """Would say so when it is read."""

    def __reduce__(self):
        return print, ("opened",)


def test_reading_runs_nothing(tmp_path, capsys):
    buffer = io.BytesIO()
    torch.save({"kind": "lab NeRD fit", "version": VERSION, "described": Opened()}, buffer)
    (tmp_path / "evil.pt").write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointError, match=r"evil\.pt"):
        load_checkpoint(tmp_path / "evil.pt")
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_not_there_cannot_be_written(tmp_path, checkpoint):
    with pytest.raises(LabError, match=r"3\.pt"):
        save_checkpoint(tmp_path / "none" / "3.pt", checkpoint)
