"""Ghosts: what terms give to those who draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.mdp import NullCommandCfg
from lab_core.physics import Ghost
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

GHOST = Ghost(entity="robot", root_pose_w=torch.zeros(4, 7), joint_pos=torch.zeros(4, 2))


@dataclass(kw_only=True)
class HauntingCfg(NullCommandCfg):
    def build(self, env):
        return Haunting(self, env)


class Haunting(mdp.NullCommand):
    asked = 0

    def ghosts(self) -> Sequence[Ghost]:
        self.asked += 1
        return [replace(GHOST, joint_pos=torch.full((4, 2), float(self.asked)))]


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.commands = {"null": NullCommandCfg(), "first": HauntingCfg(), "second": HauntingCfg()}
    return ManagerBasedRLEnv(cfg)


def test_commands_are_asked_for_ghosts_only_by_those_who_draw(env: ManagerBasedRLEnv) -> None:
    terms = [env.command_manager.get_term(name) for name in ("first", "second")]
    env.step(torch.zeros(4, 1))
    assert [term.asked for term in terms] == [0, 0]
    assert [ghost.joint_pos[0, 0].item() for ghost in env.physics.ghosts()] == [1.0, 1.0]
    assert [ghost.joint_pos[0, 0].item() for ghost in env.physics.ghosts()] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entity": "dog"}, "A ghost is of no entity here: unknown entity 'dog'.*robot"),
        ({"root_pose_w": torch.zeros(4, 6)}, r"root_pose_w.*robot.* shape \(4, 7\), got \(4, 6\)"),
        ({"joint_pos": torch.zeros(3, 2)}, r"joint_pos.*robot.* shape \(4, 2\), got \(3, 2\)"),
    ],
)
def test_ghosts_that_cannot_be_drawn_are_named(env: ManagerBasedRLEnv, changes: dict, message: str) -> None:
    env.physics.ghost_sources.append(lambda: [replace(GHOST, **changes)])
    with pytest.raises(LabError, match=message):
        env.physics.ghosts()
