"""The examples of docs/recorder.md run as they stand, and its commands are understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lab_core.cli import main
from lab_core.cli import record as record_command
from lab_core.cli import replay as replay_command
from lab_core.datasets import RecordedDataset
from lab_core.registry import task_ids

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "recorder.md").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_examples_run(example, capsys):
    exec(compile(example, "recorder.md", "exec"), {"__name__": "recorder"})
    printed = capsys.readouterr().out
    assert "length=60" in printed


def commands() -> list[str]:
    (block,) = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.splitlines()]


@pytest.mark.parametrize("command", [line for line in commands() if line.split()[1] in ("record", "replay")])
def test_commands_are_understood(command, monkeypatch, capsys):
    """Up to where they would begin to work."""
    _, name, *arguments = shlex.split(command)
    if name == "record" and arguments[0] not in task_ids():
        pytest.skip(f"{arguments[0]} is not installed")
    seen = []
    monkeypatch.setattr(record_command, "_record", lambda *given: seen.append(given) or 0)
    monkeypatch.setattr(replay_command, "_replay", lambda *given: seen.append(given) or pytest.fail("stop"))
    if name == "record":
        assert main([name, *arguments]) == 0
    else:
        with pytest.raises(pytest.fail.Exception, match="stop"):
            main([name, *arguments])
    assert len(seen) == 1


def test_data_commands_do_what_they_say(tmp_path, monkeypatch, capsys):
    """In a folder with two small recordings of the names that the document uses."""
    pytest.importorskip("matplotlib")
    import torch

    from lab_core.datasets import DatasetCfg
    from lab_core.recorder import RecorderCfg
    from lab_core.recorder.presets import transition_terms
    from lab_core.testing.cartpole import analytic_cartpole_env_cfg

    monkeypatch.chdir(tmp_path)
    for label in ("standing", "walking"):
        cfg = analytic_cartpole_env_cfg(10, episode_length_s=0.05)
        cfg.recorder = RecorderCfg(terms=transition_terms(), dataset=DatasetCfg(folder=Path("go2", label), label=label))
        env = cfg.build()
        for _ in range(3):
            env.step(torch.zeros(10, 1))
        env.close()
    data = [line for line in commands() if line.split()[1] == "data"]
    assert len(data) == 5
    for command in data:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr()
    assert len(RecordedDataset("go2/all.hdf5")) == 20 and Path("joints.png").exists()
    assert [len(RecordedDataset(f"go2/parts/{name}.hdf5")) for name in ("train", "valid", "test")] == [16, 2, 2]


def test_every_row_names_tests_that_exist():
    rows = re.findall(r"^\| (R\d+) \| [^|]+ \| ([^|]+) \|$", REQUIREMENTS, re.MULTILINE)
    assert [row for row, _ in rows] == [f"R{number}" for number in range(1, 21)]
    for row, tests in rows:
        named = re.findall(r"`(test_\w+\.py)::(?:\w+::)?(test_\w+)`", tests)
        assert len(named) == tests.count("`") // 2 > 0, row
        for file, test in named:
            (path,) = ROOT.glob(f"source/*/tests/**/{file}")
            assert re.search(rf"def {test}\(", path.read_text(encoding="utf-8")), f"{row}: {file}::{test}"
