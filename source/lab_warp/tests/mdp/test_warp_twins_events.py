"""Twins of events of the state: equal to torch where nothing is left to chance, and well distributed where it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import warp as wp

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.errors import LabError
from lab_core.managers import EventTermCfg, SceneEntityCfg, TermError
from lab_core.math import matrix_from_quat
from lab_core.terrain import PyramidSlopeTerrainCfg, TerrainGeneratorCfg, generate_terrain
from lab_warp.testing import CapturedEvent, FakeEnv, TwinCase, check_event_twin, check_signature, rng_model, twins_in
from lab_warp.twins import find_twin

MANY = 4096

# A choice out of order, so that a twin that ignores it or sorts it fails.
LEGS = SceneEntityCfg("robot", joint_names=("toe", "hip", "knee"), preserve_order=True)
JOINTS = {"position_range": (0.3, 0.3), "velocity_range": (-0.2, -0.2)}
ROOT = {
    "pose_range": {"x": (1.0, 1.0), "z": (-0.5, -0.5), "roll": (0.1, 0.1), "pitch": (-0.7, -0.7), "yaw": (2.0, 2.0)},
    "velocity_range": {"y": (0.4, 0.4), "pitch": (-0.3, -0.3)},
}


def fix_base(env: FakeEnv) -> None:
    env.scene["robot"].data.fixed_base = True


CASES: dict[str, list[TwinCase]] = {
    "reset_scene_to_default": [TwinCase(), TwinCase(prepare=fix_base)],
    "reset_joints_by_offset": [TwinCase(params=JOINTS), TwinCase(params={**JOINTS, "asset_cfg": LEGS})],
    "reset_joints_by_scale": [TwinCase(params=JOINTS), TwinCase(params={**JOINTS, "asset_cfg": LEGS})],
    "reset_joints_within_limits": [
        TwinCase(params={"fraction": 0.0}),
        TwinCase(params={"fraction": 0.0, "asset_cfg": LEGS}),
    ],  # fmt: skip
    "reset_root_state_with_random_orientation": [],  # always left to chance
    # Sines of both libraries differ in the last bit.
    "reset_root_state_uniform": [
        TwinCase(params=ROOT, atol=2e-7),
        TwinCase(params={"pose_range": {"x": (1.0, 1.0)}, "velocity_range": {}}),
    ],
    "reset_root_above_ground": [TwinCase(params={**ROOT, "reach": 0.3}, atol=2e-7)],
    "push_by_setting_velocity": [TwinCase(params={"velocity_range": {"y": (0.4, 0.4), "yaw": (-1.0, -1.0)}})],
}
TWINS = twins_in(mdp.events)


def test_every_event_has_a_twin_and_every_twin_a_case() -> None:
    events = {name for name in mdp.__all__ if getattr(getattr(mdp, name), "__module__", None) == mdp.events.__name__}
    events.remove("require_no_angles")
    assert set(TWINS) == set(CASES) == events


@pytest.mark.parametrize("name", TWINS)
def test_twin_takes_the_parameters_of_its_event(name: str) -> None:
    check_signature(TWINS[name])


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, c, id=f"{name}-{i}") for name, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_twin_replays_what_its_event_does(name: str, case: TwinCase, device: str) -> None:
    check_event_twin(TWINS[name], case, device)


def make_env(device: str, num_envs: int = MANY) -> FakeEnv:
    """An environment whose default state is 1 in all joints and the identity at the origin, without limits."""
    env = FakeEnv(device, num_envs)
    data = env.scene["robot"].data
    for buffer in (data.default_joint_pos, data.default_joint_vel):
        buffer.fill_(1.0)
    data.soft_joint_pos_limits.copy_(torch.tensor([-100.0, 100.0]))
    env.scene.env_origins.zero_()
    data.default_root_vel.zero_()
    data.default_root_pose.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    return env


def assert_uniform(values: torch.Tensor, low: float, high: float) -> None:
    """Range, mean and spread of draws (N, K), which are independent between columns and between neighbours."""
    values = (values.double() - low) / (high - low)
    assert values.min() >= -1e-6 and values.max() <= 1.0 + 1e-6
    bound = 5.0 / math.sqrt(values.shape[0])  # above five standard deviations of each of the statistics
    assert (values.mean(dim=0) - 0.5).abs().max() < 0.3 * bound
    assert (values.std(dim=0) - math.sqrt(1.0 / 12.0)).abs().max() < 0.3 * bound
    series = torch.cat([values, values.roll(1, dims=0)], dim=1)
    off_diagonal = torch.corrcoef(series.T) - torch.eye(series.shape[1], device=values.device)
    assert off_diagonal.abs().max() < bound


def test_joint_draws_are_uniform_independent_and_never_repeat(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    event = CapturedEvent(mdp.reset_joints_by_offset, env, position_range=(-0.5, 0.1), velocity_range=(2.0, 3.0))
    event()
    first = torch.cat([data.joint_pos, data.joint_vel], dim=1)
    assert_uniform(first[:, :5], 0.5, 1.1)
    assert_uniform(first[:, 5:], 3.0, 4.0)
    assert_uniform(torch.cat([(first[:, :5] - 0.5) / 0.6, first[:, 5:] - 3.0], dim=1), 0.0, 1.0)
    event()
    second = torch.cat([data.joint_pos, data.joint_vel], dim=1)
    assert (first == second).float().mean() < 1e-3
    assert abs(torch.corrcoef(torch.stack([first[:, 0], second[:, 0]]))[0, 1]) < 5.0 / math.sqrt(MANY)


def test_scaled_joints_are_uniform_multiples_of_the_default_within_soft_limits(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    data.default_joint_pos.fill_(2.0)
    data.soft_joint_pos_limits[:, 1] = torch.tensor([1.5, 2.5])
    CapturedEvent(mdp.reset_joints_by_scale, env, position_range=(0.5, 1.5), velocity_range=(0.0, 2.0))()
    assert_uniform(data.joint_pos[:, [0, 2, 3, 4]], 1.0, 3.0)
    assert_uniform(data.joint_vel, 0.0, 2.0)
    limited = data.joint_pos[:, 1]
    assert limited.min() == 1.5 and limited.max() == 2.5
    assert 0.2 < (limited == 1.5).float().mean() < 0.3


def test_joint_draws_equal_the_host_model_of_the_random_streams(device: str) -> None:
    env = make_env(device, num_envs=100)
    data = env.scene["robot"].data
    env.rng.seed(11)
    state = rng_model.rand_init(11, np.arange(100))
    low, high = np.float32([-0.5, 2.0]), np.float32([0.1, 3.0])
    event = CapturedEvent(
        mdp.reset_joints_by_offset, env, position_range=(-0.5, 0.1), velocity_range=(2.0, 3.0), asset_cfg=LEGS
    )
    for _ in range(2):
        event()
        for joint in (3, 0, 1):
            for buffer, bounds in ((data.joint_pos, (low[0], high[0])), (data.joint_vel, (low[1], high[1]))):
                unit, state = rng_model.randf(state)
                expected = np.float32(1.0) + ((bounds[1] - bounds[0]) * unit + bounds[0])
                np.testing.assert_array_equal(buffer[:, joint].cpu().numpy(), expected)
    np.testing.assert_array_equal(env.rng.state.numpy(), state)


def test_root_draws_are_uniform_and_in_the_order_of_their_components(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    env.rng.seed(5)
    six = ("x", "y", "z", "roll", "pitch", "yaw")
    pose_range = {key: (-0.1 - i, 0.2 + i) for i, key in enumerate(six[:3])} | {"yaw": (-1.0, 1.0)}
    velocity_range = {key: (-1.0 - i, float(i)) for i, key in enumerate(six)}
    CapturedEvent(mdp.reset_root_state_uniform, env, pose_range=pose_range, velocity_range=velocity_range)()
    yaw = 2.0 * torch.atan2(data.root_link_pose_w[:, 5], data.root_link_pose_w[:, 6])
    drawn = torch.cat([data.root_link_pose_w[:, :3], yaw[:, None], data.root_com_vel_w], dim=1)
    bounds = torch.tensor([*pose_range.values(), *velocity_range.values()], device=drawn.device)
    units = (drawn - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    assert_uniform(units, 0.0, 1.0)

    state, expected = rng_model.rand_init(5, np.arange(MANY)), []
    for _ in range(12):
        unit, state = rng_model.randf(state)
        expected.append(unit)
    del expected[3:5]  # roll and pitch, which are drawn although they have no width
    np.testing.assert_allclose(units.cpu().numpy(), np.stack(expected, axis=1), atol=1e-6)
    np.testing.assert_array_equal(env.rng.state.numpy(), state)


def test_pushes_add_up(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    data.root_com_vel_w.fill_(10.0)
    push = CapturedEvent(mdp.push_by_setting_velocity, env, velocity_range={"x": (-0.5, 0.5), "yaw": (1.0, 2.0)})
    push()
    assert_uniform(data.root_com_vel_w[:, [0]], 9.5, 10.5)
    assert_uniform(data.root_com_vel_w[:, [5]], 11.0, 12.0)
    assert (data.root_com_vel_w[:, 1:5] == 10.0).all()
    first = data.root_com_vel_w.clone()
    push()
    assert_uniform(data.root_com_vel_w[:, [5]] - first[:, [5]], 1.0, 2.0)


@pytest.mark.parametrize(
    ("event", "params"),
    [
        (mdp.reset_joints_by_offset, {"position_range": (-1.0, 1.0), "velocity_range": (-1.0, 1.0)}),
        (mdp.reset_root_state_uniform, {"pose_range": {"x": (-1.0, 1.0)}, "velocity_range": {}}),
        (mdp.push_by_setting_velocity, {"velocity_range": {"x": (-1.0, 1.0)}}),
    ],
)
def test_environments_outside_the_mask_keep_state_and_stream(event, params, device: str) -> None:
    env = FakeEnv(device)
    recorded = CapturedEvent(event, env, **params)
    recorded(torch.zeros(env.num_envs, dtype=torch.bool))
    env.physics.written.zero_()
    for seed in range(3):
        mask = torch.rand(env.num_envs, generator=torch.Generator().manual_seed(seed)) < 0.5
        before = {name: tensor.clone() for name, tensor in env.tensors().items()}
        streams = env.rng.state.numpy().copy()
        env.physics.written.zero_()
        recorded(mask)
        assert torch.equal(env.physics.written.cpu(), mask)
        np.testing.assert_array_equal(env.rng.state.numpy() != streams, mask.numpy())
        outside = (~mask).to(env.device)
        for name, tensor in env.tensors().items():
            if tensor.shape[:1] == mask.shape and name != "physics.written":
                assert torch.equal(tensor[outside], before[name][outside]), name


def test_terms_with_the_same_function_keep_their_own_ranges_and_joints(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    hips, toes = (SceneEntityCfg("robot", joint_names=name) for name in ("hip", "toe"))
    first, second = (
        CapturedEvent(
            mdp.reset_joints_by_offset, env, position_range=limits, velocity_range=(0.0, 0.0), asset_cfg=joints
        )
        for joints, limits in ((hips, (1.0, 2.0)), (toes, (-5.0, -4.0)))
    )
    for _ in range(2):
        data.joint_pos.zero_()
        first()
        second()
        assert_uniform(data.joint_pos[:, [0]], 2.0, 3.0)
        assert_uniform(data.joint_pos[:, [3]], -4.0, -3.0)
        assert (data.joint_pos[:, [1, 2, 4]] == 0.0).all()


def test_two_environments_draw_from_their_own_streams(device: str) -> None:
    envs = [make_env(device, num_envs=50) for _ in range(2)]
    events = [
        CapturedEvent(mdp.reset_joints_by_offset, env, position_range=(0.0, 1.0), velocity_range=(0.0, 1.0))
        for env in envs
    ]
    events[0]()
    events[0]()
    untouched = envs[1].scene["robot"].data.joint_pos.clone()
    second_of_first = envs[0].scene["robot"].data.joint_pos.clone()
    assert not torch.equal(untouched, second_of_first)
    events[1]()
    events[1]()
    assert torch.equal(envs[1].scene["robot"].data.joint_pos, second_of_first)


def error_of_both(event, prepare=None, **params) -> LabError:
    """The error that torch raises, after checking that Warp says the same."""
    errors = []
    for function in (event, find_twin(event)):
        env = FakeEnv()
        if prepare is not None:
            prepare(env)
        with pytest.raises(LabError) as caught:
            function(env, env.reset_mask if function is event else env.warp.reset_mask, **params)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1]) and str(errors[0]) == str(errors[1])
    return errors[0]


@pytest.mark.parametrize(
    ("event", "params"),
    [
        (mdp.push_by_setting_velocity, {"velocity_range": {"jaw": (0.0, 1.0)}}),
        (mdp.reset_root_state_uniform, {"pose_range": {"x": (0.0, 1.0), "w": (0.0, 1.0)}, "velocity_range": {}}),
        (mdp.reset_root_state_uniform, {"pose_range": {}, "velocity_range": {"rol": (0.0, 1.0)}}),
    ],
)
def test_unknown_components_are_refused_as_in_torch(event, params) -> None:
    assert isinstance(error_of_both(event, **params), TermError)


def test_a_fixed_base_is_refused_as_in_torch() -> None:
    assert "pose" in str(error_of_both(mdp.reset_root_state_uniform, fix_base, pose_range={}, velocity_range={}))
    assert "velocity" in str(error_of_both(mdp.push_by_setting_velocity, fix_base, velocity_range={}))


def test_a_range_upside_down_is_refused() -> None:
    env = FakeEnv()
    with pytest.raises(ValueError, match="position_range must have low <= high"):
        CapturedEvent(mdp.reset_joints_by_offset, env, position_range=(1.0, 0.0), velocity_range=(0.0, 0.0))()
    with pytest.raises(ValueError, match=r"velocity_range\['x'\] must have low <= high"):
        CapturedEvent(mdp.push_by_setting_velocity, env, velocity_range={"x": (1.0, 0.0)})()


def test_both_front_ends_find_the_same_highest_ground() -> None:
    """On real terrain, whose heights differ from node to node."""
    terrain = generate_terrain(TerrainGeneratorCfg(
        sub_terrains={"slope": PyramidSlopeTerrainCfg()},
        num_rows=2, num_cols=2, size=4.0, border_width=1.0, seed=3,
    ))  # fmt: skip
    heights = []
    for original in (mdp.reset_root_above_ground, find_twin(mdp.reset_root_above_ground)):
        env = make_env("cpu", 256)
        env.physics.terrain = terrain
        env.scene.env_origins[:, :2] = 12.0 * torch.rand(256, 2, generator=torch.Generator().manual_seed(5)) - 6.0
        params = {"pose_range": {"z": (0.7, 0.7)}, "velocity_range": {}, "reach": 0.25}
        term = original(EventTermCfg(func=original, mode="reset", params=params), env)
        mask = torch.ones(256, dtype=torch.bool)
        term(env, mask if original is mdp.reset_root_above_ground else wp.from_torch(mask), **params)
        heights.append(env.scene["robot"].data.root_link_pose_w[:, 2].clone())
        reached = env.scene["robot"].data.root_link_pose_w[:, :2]
    torch.testing.assert_close(*heights, rtol=0.0, atol=1e-6)
    corners = torch.tensor([[dx, dy] for dx in (-0.25, 0.0, 0.25) for dy in (-0.25, 0.0, 0.25)])
    around = torch.from_numpy(terrain.height_at((reached[:, None] + corners).numpy())).nan_to_num(nan=0.0)
    assert (heights[0] - 0.7 >= around.amax(dim=1) - 1e-6).all()
    assert heights[0].unique().numel() > 10, "the ground should differ"


def test_a_negative_reach_is_refused() -> None:
    term = EventTermCfg(func=mdp.reset_root_above_ground, mode="reset", params={"reach": -0.1})
    with pytest.raises(TermError, match="reach must not be negative, got -0.1"):
        mdp.reset_root_above_ground(term, FakeEnv())


@pytest.mark.parametrize("func", [mdp.reset_joints_within_limits, find_twin(mdp.reset_joints_within_limits)])
def test_joints_within_limits_go_part_of_the_way_to_a_point_between_them(func, device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    data.soft_joint_pos_limits.copy_(torch.tensor([-1.0, 4.0]))
    mask = torch.arange(MANY, device=env.device) % 4 != 0
    masks = mask if func is mdp.reset_joints_within_limits else wp.from_torch(mask)
    asset_cfg = SceneEntityCfg("robot")
    asset_cfg.resolve(env.scene)
    before = data.joint_pos.clone()
    func(env, masks, fraction=0.2, asset_cfg=asset_cfg)
    assert torch.equal(data.joint_pos[~mask], before[~mask])
    assert_uniform(data.joint_pos[mask], 0.8 + 0.2 * -1.0, 0.8 + 0.2 * 4.0)
    assert not data.joint_vel[mask].any()


@pytest.mark.parametrize("is_twin", [False, True])
def test_any_orientation_is_as_likely_as_any_other(is_twin: bool, device: str) -> None:
    """The mean of the matrices is 0, and the angle follows its law, 1 - cos: Shoemake, Graphics Gems III, 1992."""
    original = mdp.reset_root_state_with_random_orientation
    env = make_env(device)
    data = env.scene["robot"].data
    mask = torch.arange(MANY, device=env.device) % 4 != 0
    before = data.root_link_pose_w.clone()
    func = find_twin(original) if is_twin else original
    params = {"pose_range": {"x": (-0.01, 0.01)}, "velocity_range": {}}
    func(env, wp.from_torch(mask) if is_twin else mask, **params)
    pose = data.root_link_pose_w
    assert torch.equal(pose[~mask], before[~mask]) and not data.root_com_vel_w[mask].any()
    pose = pose[mask].cpu()
    assert_uniform(pose[:, :1], -0.01, 0.01)
    assert not pose[:, 1:3].any()
    torch.testing.assert_close(pose[:, 3:].norm(dim=1), torch.ones(len(pose)), atol=1e-6, rtol=0.0)
    assert matrix_from_quat(pose[:, 3:]).mean(dim=0).abs().max() < 5.0 / math.sqrt(3 * len(pose))
    angles = (2.0 * pose[:, 6].abs().clamp(max=1.0).acos()).sort().values
    expected = (angles - angles.sin()) / math.pi
    assert (expected - torch.linspace(0.0, 1.0, len(angles))).abs().max() < 1.95 / math.sqrt(len(angles))
    with pytest.raises(TermError, match="pose_range has 'yaw', and the orientation is any"):
        func(env, wp.from_torch(mask) if is_twin else mask, pose_range={"yaw": (0.0, 1.0)}, velocity_range={})
