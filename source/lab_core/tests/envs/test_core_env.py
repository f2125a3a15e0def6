"""What an environment promises about steps, resets and ownership."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
import torch

from lab_core import mdp
from lab_core.config import MISSING
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import ConfigError, IncompleteConfigError, LabError
from lab_core.managers import (
    EventTermCfg,
    ManagerTermBase,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from lab_core.seeding import make_generator
from lab_core.sensors import ContactSensorCfg
from lab_core.terrain import TerrainLevels
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def make(num_envs: int = 8, **changes) -> ManagerBasedRLEnv:
    cfg = analytic_cartpole_env_cfg(num_envs)
    for name, value in changes.items():
        setattr(cfg, name, value)
    return cfg.build()


def push_out(env: ManagerBasedRLEnv, world: int) -> None:
    """Places the cart of one world beyond its limit, so that the next step ends its episode."""
    position, velocity = env.scene["robot"].data.joint_pos.clone(), env.scene["robot"].data.joint_vel.clone()
    position[world, 0] = 3.5
    env.scene["robot"].write_joint_state(position, velocity)
    env.physics.forward()


def test_shapes_and_types():
    env = make()
    observations, reward, terminated, truncated, extras = env.step(torch.zeros(8, 1))
    assert observations["policy"].shape == (8, 4)
    assert reward.shape == terminated.shape == truncated.shape == (8,)
    assert terminated.dtype == truncated.dtype == torch.bool
    assert extras["final_obs"]["policy"].shape == (8, 4)
    assert extras["reset_count"].shape == ()
    assert env.single_observation_space["policy"].shape == (4,)
    assert env.action_space.shape == (8, 1)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP


def test_two_environments_with_one_seed_are_bitwise_equal():
    results = []
    for _ in range(2):
        env = make()
        actions = torch.Generator().manual_seed(3)
        results.append([env.step(torch.randn(8, 1, generator=actions))[0]["policy"] for _ in range(200)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_done_world_is_reset_and_reports_its_last_observation():
    env = make()
    push_out(env, 2)
    observations, _, terminated, truncated, extras = env.step(torch.zeros(8, 1))
    assert terminated.tolist() == [i == 2 for i in range(8)]
    assert not truncated.any()
    assert extras["reset_count"] == 1
    assert extras["final_obs"]["policy"][2, 0] > 3.0
    assert observations["policy"][2, 0].abs() <= 1.0
    others = [i for i in range(8) if i != 2]
    assert torch.equal(extras["final_obs"]["policy"][others], observations["policy"][others])
    assert env.episode_length_buf.tolist() == [0 if i == 2 else 1 for i in range(8)]


def test_partial_reset_leaves_other_rows_bitwise_unchanged():
    env = make()
    for _ in range(5):
        env.step(torch.randn(8, 1))
    before = {name: tensor.clone() for name, tensor in vars(env.scene["robot"].data).items() if torch.is_tensor(tensor)}
    counters = env.episode_length_buf.clone()
    env.reset(mask=[3, 7])
    for name, old in before.items():
        new = getattr(env.scene["robot"].data, name)
        keep = [0, 1, 2, 4, 5, 6]
        assert torch.equal(new[keep], old[keep]), name
    assert env.episode_length_buf.tolist() == [0 if i in (3, 7) else int(counters[i]) for i in range(8)]
    assert not torch.equal(before["joint_pos"][[3, 7]], env.scene["robot"].data.joint_pos[[3, 7]])


def test_every_world_of_a_full_reset_gets_its_own_state():
    env = make(64)
    assert env.scene["robot"].data.joint_pos[:, 0].unique().numel() == 64


def test_assigned_episode_lengths_go_into_the_buffer():
    """Learners assign random ages; recorded graphs hold the address of the buffer."""
    env = make(4, terminations={"time_out": TerminationTermCfg(func=mdp.time_out, time_out=True)})
    buffer = env.episode_length_buf
    env.episode_length_buf = torch.tensor([299, 0, 298, 5])
    assert env.episode_length_buf is buffer
    truncated = [env.step(torch.zeros(4, 1))[3].tolist() for _ in range(2)]
    assert truncated == [[True, False, False, False], [False, False, True, False]]
    assert buffer.tolist() == [1, 2, 0, 7]


def test_truncation_comes_at_the_rounded_up_step_count():
    env = make(2, episode_length_s=0.05)  # 3 steps of 1/60 s
    assert env.max_episode_length == 3
    env = make(2, episode_length_s=0.051)  # 3.06 steps
    assert env.max_episode_length == 4
    truncated = [env.step(torch.zeros(2, 1))[3].tolist() for _ in range(4)]
    assert truncated == [[False, False]] * 3 + [[True, True]]


def test_five_seconds_at_sixty_hertz_are_three_hundred_steps():
    assert make(1).max_episode_length == 300


def test_time_outs_exclude_terminated_worlds_and_are_absent_for_a_finite_horizon():
    env = make(2, episode_length_s=1 / 60)
    push_out(env, 0)
    _, _, terminated, truncated, extras = env.step(torch.zeros(2, 1))
    assert terminated.tolist() == [True, False]
    assert truncated.tolist() == [True, True]
    assert extras["time_outs"].tolist() == [False, True]
    env = make(2, is_finite_horizon=True)
    assert "time_outs" not in env.step(torch.zeros(2, 1))[4]


def test_what_a_step_returns_never_changes_afterwards():
    env = make(4, episode_length_s=0.1)
    kept = []
    for i in range(20):
        observations, reward, terminated, truncated, extras = env.step(torch.full((4, 1), 0.1 * i))
        tensors = [observations["policy"], reward, terminated, truncated, extras["final_obs"]["policy"]]
        tensors += [extras["time_outs"], extras["reset_count"], *extras["log"].values()]
        kept.append([(tensor, tensor.clone()) for tensor in tensors])
    assert all(torch.equal(live, copy) for step in kept for live, copy in step)


def test_log_keeps_the_values_of_the_latest_reset():
    env = make(4, episode_length_s=0.1)
    logs, counts = [], []
    for _ in range(14):
        extras = env.step(torch.zeros(4, 1))[4]
        logs.append({name: float(value) for name, value in extras["log"].items()})
        counts.append(int(extras["reset_count"]))
    assert counts == [4 if (i + 1) % 6 == 0 else 0 for i in range(14)]
    assert logs[5]["Episode_Termination/time_out"] == 1.0
    assert logs[5]["Episode_Reward/alive"] == pytest.approx(1.0)
    assert logs[6] == logs[5] == logs[10]
    assert logs[11] != logs[5]
    assert logs[4]["Episode_Reward/alive"] == 0.0


def test_reset_with_a_seed_repeats_the_episode():
    env = make()
    first = [env.reset(seed=7)[0]["policy"], *(env.step(torch.ones(8, 1))[0]["policy"] for _ in range(20))]
    second = [env.reset(seed=7)[0]["policy"], *(env.step(torch.ones(8, 1))[0]["policy"] for _ in range(20))]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(env.reset(seed=8)[0]["policy"], first[0])


def test_reset_with_a_seed_reaches_the_levels_of_the_terrain():
    env = make(2)
    env.scene.terrain = TerrainLevels(torch.zeros(3, 1, 3), 2, make_generator(0))
    states = [(env.reset(seed=seed), env.scene.terrain._generator.get_state())[1] for seed in (7, 7, 8)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_reset_to_reproduces_a_stored_trajectory():
    env = make(4)
    for _ in range(3):
        env.step(torch.randn(4, 1))
    state = env.scene.get_state()
    actions = [torch.randn(4, 1) for _ in range(5)]
    expected = [env.step(action)[0]["policy"] for action in actions]
    env.reset()
    env.reset_to(state)
    assert all(torch.equal(env.step(action)[0]["policy"], want) for action, want in zip(actions, expected, strict=True))


class travel(ManagerTermBase):
    """How far the first joint moved in the step."""

    def __init__(self, cfg, env) -> None:
        super().__init__(cfg, env)
        self.position = torch.zeros(env.num_envs)

    def reset(self, mask: torch.Tensor) -> None:
        self.position[mask] = self._joint()[mask]

    def __call__(self, env) -> torch.Tensor:
        moved = self._joint() - self.position
        self.position.copy_(self._joint())
        return moved

    def _joint(self) -> torch.Tensor:
        return self._env.scene["robot"].data.joint_pos[:, 0]


def test_class_terms_are_reset_in_the_state_that_reset_to_sets():
    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.rewards = {"travel": RewardTermCfg(func=travel)}
    env = cfg.build()
    state = env.scene.get_state()
    state["articulation"]["robot"]["joint_position"][:, 0] = 2.0
    env.reset_to(state, mask=[1, 2])
    assert env.step(torch.zeros(4, 1))[1].abs().max() < 1e-3, "the jump to 2 m is no travel"
    assert (env.scene["robot"].data.joint_pos[:, 0] > 1.5).tolist() == [False, True, True, False]


@pytest.mark.parametrize("joints", [slice(1, 2), torch.tensor([1]), torch.tensor([1, 0])])
def test_some_joints_of_some_worlds_are_written(joints):
    env = make(3)
    data = env.scene["robot"].data
    before = data.joint_pos.clone()
    values = torch.arange(6.0).view(3, 2)[:, joints]
    env.scene["robot"].write_joint_state(values, -values, [2], joint_ids=joints)
    assert torch.equal(data.joint_pos[2, joints], values[2])
    assert torch.equal(data.joint_vel[2, joints], -values[2])
    before[2, joints] = values[2]
    assert torch.equal(data.joint_pos, before)
    assert env.physics.written.tolist() == [False, False, True]


def test_joint_targets_follow_a_state_from_outside():
    env = make(3)
    data = env.scene["robot"].data
    state, before = env.scene.get_state(), data.joint_pos_target.clone()
    state["articulation"]["robot"]["joint_position"].fill_(0.25)
    env.reset_to(state, mask=[1])
    assert (data.joint_pos_target[1] == 0.25).all()
    assert torch.equal(data.joint_pos_target[[0, 2]], before[[0, 2]])


def test_reset_to_refuses_a_state_that_does_not_fit_before_anything_moves():
    env = make(2)
    state, before = env.scene.get_state(), env.scene["robot"].data.joint_pos.clone()
    robot = state["articulation"]["robot"]
    without = {key: value for key, value in robot.items() if key != "joint_velocity"}
    for bad, message in (
        ({"arm": robot}, r"The state holds \['arm'\], the scene holds \['robot'\]"),
        (
            {"robot": without},
            r"The state of 'robot' holds \['joint_position', 'root_pose', 'root_velocity'\], expected",
        ),
        (
            {"robot": robot | {"root_pose": torch.zeros(3, 7)}},
            r"root_pose of 'robot' has shape \(3, 7\), expected \(2, 7\)",
        ),
    ):
        with pytest.raises(LabError, match=message):
            env.reset_to({"articulation": bad})
    with pytest.raises(LabError, match=r"kinds \['rigid_object'\], the scene has \['articulation'\]"):
        env.reset_to(state | {"rigid_object": {"crate": robot}})
    assert torch.equal(env.scene["robot"].data.joint_pos, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_world_is_terminated_and_nothing_non_finite_comes_out(value):
    env, twin = make(), make()
    for _ in range(3):
        env.step(torch.ones(8, 1))
        twin.step(torch.ones(8, 1))
    env.scene["robot"].data.joint_vel[4, 1] = value
    outputs, expected = env.step(torch.ones(8, 1)), twin.step(torch.ones(8, 1))
    observations, reward, terminated, _, extras = outputs
    assert terminated.tolist() == [i == 4 for i in range(8)]
    assert float(extras["log"]["Episode_Termination/non_finite"]) == pytest.approx(1 / 8)
    for tensor in (observations["policy"], reward, extras["final_obs"]["policy"], *extras["log"].values()):
        assert torch.isfinite(tensor).all()
    assert env.scene["robot"].data.joint_acc.isfinite().all()
    others = [i for i in range(8) if i != 4]
    assert torch.equal(reward[others], expected[1][others])
    assert torch.equal(observations["policy"][others], expected[0]["policy"][others])
    assert env.physics.health().non_finite_envs == 1


def test_startup_events_act_again_when_the_physics_is_rebuilt():
    """It has the properties of the configuration then."""
    calls = []
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    cfg.events["startup"] = EventTermCfg(func=lambda env, mask: calls.append(mask.tolist()), mode="startup")
    env = cfg.build()
    assert calls == [[True, True]]
    env.physics.rebuild()
    assert calls == [[True, True]] * 2


def test_interval_events_act_before_the_observation():
    def shift(env, mask):
        position = env.scene["robot"].data.joint_pos.clone()
        position[:, 0] = 2.0
        env.scene["robot"].write_joint_state(position, env.scene["robot"].data.joint_vel, mask)

    events = analytic_cartpole_env_cfg().events
    events["shift"] = EventTermCfg(func=shift, mode="interval", interval_range_s=(1 / 60, 1 / 60))
    env = make(4, events=events)
    observations, *_ = env.step(torch.zeros(4, 1))
    assert observations["policy"][:, 0].tolist() == [2.0] * 4
    assert env.scene["robot"].data.body_link_pose_w[:, 1, 1].tolist() == [2.0] * 4


def test_gymnasium_reset_mask_option():
    env = make(4)
    env.step(torch.zeros(4, 1))
    env.reset(options={"reset_mask": torch.tensor([True, False, False, True])})
    assert env.episode_length_buf.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decimation": 0}, "decimation must be at least 1, got 0"),
        ({"episode_length_s": 0.0}, "episode_length_s must be positive and finite, got 0"),
    ],
)
def test_impossible_values_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        make(2, **change)


def test_a_contact_history_shorter_than_the_action_warns():
    cfg = analytic_cartpole_env_cfg()
    cfg.scene.sensors["feet"] = ContactSensorCfg(history_length=1)
    message = r"sensors\['feet'\] remembers 1 of the 2 physics steps of an action.*Set its history_length to 2"
    with pytest.warns(UserWarning, match=message), pytest.raises(LabError, match="no sensors"):
        cfg.build()
    cfg.scene.sensors["feet"].history_length = 2
    with warnings.catch_warnings(), pytest.raises(LabError, match="no sensors"):
        warnings.simplefilter("error")
        cfg.build()


def test_every_missing_field_is_listed():
    cfg = analytic_cartpole_env_cfg()
    cfg.decimation = MISSING
    cfg.physics.dt = MISSING
    cfg.scene.entities["robot"].asset = MISSING
    with pytest.raises(IncompleteConfigError) as error:
        cfg.build()
    for path in ("decimation", "physics.dt", "scene.entities.robot.asset"):
        assert path in str(error.value)


@pytest.mark.parametrize("shape", [(8,), (8, 2), (7, 1)])
def test_wrong_action_shape_is_refused_and_nothing_moves(shape):
    env = make()
    before = env.scene["robot"].data.joint_pos.clone()
    with pytest.raises(LabError, match="action"):
        env.step(torch.zeros(shape))
    assert torch.equal(env.scene["robot"].data.joint_pos, before)
    assert env.step_count == 0


def test_an_episode_begins_without_the_actions_of_the_last_one():
    cfg = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=3 / 60)
    cfg.observations["policy"].terms["last_action"] = ObservationTermCfg(func=mdp.last_action)
    cfg.rewards = {"action_rate": RewardTermCfg(func=mdp.action_rate_l2)}
    env = cfg.build()
    env.episode_length_buf[0] = 1  # ends a step before the others
    shown, costs = [], []
    for action in (1.0, 1.0, 3.0, 3.0):
        observations, reward, *_ = env.step(torch.full((4, 1), action))
        shown.append(observations["policy"][:, -1].tolist())
        costs.append([round(cost, 4) for cost in (reward / env.step_dt).tolist()])
    assert shown == [[1.0] * 4, [0.0, 1.0, 1.0, 1.0], [3.0, 0.0, 0.0, 0.0], [3.0] * 4]
    assert costs == [[1.0] * 4, [0.0] * 4, [9.0, 4.0, 4.0, 4.0], [0.0, 9.0, 9.0, 9.0]]


def test_nan_action_names_its_environment():
    env = make()
    action = torch.zeros(8, 1)
    action[5] = float("nan")
    with pytest.raises(LabError, match="5"):
        env.step(action)


def test_partial_reset_from_outside_adds_nothing_to_other_histories():
    cfg = analytic_cartpole_env_cfg(4)
    cfg.observations["policy"].history_length = 3
    env = cfg.build()
    for i in range(5):
        before, *_ = env.step(torch.full((4, 1), 0.1 * i))
    after, _ = env.reset(mask=[2])
    keep = [0, 1, 3]
    assert torch.equal(after["policy"][keep], before["policy"][keep])
    assert after["policy"][2].reshape(2, 3, 2).diff(dim=1).abs().max() == 0.0


def test_reset_ids_are_those_of_the_reset_under_way():
    seen = []

    def note(env, mask):
        seen.append((env.reset_ids().tolist(), mask.nonzero().flatten().tolist()))

    events = analytic_cartpole_env_cfg().events
    events["note"] = EventTermCfg(func=note)
    env = make(4, events=events)
    env.reset(mask=[1, 3])
    push_out(env, 2)
    env.step(torch.zeros(4, 1))
    env.reset(mask=[0])
    assert seen == [([0, 1, 2, 3],) * 2, ([1, 3],) * 2, ([2],) * 2, ([0],) * 2]
    make(4, events=events).load_state_dict(env.state_dict())


def test_actions_may_come_as_arrays():
    env, twin = make(), make()
    action = np.linspace(-1.0, 1.0, 8).reshape(8, 1)
    expected = twin.step(torch.tensor(action))[0]["policy"]
    assert torch.equal(env.step(action)[0]["policy"], expected)


def test_picture_comes_in_the_form_of_gymnasium(monkeypatch):
    env = make(1)
    picture = np.zeros((4, 6, 3), dtype=np.uint8)
    monkeypatch.setattr(env.physics, "render", lambda camera: picture)
    (shown,) = env.render()
    assert shown is picture


@pytest.mark.gpu
def test_device_without_a_number_is_the_present_gpu():
    env = analytic_cartpole_env_cfg(2).build("cuda")
    assert env.device == torch.device("cuda", torch.cuda.current_device())


def test_close_twice():
    env = make(2)
    env.close()
    env.close()
