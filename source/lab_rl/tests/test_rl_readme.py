"""What the documents show works as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lab_core.cli import main
from lab_core.registry import EntryPointGroup, task_ids
from lab_rl.cli import options, play, train

ROOT = Path(__file__).parents[3]
README = (Path(__file__).parents[1] / "README.md").read_text()


def documented_commands() -> list[str]:
    """Every ``lab ...`` in a code block or between backticks that has no placeholder."""
    found = set()
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("source/*/README.md")):
        text = path.read_text()
        for block in re.findall(r"```(?:bash)?\n(.*?)```", text, re.DOTALL):
            found |= set(re.findall(r"^(?:.*&& )?(?:uv run )?(lab \w[^#\n]*)", block, re.MULTILINE))
        found |= set(re.findall(r"`(lab [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    commands = {" ".join(command.split()) for command in found}
    return sorted(command for command in commands if not re.search(r"\b(TASK|RUN)\b|[<>$]", command))


def test_python_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3", "4", "5"]


def test_documents_show_commands():
    assert {command.split()[1] for command in documented_commands()} >= {"train", "play", "export", "list", "info"}


@pytest.mark.parametrize("command", documented_commands())
def test_documented_commands_are_understood(command, tmp_path, monkeypatch, capsys):
    _, name, *arguments = shlex.split(command)
    assert name in EntryPointGroup("lab.commands", "command").names()
    if name not in ("train", "play", "export") or not arguments:
        return
    if arguments[0] not in task_ids():
        pytest.skip("lab_tasks is not installed")
    monkeypatch.chdir(tmp_path)
    done = []
    monkeypatch.setattr(train, "_train", lambda *given: done.append(given) or 0)
    monkeypatch.setattr(train, "launch_processes", lambda *given: None)
    monkeypatch.setattr(play, "_play", lambda *given: done.append(given) or 0)
    if name == "play":
        monkeypatch.setattr(options, "trained_policy", lambda *given: None)
    code = main([name, *arguments])
    captured = capsys.readouterr()
    if name == "export":  # understood, and there is nothing to export
        assert "No trained policy for" in captured.err + captured.out
    else:
        assert code == 0 and len(done) == 1, captured.err
