"""What is said of the software that made a result."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

import lab_core
from lab_core.versions import git_revision

GIT = shutil.which("git")


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
