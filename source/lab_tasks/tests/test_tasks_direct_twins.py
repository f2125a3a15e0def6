"""The direct environments as Warp kernels, against their torch classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import lab_tasks.twins  # noqa: F401  (registers the twins)
from lab_core.envs import DirectRLEnvCfg
from lab_core.state import named_tensors
from lab_tasks.ant.ant_direct_env import ant_direct_env_cfg
from lab_tasks.cartpole.cartpole_direct_env import cartpole_direct_env_cfg
from lab_warp.envs import build_env
from lab_warp.twins import find_twin

N = 6
STEPS = 40
MakeCfg = Callable[[], DirectRLEnvCfg]


def make(cfg: DirectRLEnvCfg, episode_steps: int = 15) -> DirectRLEnvCfg:
    cfg.scene.num_envs = N
    cfg.episode_length_s = episode_steps * cfg.decimation * cfg.physics.dt
    cfg.compute_final_obs = True
    return cfg


def cartpole(certain: bool = False) -> DirectRLEnvCfg:
    cfg = make(cartpole_direct_env_cfg())
    if certain:
        cfg.initial_cart_pos, cfg.initial_cart_vel = (0.3, 0.3), (-0.2, -0.2)
        cfg.initial_pole_angle, cfg.initial_pole_vel = (0.1, 0.1), (0.5, 0.5)
    return cfg


def ant(certain: bool = False) -> DirectRLEnvCfg:
    cfg = make(ant_direct_env_cfg())
    if certain:
        cfg.joint_pos_noise = cfg.joint_vel_noise = 0.0
        cfg.minimum_height = 0.44  # some fall lower within these steps
    return cfg


MAKERS = [pytest.param(cartpole, id="cartpole"), pytest.param(ant, id="ant")]


def actions(env: Any, seed: int = 3) -> Iterator[torch.Tensor]:
    """One seeded action after the other; those of the last environment drive it out of bounds."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        action = torch.randn(N, env.cfg.num_actions, generator=generator)
        action[-1] = 3.0
        yield action


def results(step: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    obs, reward, terminated, truncated, extras = step
    return named_tensors({"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, **extras})


@pytest.mark.parametrize("make_cfg", MAKERS)
def test_front_ends_agree_step_by_step(make_cfg):
    """Where nothing is left to chance; both kinds of ends come, and environments end at different times."""
    torch_env, warp_env = make_cfg(certain=True).build(), build_env(make_cfg(certain=True))
    ends = torch.zeros(2, dtype=torch.int64)
    for step, action in zip(range(STEPS), actions(torch_env), strict=False):
        if step == 4:  # so that they do not run out of time together
            for env in (torch_env, warp_env):
                env.reset(mask=[0, 2])
        expected, given = results(torch_env.step(action)), results(warp_env.step(action))
        assert given.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(
                given[name].to(value.dtype),
                value,
                rtol=1e-5,
                atol=1e-5,
                msg=lambda text, step=step, name=name: f"step {step}, {name}: {text}",
            )
        ends += torch.stack((expected["terminated"].sum(), expected["truncated"].sum()))
    assert (ends > 0).all()


@pytest.mark.parametrize("make_cfg", MAKERS)
def test_a_step_is_one_graph(make_cfg):
    env = build_env(make_cfg())
    for _, action in zip(range(STEPS), actions(env), strict=False):
        env.step(action)
    (report,) = [stage for stage in env.capture_report() if stage.stage.endswith("._step")]
    assert (report.num_graphs, report.num_captures, report.islands) == (1, 1, ())


def test_draws_fill_their_ranges():
    env = build_env(cartpole())
    data = env.scene["robot"].data
    ranges = {
        ("joint_pos", env.cart): env.cfg.initial_cart_pos,
        ("joint_vel", env.cart): env.cfg.initial_cart_vel,
        ("joint_pos", env.pole): env.cfg.initial_pole_angle,
        ("joint_vel", env.pole): env.cfg.initial_pole_vel,
    }
    drawn = {key: [] for key in ranges}
    for _ in range(40):
        env.reset()
        for (name, joint), values in drawn.items():
            default = getattr(data, f"default_{name}")[:, joint]
            values.append(getattr(data, name)[:, joint] - default)
    for key, (low, high) in ranges.items():
        values = torch.cat(drawn[key])
        assert values.unique().numel() == values.numel()
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high


def test_the_ant_starts_around_its_default_within_its_limits():
    env = build_env(ant())
    data = env.scene["robot"].data
    data.soft_joint_pos_limits[:, 0, 1] = data.default_joint_pos[:, 0] + 0.05
    at_limit = torch.zeros(N, dtype=torch.bool)
    for _ in range(10):
        env.reset()
        offset = data.joint_pos - data.default_joint_pos
        assert offset.abs().max() <= env.cfg.joint_pos_noise + 1e-6
        assert (data.joint_vel - data.default_joint_vel).abs().max() <= env.cfg.joint_vel_noise
        assert (offset[:, 0] <= 0.05 + 1e-6).all()
        at_limit |= offset[:, 0] > 0.05 - 1e-6
        assert offset.unique().numel() > N
    assert at_limit.all()


@pytest.mark.parametrize("make_cfg", MAKERS)
def test_a_partial_reset_leaves_the_other_rows_alone(make_cfg):
    env = build_env(make_cfg())
    for _, action in zip(range(3), actions(env), strict=False):
        env.step(action)
    rows = {
        name: tensor
        for name, tensor in named_tensors(env.scene["robot"].data.__dict__).items()
        if tensor.shape[0] == N and not name.startswith("body_")
    }
    rows["actions"] = env.actions
    rows["streams"] = env.rng_state
    before = {name: tensor.clone() for name, tensor in rows.items()}
    some = torch.tensor([True, False, True, False, False, True])
    env.reset(mask=some)
    for name, tensor in rows.items():
        assert torch.equal(tensor[~some], before[name][~some]), name
    assert not env.actions[some].any()
    assert (env.rng_state[some] != before["streams"][some]).all()


def test_a_state_from_outside_is_no_progress():
    env = build_env(ant())
    state = env.scene.get_state()
    env.step(torch.zeros(N, 8))
    state["articulation"]["robot"]["root_pose"][:, 0] += 50.0
    env.reset_to(state)
    _, reward, *_ = env.step(torch.zeros(N, 8))
    assert reward.abs().max() < 1.0


@pytest.mark.parametrize("make_cfg", MAKERS)
def test_a_seed_repeats_and_another_does_not(make_cfg):
    def run(seed: int) -> torch.Tensor:
        env.reset(seed=seed)
        steps = zip(range(STEPS), actions(env), strict=False)
        return torch.stack([env.step(action)[0]["policy"] for _, action in steps])

    env = build_env(make_cfg())
    first = run(1)
    assert torch.equal(run(1), first)
    assert not torch.equal(run(2), first)


@pytest.mark.parametrize("make_cfg", MAKERS)
def test_a_twin_takes_the_configuration_of_its_class_alone(make_cfg):
    class Other(type(make_cfg())):
        pass

    assert find_twin(type(make_cfg())) is not None
    assert find_twin(Other) is None
