"""Options for every field of a configuration."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from lab_core.cli.overrides import parse
from lab_core.config import MISSING
from lab_core.errors import ConfigError


class Frame(enum.Enum):
    WORLD = "w"
    BODY = "b"


def alive(env: Any) -> None: ...


def track(env: Any, std: float) -> None: ...


@dataclass(kw_only=True)
class Noise:
    std: float = 0.1


@dataclass(kw_only=True)
class UniformNoise(Noise):
    low: float = -1.0


@dataclass(kw_only=True)
class Entity:
    name: str = "robot"
    joint_names: tuple[str, ...] | None = None


@dataclass(kw_only=True)
class RewardTerm:
    func: Callable[..., Any] = MISSING
    weight: float = MISSING
    params: dict[str, Any] = field(default_factory=dict)
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if self.weight is not MISSING and self.weight == 666.0:
            raise ConfigError("weight must not be 666")


@dataclass(kw_only=True)
class Scene:
    num_envs: int = 64
    """How many robots to simulate."""
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    parts: list[Noise] = field(default_factory=list)


@dataclass(kw_only=True)
class Env:
    scene: Scene = field(default_factory=Scene)
    rewards: dict[str, RewardTerm | None] = field(default_factory=dict)
    joint_pos: Mapping[str, float] = field(default_factory=lambda: {".*_hip": 0.1, ".*": 0.0})
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    frame: Frame = Frame.WORLD
    seed: int | None = 42
    clip: tuple[float, float] | None = None
    stiffness: float | dict[str, float] = field(default_factory=lambda: {".*": 20.0})
    fast: bool = False
    joints: slice = field(default_factory=lambda: slice(None))
    asset: str = MISSING
    bodies: str | Sequence[str] | None = ("base",)
    rate: float = 50
    offsets: list[float] = field(default_factory=lambda: (1.0, 2.0))  # type: ignore[arg-type]
    steps: int = field(default=0, init=False)


@dataclass(kw_only=True)
class Agent:
    learning_rate: float = 1e-3
    hidden_dims: tuple[int, ...] = (256, 128)


@dataclass(kw_only=True)
class TrainArgs:
    env: Any
    agent: Any = field(default_factory=Agent)
    video: str | None = None


def default_args() -> TrainArgs:
    params = {"std": 0.5, "range": (0, 1), "entity": Entity(), "limits": None, "on": True, "frame": Frame.WORLD,
              "helper": alive, "label": "a", "steps": [1, 2], "nested": {"x": (0.0, 1.0)}}  # fmt: skip
    env = Env(
        scene=Scene(parts=[Noise(), UniformNoise()]),
        rewards={
            "alive": RewardTerm(func=alive, weight=1.0),
            "track_xy": RewardTerm(func=track, weight=2.0, params=params, noise=UniformNoise()),
            "off": None,
        },
        ranges={"x": (-1.0, 1.0)},
    )
    return TrainArgs(env=env)


def run(*argv: str) -> TrainArgs:
    return parse(default_args(), argv, prog="lab train", description="Train.")


def test_no_options_change_nothing():
    assert run() == default_args()


def track_params(args: TrainArgs) -> dict[str, Any]:
    return args.env.rewards["track_xy"].params


@pytest.mark.parametrize(
    ("argv", "read", "expected"),
    [
        ("--env.scene.num-envs 8", lambda args: args.env.scene.num_envs, 8),
        ("--env.scene.num_envs 8", lambda args: args.env.scene.num_envs, 8),
        ("--env.scene.num_envs=8", lambda args: args.env.scene.num_envs, 8),
        ("--env.scene.gravity 0 0 -1.6", lambda args: args.env.scene.gravity, (0.0, 0.0, -1.6)),
        ("--env.scene.parts.1.low -2", lambda args: args.env.scene.parts, [Noise(), UniformNoise(low=-2.0)]),
        ("--env.rewards.alive.weight 2.5", lambda args: args.env.rewards["alive"].weight, 2.5),
        ("--env.rewards.track-xy.weight -1e-3", lambda args: args.env.rewards["track_xy"].weight, -1e-3),
        ("--env.rewards.alive None", lambda args: args.env.rewards["alive"], None),
        ("--env.rewards.track-xy=None", lambda args: list(args.env.rewards.items())[1], ("track_xy", None)),
        ("--env.rewards.track_xy.noise None", lambda args: args.env.rewards["track_xy"].noise, None),
        ("--env.rewards.track_xy.noise.low 0", lambda args: args.env.rewards["track_xy"].noise, UniformNoise(low=0.0)),
        ("--env.rewards.alive.noise {std:\\ 3}", lambda args: args.env.rewards["alive"].noise, Noise(std=3.0)),
        ("--env.rewards.alive.noise.std 3", lambda args: args.env.rewards["alive"].noise, Noise(std=3.0)),
        (f"--env.rewards.alive.func {__name__}:track", lambda args: args.env.rewards["alive"].func, track),
        ("--env.rewards.alive.params {std:\\ 3}", lambda args: args.env.rewards["alive"].params, {"std": 3}),
        ("--env.ranges.x -2 2", lambda args: args.env.ranges, {"x": (-2.0, 2.0)}),
        ("--env.joint-pos.*_hip 1", lambda args: args.env.joint_pos, {".*_hip": 1.0, ".*": 0.0}),
        ("--env.frame BODY", lambda args: args.env.frame, Frame.BODY),
        ("--env.seed None", lambda args: args.env.seed, None),
        ("--env.clip -5 5", lambda args: args.env.clip, (-5.0, 5.0)),
        ("--env.stiffness 30", lambda args: args.env.stiffness, 30.0),
        ("--env.stiffness {hip:\\ 30}", lambda args: args.env.stiffness, {"hip": 30.0}),
        ("--env.fast", lambda args: args.env.fast, True),
        ("--env.no-fast", lambda args: args.env.fast, False),
        ("--env.joints !slice\\ [0,2,null]", lambda args: args.env.joints, slice(0, 2)),
        ("--env.bodies foot.* 2", lambda args: args.env.bodies, ("foot.*", "2")),
        ("--env.bodies None", lambda args: args.env.bodies, None),
        ("--env.rate 25", lambda args: args.env.rate, 25.0),
        ("--env.offsets 3 4", lambda args: args.env.offsets, [3.0, 4.0]),
        ("--env.asset 64", lambda args: args.env.asset, "64"),
        ("--agent.learning-rate 3e-4", lambda args: args.agent.learning_rate, 3e-4),
        ("--agent.hidden_dims 64 32 16", lambda args: args.agent.hidden_dims, (64, 32, 16)),
        ("--video run.mp4", lambda args: args.video, "run.mp4"),
        # entries of `params` have no declared type
        ("--env.rewards.track_xy.params.std 1", lambda args: track_params(args)["std"], 1.0),
        ("--env.rewards.track_xy.params.range -0.5 0.5", lambda args: track_params(args)["range"], (-0.5, 0.5)),
        ("--env.rewards.track_xy.params.range [2,3]", lambda args: track_params(args)["range"], (2, 3)),
        ("--env.rewards.track_xy.params.range None", lambda args: track_params(args)["range"], None),
        ("--env.rewards.track_xy.params.limits 1 2", lambda args: track_params(args)["limits"], (1, 2)),
        ("--env.rewards.track_xy.params.on false", lambda args: track_params(args)["on"], False),
        ("--env.rewards.track_xy.params.frame BODY", lambda args: track_params(args)["frame"], Frame.BODY),
        (f"--env.rewards.track_xy.params.helper {__name__}:track", lambda args: track_params(args)["helper"], track),
        ("--env.rewards.track_xy.params.label 12", lambda args: track_params(args)["label"], "12"),
        ("--env.rewards.track_xy.params.steps 7", lambda args: track_params(args)["steps"], [7]),
        ("--env.rewards.track_xy.params.nested.x -1 1", lambda args: track_params(args)["nested"], {"x": (-1.0, 1.0)}),
        (
            "--env.rewards.track_xy.params.entity.joint-names hip.* knee",
            lambda args: track_params(args)["entity"],
            Entity(joint_names=("hip.*", "knee")),
        ),
    ],
)
def test_options_set_exactly_their_field(argv, read, expected):
    args = run(*(word.replace("\\", " ") for word in argv.replace("\\ ", "\\").split(" ")))
    assert read(args) == expected
    assert repr(read(args)) == repr(expected)  # also 3.0 and 3 differ
    restored = default_args()
    assert args != restored or expected == read(restored)


def test_options_combine_and_leave_the_defaults_alone():
    defaults = default_args()
    args = parse(defaults, ["--env.scene.num-envs", "1", "--env.rewards.alive", "None"], "lab train", "Train.")
    assert args.env.scene.num_envs == 1 and args.env.rewards["alive"] is None
    assert args.env.rewards["track_xy"] == defaults.env.rewards["track_xy"]
    assert defaults == default_args()
    args.env.rewards["track_xy"].params["std"] = 9.0
    assert defaults == default_args()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--env.scene.num-env", "3"], ["Unrecognized options: --env.scene.num-env", "--env.scene.num-envs INT"]),
        (["--env.rewards.alive.wieght", "3"], ["--env.rewards.alive.wieght", "--env.rewards.alive.weight"]),
        (["--env.rewards.alvie", "None"], ["--env.rewards.alvie", "--env.rewards.alive"]),
        (["--env.rewards.alive", "None", "--env.rewards.alive.weight", "1"], ["--env.rewards.alive.weight"]),
        (["--env.scene", "None"], ["--env.scene"]),
        (["--env.scene.num-envs", "many"], ["--env.scene.num-envs", "many"]),
        (["--env.scene.gravity", "0", "0"], ["--env.scene.gravity"]),
        (["--env.frame", "LAB"], ["--env.frame", "LAB", "WORLD"]),
        (["--env.steps", "3"], ["--env.steps"]),
        (["--env.stiffness", "stiff"], ["--env.stiffness", "got 'stiff' (str), expected float | dict[str, float]"]),
        (["--env.rewards.alive.func", "track"], ["--env.rewards.alive.func", "got 'track' (str), expected Callable"]),
        (["--env.rewards.alive.weight", "666"], ["env.rewards.alive: weight must not be 666"]),
        (["--env.rewards.track_xy.params.on", "3"], ["got 3 (int), expected bool"]),
        (["--env.rewards.track_xy.params.frame", "LAB"], ["got 'LAB' (str), expected Frame (WORLD, BODY)"]),
    ],
)
def test_wrong_options_exit_with_code_2_and_name_the_nearest(argv, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*argv)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    text = " ".join((captured.out + captured.err).replace("│", " ").split())
    for part in expected:
        assert part in text


def test_help_shows_fields_defaults_and_their_docstrings(capsys):
    with pytest.raises(SystemExit) as caught:
        run("--help")
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--env.scene.num-envs INT How many robots to simulate. (default: 64)" in text
    assert f"(default: {__name__}:alive)" in text
    assert "--env.asset" in text and "(default: MISSING)" in text
    assert "fixed" not in text
