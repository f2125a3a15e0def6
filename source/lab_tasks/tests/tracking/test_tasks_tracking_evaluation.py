"""Figures of tracking: the baseline without a policy falls, and errors are what they are called."""

from __future__ import annotations

import pytest
import torch

from lab_core.managers import SceneEntityCfg
from lab_tasks.tracking.errors import tracking_errors
from lab_tasks.tracking.evaluation import MotionEvaluator
from lab_tasks.tracking.g1 import g1_env_cfg

CLIPS = ("stand", "wave")


@pytest.fixture(scope="module")
def evaluated():
    cfg, evaluator = g1_env_cfg(play=True), MotionEvaluator()
    cfg.commands["motion"].clips = CLIPS
    evaluator.configure(cfg, replicas=2)
    env = cfg.build()
    yield env, evaluator.evaluate(env, lambda observations: torch.zeros(env.num_envs, 29))
    env.close()


def test_targets_alone_do_not_hold_the_robot(evaluated):
    _, found = evaluated
    assert [(row["clip"], row["replica"]) for row in found.rows] == [(clip, copy) for copy in (0, 1) for clip in CLIPS]
    assert found.summary["failed"] == 4 and found.summary["failed_clips"] == sorted(CLIPS)
    for row in found.rows:
        assert row["failed"] and row["failed_at_s"] == pytest.approx(1.4, abs=0.2)  # what plain MuJoCo gives, too
        assert 0.05 < row["return"] < row["failed_at_s"] / (row["frames"] * 0.02)
        assert 0.0 < row["mpjpe_r"] < row["mpjpe_g"]


def test_replicas_do_the_same(evaluated):
    _, found = evaluated
    first, second = found.rows[0], found.rows[2]
    assert first["failed_at_s"] == second["failed_at_s"] and first["return"] == pytest.approx(second["return"])


def test_drift_is_an_error_in_the_world_alone(evaluated):
    """T5."""
    env, _ = evaluated
    env.reset()
    command, robot = env.command_manager.get_term("motion"), env.scene["robot"]
    feet = command.keys.find(["left_ankle_roll_link"])

    def errors() -> dict[str, torch.Tensor]:
        return tracking_errors(env, command.target, command.keys, feet, SceneEntityCfg("robot"))

    assert all(value.max() < 1e-4 for value in errors().values())
    pose = robot.data.root_link_pose_w.clone()
    pose[:, 0] += 1.0
    robot.write_root_link_pose(pose)
    env.physics.forward()
    moved = errors()
    for name, expected in (("mpjpe_g", 1.0), ("root_xy", 1.0), ("mpjpe_l", 0.0), ("mpjpe_r", 0.0)):
        torch.testing.assert_close(moved[name], torch.full((4,), expected), atol=1e-4, rtol=0.0)
    pose[:, 3:] = torch.tensor([0.0, 0.0, 0.5**0.5, 0.5**0.5])  # and it turns away by a quarter
    robot.write_root_link_pose(pose)
    env.physics.forward()
    turned = errors()
    assert turned["mpjpe_l"].max() < 1e-4 and ((turned["mpjpe_g"] - 1.0).abs() > 0.01).all()
    torch.testing.assert_close(turned["root_angle"], torch.full((4,), torch.pi / 2), atol=1e-4, rtol=0.0)
    with pytest.raises(ValueError, match="tail"):
        command.keys.find(["tail"])
