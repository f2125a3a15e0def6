"""What an environment written as a class promises."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from lab_core.envs import DirectRLEnv, DirectRLEnvCfg
from lab_core.managers import ActionError, TermError
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4


@dataclass(kw_only=True)
class AgeEnvCfg(DirectRLEnvCfg):
    num_actions: int = 2
    num_observations: int = 1

    def build(self, device: str | torch.device = "cpu") -> AgeEnv:
        return AgeEnv(self, device)


class AgeEnv(DirectRLEnv):
    """Observes the age of the episode, and remembers where the joints began, in buffers that it keeps."""

    def _setup(self) -> None:
        self.age = torch.zeros(self.num_envs, 1)
        self.start = torch.zeros(self.num_envs, 2)
        self.answers = {}

    def _apply_actions(self) -> None:
        pass

    def _get_observations(self):
        self.age[:, 0] = self.episode_length_buf
        return self.answers.get("observations", {"policy": self.age})

    def _get_rewards(self):
        return self.answers.get("rewards", torch.ones(self.num_envs))

    def _get_dones(self):
        out_of_time = self.episode_length_buf >= self.max_episode_length
        return self.answers.get("dones", (torch.zeros_like(out_of_time), out_of_time))

    def _reset_state(self, mask):
        self.scene["robot"].write_joint_state(torch.full((N, 2), 0.5), torch.zeros(N, 2), mask)

    def _reset_buffers(self, mask):
        self.start[mask] = self.scene["robot"].data.joint_pos[mask]
        return {}


@pytest.fixture
def env() -> AgeEnv:
    cartpole = analytic_cartpole_env_cfg(num_envs=N)
    return AgeEnvCfg(physics=cartpole.physics, scene=cartpole.scene, decimation=2, episode_length_s=2 / 60).build()


def test_buffers_are_reset_in_the_state_that_the_episode_starts_from(env):
    """In a drawn one, and in one from outside."""
    assert env.start.unique().tolist() == [0.5]
    state = env.scene.get_state()
    state["articulation"]["robot"]["joint_position"].fill_(0.7)
    env.reset_to(state, mask=[1, 3])
    assert env.start[:, 0].tolist() == pytest.approx([0.5, 0.7, 0.5, 0.7])
    assert env.scene["robot"].data.joint_pos[:, 0].tolist() == pytest.approx([0.5, 0.7, 0.5, 0.7])


def test_observations_are_owned_also_where_the_task_keeps_a_buffer(env):
    first, *_ = env.step(torch.zeros(N, 2))
    second, *_, extras = env.step(torch.zeros(N, 2))
    assert first["policy"].unique().tolist() == [1.0]
    assert extras["final_obs"]["policy"].unique().tolist() == [2.0]
    assert second["policy"].unique().tolist() == [0.0]


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        (
            "observations",
            {"policy": torch.zeros(N, 3)},
            r"AgeEnv._get_observations: 'policy' must .*\(4, 1\).*\(4, 3\)",
        ),
        ("observations", {}, r"AgeEnv._get_observations: 'policy' must return .*got NoneType"),
        ("rewards", torch.zeros(()), r"AgeEnv._get_rewards must return a number tensor \(4,\), got torch.float32 \(\)"),
        ("dones", (torch.zeros(N), torch.zeros(N)), "AgeEnv._get_dones: terminated must return a torch.bool"),
        ("dones", (torch.zeros(N) > 0, torch.zeros(N, 1) > 0), r"AgeEnv._get_dones: time-out must .*\(4, 1\)"),
    ],
)
def test_wrong_answers_of_a_task_are_named(env, method, answer, message):
    env.answers[method] = answer
    with pytest.raises(TermError, match=message):
        env.step(torch.zeros(N, 2))


def test_action_is_checked_and_cleared_by_a_reset(env):
    with pytest.raises(ActionError, match=r"must have shape \(4, 2\) .*action 0:2.*got \(4, 1\)"):
        env.step(torch.zeros(N, 1))
    env.step(torch.ones(N, 2))
    assert env.actions.unique().tolist() == [1.0]
    env.reset(mask=[1])
    assert env.actions.sum(dim=1).tolist() == [2.0, 0.0, 2.0, 2.0]
