"""The guide's physics backend, found by its entry point and chosen by configuration, moves an environment."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from lab_core.testing import analytic_cartpole_env_cfg

GUIDE = Path(__file__).parents[4] / "docs" / "environments.md"
JOINTS = ("slider_to_cart", "cart_to_pole")


@pytest.fixture
def env(tmp_path, monkeypatch):
    blocks = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE))
    info = tmp_path / "slides-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: slides\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(re.sub(r'project\.entry-points\.|"', "", blocks["backend"]))
    (tmp_path / "slides.py").write_text(blocks["slides.py"])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slides", raising=False)
    import slides

    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.physics = slides.SlidesCfg(dt=0.01, joints=JOINTS)
    env = cfg.build("cpu")
    assert type(env.physics) is slides.Slides
    env.reset(seed=0)
    return env


def test_a_force_moves_the_masses_as_newton_says(env):
    data = env.scene["robot"].data
    data.joint_pos.zero_()
    data.joint_vel.zero_()
    data.joint_damping.zero_()
    env.step(torch.full((4, 1), 0.5))
    speed = 0.5 * 100.0 * env.step_dt
    assert torch.allclose(data.joint_vel[:, 0], torch.full((4,), speed)) and not data.joint_vel[:, 1].any()


def test_a_reset_touches_the_rows_of_its_mask_alone(env):
    for _ in range(3):
        env.step(torch.full((4, 1), 0.1))
    before = env.physics.state_dict()
    env.reset(mask=torch.tensor([False, True, False, True]))
    after = env.physics.state_dict()
    for name, values in after.items():
        assert torch.equal(values[[0, 2]], before[name][[0, 2]]), name
    assert not torch.equal(after["joint_pos"][[1, 3]], before["joint_pos"][[1, 3]])


def test_what_becomes_non_finite_ends_is_counted_and_leaves_its_neighbours_alone(env):
    env.scene["robot"].data.joint_vel[2, 0] = torch.nan
    observations, rewards, terminated, _, _ = env.step(torch.zeros(4, 1))
    assert terminated.tolist() == [False, False, True, False]
    assert observations["policy"].isfinite().all() and rewards.isfinite().all()
    assert env.health().non_finite_envs == 1 and env.health().ok


def test_a_loaded_state_goes_on_bit_for_bit(env):
    saved = env.state_dict()
    first = env.step(torch.full((4, 1), 0.2))[0]["policy"]
    env.load_state_dict(saved)
    assert torch.equal(env.step(torch.full((4, 1), 0.2))[0]["policy"], first)
