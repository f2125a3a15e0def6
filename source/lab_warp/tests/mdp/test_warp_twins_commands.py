"""Twins of commands: equal to torch where nothing is left to chance, and drawn as they say where it is."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.managers import CommandTermCfg, TermError
from lab_core.mdp import ClipCommandCfg, NullCommandCfg, UniformVelocityCommandCfg, UniformVelocityRanges
from lab_core.state import named_tensors
from lab_warp import CaptureContext, CapturedStage
from lab_warp.mdp.observations import generated_commands  # registers all twins
from lab_warp.reductions import masked_means
from lab_warp.testing import FakeEnv, rng_model
from lab_warp.twins import find_twin

MANY = 4096


def fixed_cfg(heading: float = 0.7, time: float = 0.03, **settings) -> UniformVelocityCommandCfg:
    """Ranges that leave nothing to chance."""
    ranges = UniformVelocityRanges(
        lin_vel_x=(0.5, 0.5), lin_vel_y=(-0.3, -0.3), ang_vel_z=(0.2, 0.2), heading=(heading, heading)
    )
    return UniformVelocityCommandCfg(resampling_time_range=(time, time), ranges=ranges, **settings)


def random_cfg(**settings) -> UniformVelocityCommandCfg:
    ranges = UniformVelocityRanges(
        lin_vel_x=(-1.0, 2.0), lin_vel_y=(-0.4, 0.4), ang_vel_z=(-1.5, 1.0), heading=(-math.pi, math.pi)
    )
    return UniformVelocityCommandCfg(resampling_time_range=(1.0, 3.0), ranges=ranges, **settings)


class Recorded:
    """The twin of a command with a stage for each of its methods."""

    def __init__(self, cfg: CommandTermCfg, env: FakeEnv) -> None:
        self.env = env
        self.term = find_twin(type(cfg))(cfg, env)
        self.log = {name: wp.full(1, -7.0, dtype=wp.float32, device=env.wp_device) for name in self.term.metrics}
        self.metrics = {name: wp.from_torch(values.unsqueeze(1)) for name, values in self.term.metrics.items()}
        mask = env.warp.reset_mask
        functions = {
            "update_metrics": self.term.update_metrics,
            "reset": self._reset,
            "compute": lambda: self.term.compute(env.step_dt),
            "refresh": lambda: self.term.refresh(mask),
        }
        context = CaptureContext(env.wp_device, enabled=True)
        self.stages = {name: CapturedStage(function, context, name=name) for name, function in functions.items()}

    def __call__(self, method: str) -> None:
        self.stages[method]()

    def _reset(self) -> None:
        """What the manager does at a reset."""
        env = self.env
        for name, values in self.metrics.items():
            masked_means(values, env.warp.reset_mask, env.warp.reset_count, self.log[name], 1.0, env.wp_device)
        self.term.reset(env.warp.reset_mask)

    def reset_all(self) -> None:
        self.env.reset_mask.fill_(True)
        self("reset")

    @property
    def recordings(self) -> int:
        return max(stage.report().num_captures for stage in self.stages.values())


class Pair:
    """A torch command and its twin, each in its own environment of the same values."""

    def __init__(self, cfg: CommandTermCfg, device: str) -> None:
        self.envs = FakeEnv(device), FakeEnv(device)
        self.torch = cfg.build(self.envs[0])
        self.warp = Recorded(cfg, self.envs[1])

    def both(self, method: str, *args) -> None:
        for term in (self.torch, self.warp.term):
            getattr(term, method)(*args)

    def step(self, seed: int) -> None:
        """One environment step on new values of the robot, with a reset of some environments in its middle."""
        for env in self.envs:
            env.randomize(seed)
        env = self.envs[0]
        self.torch.update_metrics()
        log = self.torch.reset(env.reset_mask)
        self.torch.compute(env.step_dt)
        for method in ("update_metrics", "reset", "compute"):
            self.warp(method)
        self.assert_equal()
        for name, value in log.items():
            assert float(self.warp.log[name].numpy()[0]) == pytest.approx(float(value), rel=1e-5)
        env.reset_mask.logical_not_()
        self.envs[1].reset_mask.logical_not_()
        for environment in self.envs:
            environment.scene["robot"].data.heading_w.neg_()
        self.torch.refresh(env.reset_mask)
        self.warp("refresh")
        self.assert_equal()

    def assert_equal(self) -> None:
        expected, actual = named_tensors(self.torch), named_tensors(self.warp.term)
        assert list(actual) == list(expected)
        for name, value in expected.items():
            # Sums of squares and sines are rounded differently in the metrics and the wrapped heading.
            tolerance = 1e-6 if value.is_floating_point() else 0.0
            torch.testing.assert_close(actual[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: n + m)
        torch.testing.assert_close(wp.to_torch(self.warp.term.warp.command), self.torch.command, rtol=1e-6, atol=1e-6)


SETTINGS = [
    {},
    {"heading_command": True},
    {"heading_command": True, "heading_control_stiffness": 0.0, "rel_heading_envs": 1.0},
    {"heading_command": True, "rel_heading_envs": 0.0},
    {"rel_standing_envs": 1.0},
    {"heading_command": True, "rel_standing_envs": 1.0},
]


def test_every_command_has_a_twin() -> None:
    configurations = {
        value
        for _, value in inspect.getmembers(mdp, inspect.isclass)
        if issubclass(value, CommandTermCfg) and value not in (CommandTermCfg, ClipCommandCfg)  # bases
    }
    assert configurations == {NullCommandCfg, UniformVelocityCommandCfg, mdp.OrientationGoalCommandCfg}
    assert all(find_twin(cfg) is not None for cfg in configurations)


@pytest.mark.parametrize("settings", SETTINGS)
def test_twin_replays_what_its_command_does(settings, device: str) -> None:
    pair = Pair(fixed_cfg(**settings), device)
    for seed in range(8):
        pair.step(seed)
    assert pair.warp.term.command_counter.unique().numel() > 1
    assert pair.warp.recordings == 1


def test_yaw_rate_turns_towards_the_heading_within_its_range(device: str) -> None:
    cfg = random_cfg(heading_command=True, heading_control_stiffness=0.5)
    env = FakeEnv(device, MANY)
    recorded = Recorded(cfg, env)
    recorded.reset_all()
    recorded("compute")
    term = recorded.term
    error = term.heading_target.double() - env.scene["robot"].data.heading_w.double()
    error = torch.atan2(error.sin(), error.cos())
    torch.testing.assert_close(term.command[:, 2].double(), (0.5 * error).clamp(-1.5, 1.0), rtol=0.0, atol=1e-5)
    assert (term.command[:, 2] == 1.0).any() and term.command[:, 2].unique().numel() > MANY // 2


def test_null_command_counts_like_torch(device: str) -> None:
    pair = Pair(NullCommandCfg(resampling_time_range=(0.03, 0.03)), device)
    for seed in range(5):
        if seed == 3:
            pair.both("set_cfg", NullCommandCfg(resampling_time_range=(0.07, 0.07)))
        pair.step(seed)
    assert pair.warp.term.command_counter.unique().numel() > 1
    assert pair.warp.term.warp.command.shape == (16, 0)
    assert pair.warp.recordings == 1


def test_new_ranges_and_settings_act_without_a_new_capture(device: str) -> None:
    pair = Pair(fixed_cfg(), device)
    for seed, settings in enumerate([*SETTINGS, {"heading": -0.5, "time": 0.05, "heading_command": True}]):
        pair.both("set_cfg", fixed_cfg(**settings))
        pair.step(seed)
    assert pair.warp.recordings == 1


def test_a_fixed_command_is_followed_while_the_draws_go_on(device: str) -> None:
    pair = Pair(fixed_cfg(heading_command=True), device)
    pair.step(0)
    for seed, values in enumerate([(1.0, 2.0, 3.0), (-1.0, 0.0, 9.0), None, (0.5, 0.5, 0.5), None], start=1):
        pair.both("set_command", values)
        pair.step(seed)
        if values is not None:
            assert (pair.warp.term.command == torch.tensor(values, device=pair.envs[1].device)).all()
        assert pair.warp.term.fixed_command == pair.torch.fixed_command
    assert not (pair.warp.term.command == 0.5).all()
    assert pair.warp.recordings == 1


def test_a_saved_state_holds_the_draws_and_leaves_a_fixed_command_fixed(device: str) -> None:
    pair = Pair(fixed_cfg(heading_command=True), device)
    pair.step(0)
    saved = pair.warp.term.state_dict()
    pair.both("set_command", (1.0, 2.0, 3.0))
    pair.step(1)
    pair.both("load_state_dict", saved)
    assert torch.equal(pair.warp.term.state_dict()["_command"], saved["_command"])
    pair.step(2)
    assert (pair.warp.term.command == torch.tensor([1.0, 2.0, 3.0], device=pair.envs[1].device)).all()


def test_means_are_logged_of_the_environments_that_are_reset(device: str) -> None:
    env = FakeEnv(device)
    recorded = Recorded(fixed_cfg(), env)
    recorded("update_metrics")
    env.reset_mask.zero_()
    env.reset_count.zero_()
    recorded("reset")
    assert all(slot.numpy()[0] == -7.0 for slot in recorded.log.values())
    env.reset_mask[2] = True
    env.reset_count.fill_(1)
    expected = {name: float(value[2]) for name, value in recorded.term.metrics.items()}
    recorded("reset")
    assert {name: float(slot.numpy()[0]) for name, slot in recorded.log.items()} == expected
    assert expected["error_vel_xy"] > 0.0


# Chance -----------------------------------------------------------------------------------------------------------


def test_draws_are_uniform_independent_and_never_repeat(device: str) -> None:
    env = FakeEnv(device, MANY)
    recorded = Recorded(random_cfg(heading_command=True, rel_heading_envs=0.25, rel_standing_envs=0.1), env)
    term = recorded.term

    def draw() -> torch.Tensor:
        recorded.reset_all()
        return torch.cat([term.time_left[:, None], term.command, term.heading_target[:, None]], dim=1)

    first = draw()
    bounds = torch.tensor([(1.0, 3.0), (-1.0, 2.0), (-0.4, 0.4), (-1.5, 1.0), (-math.pi, math.pi)], device=env.device)
    units = (first - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    assert units.min() > -1e-6 and units.max() < 1.0 + 1e-6
    torch.testing.assert_close(units.mean(dim=0), torch.full((5,), 0.5, device=env.device), atol=0.025, rtol=0.0)
    torch.testing.assert_close(units.var(dim=0), torch.full((5,), 1.0 / 12.0, device=env.device), atol=0.008, rtol=0.0)
    flags = torch.stack([term.is_heading_env, term.is_standing_env], dim=1).float()
    share = flags.mean(dim=0).cpu()
    assert abs(share[0] - 0.25) < 0.035 and abs(share[1] - 0.1) < 0.025
    columns = torch.cat([units, flags], dim=1)
    series = torch.cat([columns, columns.roll(1, dims=0)], dim=1)
    off_diagonal = torch.corrcoef(series.T) - torch.eye(series.shape[1], device=env.device)
    assert off_diagonal.abs().max() < 5.0 / math.sqrt(MANY)
    assert (draw() == first).float().mean() < 1e-3


@pytest.mark.parametrize("heading_command", [True, False])
def test_draws_equal_the_host_model_of_the_random_streams(heading_command: bool, device: str) -> None:
    env = FakeEnv(device, 200)
    env.rng.seed(3)
    recorded = Recorded(random_cfg(heading_command=heading_command, rel_heading_envs=0.5, rel_standing_envs=0.5), env)
    term, state = recorded.term, rng_model.rand_init(3, np.arange(200))
    for _ in range(2):
        recorded.reset_all()
        drawn = {
            "time_left": (term.time_left, (1.0, 3.0)),
            "v_x": (term.command[:, 0], (-1.0, 2.0)),
            "v_y": (term.command[:, 1], (-0.4, 0.4)),
            "w_z": (term.command[:, 2], (-1.5, 1.0)),
        }
        if heading_command:
            drawn["heading"] = (term.heading_target, (-math.pi, math.pi))
        for name, (values, bounds) in drawn.items():
            low, high = np.float32(bounds)
            unit, state = rng_model.randf(state)
            np.testing.assert_array_equal(values.cpu().numpy(), (high - low) * unit + low, err_msg=name)
        if heading_command:
            unit, state = rng_model.randf(state)
            np.testing.assert_array_equal(term.is_heading_env.cpu().numpy(), unit < 0.5)
        unit, state = rng_model.randf(state)
        np.testing.assert_array_equal(term.is_standing_env.cpu().numpy(), unit < 0.5)
        np.testing.assert_array_equal(env.rng.state.numpy(), state)


@pytest.mark.parametrize("method", ["reset", "refresh", "compute"])
def test_other_environments_keep_their_rows_and_streams(method: str, device: str) -> None:
    env = FakeEnv(device)
    recorded = Recorded(random_cfg(heading_command=True), env)
    term = recorded.term
    recorded.reset_all()
    for seed in range(3):
        env.randomize(seed)
        recorded("update_metrics")
        drawing = env.reset_mask.clone()
        if method == "compute":
            term.time_left.copy_(torch.where(drawing, 0.5 * env.step_dt, 1.0))
        tensors = named_tensors(term)
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        streams = env.rng.state.numpy().copy()
        recorded(method)
        draws = drawing & (method != "refresh")
        np.testing.assert_array_equal(env.rng.state.numpy() != streams, draws.cpu().numpy())
        moves_on = {"time_left", "_command"} if method == "compute" else set()  # in all environments
        for name, tensor in tensors.items():
            if len(tensor) == env.num_envs and name not in moves_on:
                assert torch.equal(tensor[~drawing], before[name][~drawing]), name
        changed = (term.command != before["_command"]).any(dim=1)
        assert changed[drawing].any()


def test_each_environment_reads_its_own_command(device: str) -> None:
    seen = []
    for seed in (7, 8):
        env = FakeEnv(device)
        env.rng.seed(seed)
        recorded = Recorded(random_cfg(), env)
        env.command_manager.terms["velocity"] = recorded.term
        out = torch.zeros(env.num_envs, 3, device=env.device)
        view = wp.from_torch(out)
        read = CapturedStage(
            lambda env=env, view=view: generated_commands(env, view, command_name="velocity"),
            CaptureContext(env.wp_device, enabled=True),
        )
        seen.append((recorded, read, out))
    for recorded, read, _ in seen:
        recorded.reset_all()
        read()
    for recorded, read, out in seen:
        recorded.reset_all()
        read()
        assert torch.equal(out, recorded.term.command)
    assert not torch.equal(seen[0][2], seen[1][2])


# Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rel_standing_envs": 1.5}, "rel_standing_envs must be in 0 .. 1"),
        ({"asset_name": "other"}, "asset_name cannot change"),
        ({"resampling_time_range": (2.0, 1.0)}, "resampling_time_range must have low <= high"),
    ],
)
def test_wrong_configurations_are_refused_and_change_nothing(changes, message: str) -> None:
    recorded = Recorded(fixed_cfg(), FakeEnv())
    cfg = fixed_cfg(heading=0.1)
    for name, value in changes.items():
        setattr(cfg, name, value)
    before = recorded.term._ranges.clone()
    with pytest.raises(TermError, match=message):
        recorded.term.set_cfg(cfg)
    assert torch.equal(recorded.term._ranges, before)


def test_heading_needs_a_range() -> None:
    ranges = UniformVelocityRanges(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 1.0), ang_vel_z=(0.0, 1.0))
    cfg = UniformVelocityCommandCfg(resampling_time_range=(1.0, 1.0), ranges=ranges, heading_command=True)
    with pytest.raises(TermError, match="heading_command needs ranges.heading"):
        Recorded(cfg, FakeEnv())


def test_goals_of_an_orientation_are_counted_and_drawn_as_in_torch(device: str) -> None:
    """All that is not left to chance, over steps with resets; what both draw is then made equal."""
    cfg = mdp.OrientationGoalCommandCfg(asset_name="robot", tolerance=2.2, pos_offset=(0.0, 0.1, -0.04))
    pair = Pair(cfg, device)
    drawn = given = False
    for seed in range(6):
        for env in pair.envs:
            env.randomize(seed)
        pair.torch.update_metrics()
        pair.torch.compute(pair.envs[0].step_dt)
        pair.warp("update_metrics")
        pair.warp("compute")
        drawn |= _compare_goals(pair)
        pair.torch.reset(pair.envs[0].reset_mask)
        pair.warp("reset")
        _compare_goals(pair)
        pair.torch.refresh(pair.envs[0].reset_mask)
        pair.warp("refresh")
        pair.assert_equal()
        given |= bool(pair.torch.is_given.any() and not pair.torch.is_given.all())
    assert drawn and given and pair.torch.metrics["consecutive_success"].max() > 0.0
    assert pair.warp.recordings == 1
    # Uniform over all rotations: the mean square of each component is a quarter.
    many = Recorded(cfg, FakeEnv(device, 4096))
    many.reset_all()
    quat = many.term.command[:, 3:]
    torch.testing.assert_close(quat.norm(dim=1), torch.ones_like(quat[:, 0]), atol=1e-6, rtol=0.0)
    assert (quat.square().mean(dim=0) - 0.25).abs().max() < 5.0 * 0.19 / 64.0
    assert quat.mean(dim=0).abs().max() < 5.0 * 0.5 / 64.0


def _compare_goals(pair: Pair) -> bool:
    """Compares which goals are new, gives the twin those of torch, and says whether there were new ones."""
    torch_goal, warp_goal = pair.torch.command, pair.warp.term.command
    new = torch_goal[:, 3] != warp_goal[:, 3]
    torch.testing.assert_close(warp_goal[:, :3], torch_goal[:, :3], atol=1e-6, rtol=1e-6)
    assert torch.equal(pair.torch.command_counter, pair.warp.term.command_counter)
    warp_goal.copy_(torch_goal)
    pair.assert_equal()
    return bool(new.any() and not new.all())
