"""Edits of settings with which a run of motion tracking goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_core.agents import SuperMimicCfg
from lab_core.config import dump_yaml
from lab_core.errors import ConfigError
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.runs import Checkpoint, RunCfg
from lab_rl.runs.resume import edited_settings


def run_cfg(**agent) -> RunCfg:
    cfg = SuperMimicCfg()
    for name, value in agent.items():
        part, _, last = name.rpartition("__")
        setattr(getattr(cfg, part) if part else cfg, last, value)
    return RunCfg(task="Task", device="cpu", env=analytic_cartpole_env_cfg(num_envs=2), agent=cfg)


@pytest.fixture
def stored() -> Checkpoint:
    cfg = run_cfg()
    return Checkpoint(
        task="Task",
        config_hash=cfg.hash(),
        num_envs=2,
        observations={},
        actions=[],
        runner={"iteration": 1},
        config=dump_yaml(cfg.problem()),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("exploration", (0.3,)), ("optimizer", "muon"), ("world_model__hidden_dims", (8,)), ("obs_groups", {"actor": ()})],
)
def test_what_its_state_holds_is_refused_by_name(stored, name, value):
    with pytest.raises(ConfigError, match=rf"agent.{name.replace('__', '.')}.*it acts on a new run only"):
        edited_settings(stored, Path("2.pt"), run_cfg(**{name: value}))


@pytest.mark.parametrize("name", ["learning_rate", "critic_learning_rate", "world_model__learning_rate", "gamma"])
def test_what_acts_is_taken(stored, name):
    changes = edited_settings(stored, Path("2.pt"), run_cfg(**{name: 0.5}))
    assert list(changes) == [f"agent.{name.replace('__', '.')}"]
