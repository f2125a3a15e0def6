"""The README names every task, and its example and those of the guide to environments run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import torch

GUIDE = (Path(__file__).parents[3] / "docs" / "environments.md").read_text()
README = (Path(__file__).parents[1] / "README.md").read_text()


def test_readme_names_every_task_and_no_other():
    announced = {point.name for point in entry_points(group="lab.tasks") if point.value.startswith("lab_tasks.")}
    assert set(re.findall(r"`(Lab-[\w-]+)`", README)) == announced


@pytest.mark.slow
def test_readme_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert "slider_to_cart" in capsys.readouterr().out


def test_examples_of_the_guide_to_environments_run():
    # lab_core tests the wrappers of gymnasium, and terms without the simulation need states.
    build, _, term, _, thing, ghost, marker = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    scope = {}
    exec(compile(build, "environments.md", "exec"), scope)
    assert scope["observations"]["policy"].shape == (16, 4)
    exec(compile(term, "environments.md", "exec"), scope)
    exec(compile(thing, "environments.md", "exec"), scope)
    env = scope["cfg"].build(device="cpu")
    assert env.scene["cube"].data.root_link_pose_w[:, 2].tolist() == pytest.approx([1.0] * 16)
    env.scene["robot"].data.joint_vel[3, 0] = 9.0
    env.physics.mark_written(torch.arange(16) == 3)
    env.step(torch.zeros(16, 1))
    speed = env.reward_manager.step_reward[:, env.reward_manager.term_names.index("speed")]
    assert speed[3] == pytest.approx(-0.1) and not speed[:3].any()
    (bare,) = scope["env"].render()
    exec(compile(ghost, "environments.md", "exec"), scope)
    assert _changed(scope["picture"], bare) > 100
    haunted = scope["picture"]
    exec(compile(marker, "environments.md", "exec"), scope)
    assert _changed(scope["picture"], haunted) > 20


def _changed(picture: np.ndarray, before: np.ndarray) -> int:
    """Number of pixels that differ clearly."""
    return int((np.abs(picture.astype(int) - before).max(axis=-1) > 20).sum())


@pytest.mark.slow
def test_the_guide_to_a_task_of_ones_own_runs(tmp_path):
    """As files of the names that it gives them."""
    for name, text in re.findall(r"```python (\w+\.py)\n(.*?)```", GUIDE, flags=re.DOTALL):
        (tmp_path / name).write_text(text)

    def run(*arguments: str) -> str:
        command = [sys.executable, "run.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "Balance without haste." in run("list")
    run("record", "My-Cartpole", "--policy", "zero", "--episodes", "1", "--env.episode-length-s", "0.5")
    assert "My-Cartpole" in run("data", "info", "recordings/My-Cartpole")
