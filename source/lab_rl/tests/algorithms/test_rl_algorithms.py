"""Algorithms that other packages bring, from the command line to the exported file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lab_core.agents import AgentCfg
from lab_core.errors import ConfigError, PluginError
from lab_core.registry import TaskSpec
from lab_rl.algorithms import algorithm_names, base, get_algorithm, make_agent_cfg
from lab_rl.runs import load_checkpoint

GUIDE = Path(__file__).parents[4] / "docs" / "algorithms.md"
RUN = """
from lab_core.cli import main
from lab_core.registry import TaskSpec, register_task
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

register_task(TaskSpec(id="Stub-Cartpole", env_cfg=lambda play=False: analytic_cartpole_env_cfg(num_envs=32)))
raise SystemExit(main())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The guide's package, as if it were installed."""
    folder = tmp_path_factory.mktemp("package")
    blocks = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE))
    (folder / "evolution.py").write_text(blocks["evolution.py"])
    (folder / "run.py").write_text(RUN)
    info = folder / "evolution-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: evolution\nVersion: 1.0\n")
    section = blocks["entry_points"].replace('[project.entry-points."lab.algorithms"]', "[lab.algorithms]")
    info.joinpath("entry_points.txt").write_text(section.replace('"', ""))
    return folder


def lab(package: Path, *argv: str) -> str:
    command = [sys.executable, "run.py", *argv]
    environ = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, cwd=package, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_an_algorithm_of_another_package_trains_resumes_plays_and_exports(package):
    common = ("--device", "cpu", "--no-video")
    out = lab(package, "train", "Stub-Cartpole", "--algorithm", "evolution", "--max-iterations", "6", *common)
    assert "iteration 6/6" in out
    run = (package / "logs" / "Stub-Cartpole" / "latest").resolve()
    assert run.joinpath("curves.png").exists() and "EvolutionCfg" in run.joinpath("config.yaml").read_text()
    whole = load_checkpoint(run / "checkpoints" / "6.pt")
    assert whole.runner["weights"].abs().sum() > 0

    out = lab(package, "train", "Stub-Cartpole", "--algorithm", "evolution", "--max-iterations", "3", "--name", "half",
              *common)  # fmt: skip
    half = (package / "logs" / "Stub-Cartpole" / "latest").resolve()
    lab(package, "train", "--resume", str(half), "--max-iterations", "6", "--no-video")
    resumed = load_checkpoint(half / "checkpoints" / "6.pt")
    assert torch.equal(resumed.runner["weights"], whole.runner["weights"])

    out = lab(package, "export", "Stub-Cartpole", "--algorithm", "evolution")
    assert "checked with onnxruntime" in " ".join(out.split())
    out = lab(package, "play", "Stub-Cartpole", "--algorithm", "evolution", "--help")
    assert "lab play Stub-Cartpole" in out


def test_the_guide_learns(package, monkeypatch):
    """The example is no decoration: the pole stays up for longer."""
    from lab_core.testing import analytic_cartpole_env_cfg

    monkeypatch.syspath_prepend(package)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import evolution

    cfg = analytic_cartpole_env_cfg(num_envs=128)
    cfg.seed = 1
    runner = evolution.Evolution().make_runner(cfg.build("cpu"), evolution.EvolutionCfg())
    lengths = [runner.iterate().episode_length for _ in range(15)]
    assert lengths[-1] > 1.3 * lengths[0]


class TestWrongAlgorithms:
    TASK = TaskSpec(id="T", env_cfg=dict, agents={})

    def test_one_that_nobody_brings_is_named_with_those_that_are_there(self):
        with pytest.raises(ConfigError, match=r"unknown algorithm 'pop'.*ppo"):
            make_agent_cfg(self.TASK, "pop")

    def test_a_task_without_agents_has_no_default(self):
        with pytest.raises(ConfigError, match="task 'T' has no agent"):
            make_agent_cfg(self.TASK)

    def test_settings_are_the_defaults_where_the_task_has_none(self):
        assert make_agent_cfg(self.TASK, "ppo") == get_algorithm("ppo").cfg_type()

    def test_settings_of_the_task_come_first(self):
        cfg = get_algorithm("ppo").cfg_type(gamma=0.5)
        task = TaskSpec(id="T", env_cfg=dict, agents={"other": AgentCfg, "ppo": lambda: cfg})
        assert make_agent_cfg(task, "ppo") is cfg and type(make_agent_cfg(task)) is AgentCfg

    def test_an_entry_point_of_another_kind_is_refused(self, monkeypatch):
        monkeypatch.setattr(base._ALGORITHMS, "load", lambda name: dict)
        with pytest.raises(PluginError, match="'ppo' of package 'lab_rl' is no class of Algorithm"):
            get_algorithm("ppo")

    def test_settings_that_call_it_otherwise_are_refused(self, monkeypatch):
        cls = type(get_algorithm("ppo"))
        monkeypatch.setattr(base._ALGORITHMS, "load", lambda name: cls)
        monkeypatch.setattr(base._ALGORITHMS, "names", lambda: ["ppo", "mine"])
        monkeypatch.setattr(base._ALGORITHMS, "package", lambda name: "mine")
        with pytest.raises(PluginError, match="'mine' of package 'mine' has settings, PPOCfg, that call it 'ppo'"):
            get_algorithm("mine")

    def test_names_are_known_without_importing(self):
        assert "ppo" in algorithm_names()
