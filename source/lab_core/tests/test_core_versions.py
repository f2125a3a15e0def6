"""What is said of the software that made a result."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

import lab_core
from lab_core.versions import git_revision, versions

GIT = shutil.which("git")


def test_a_task_that_nobody_offers_has_no_origin():
    assert versions("Nowhere")["task"] == {"id": "Nowhere", "package": None, "version": None, "git": None}


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_a_task_is_told_with_its_package_and_the_revision_of_its_own_checkout(tmp_path, monkeypatch):
    """Installed as editable from a checkout elsewhere."""
    task = 'from lab_core.registry import TaskSpec\nTASK = TaskSpec(id="Elsewhere", env_cfg="x:y")\n'
    (tmp_path / "elsewhere_task.py").write_text(task)
    info = tmp_path / "elsewhere-4.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 4.2\n")
    (info / "entry_points.txt").write_text("[lab.tasks]\nElsewhere = elsewhere_task:TASK\n")
    for command in (["init"], ["add", "elsewhere_task.py"], ["commit", "-m", "first"]):
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "elsewhere_task.py").write_text(task + "# edited\n")
    monkeypatch.syspath_prepend(tmp_path)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert versions("Elsewhere")["task"] == {
        "id": "Elsewhere",
        "package": "elsewhere",
        "version": "4.2",
        "git": {"revision": head.stdout.strip(), "dirty": True},
    }


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_asking_for_the_revision_writes_nothing_to_the_checkout(tmp_path, monkeypatch):
    """Git refreshes its index where a file's time is new; a program that dies in it would leave the lock behind."""
    monkeypatch.setattr(lab_core, "__file__", str(tmp_path / "__init__.py"))

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "file").write_text("text")
    git("init")
    git("add", "file")
    git("commit", "-m", "first")
    os.utime(tmp_path / "file", (1e9, 1e9))
    index = tmp_path / ".git/index"
    before = index.read_bytes()
    revision = git_revision()
    assert revision is not None and revision["dirty"] is False
    assert index.read_bytes() == before
