"""Configurations as nested mappings, and updates from one."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from lab_core.config import MISSING, changes_between, to_dict, update_from_dict
from lab_core.errors import ConfigError, UnknownFieldError


class Frame(enum.Enum):
    WORLD = "w"
    BODY = "b"


def alive(env: Any) -> None: ...


def track(env: Any, std: float) -> None: ...


@dataclass(kw_only=True)
class Noise:
    std: float = 0.1


@dataclass(kw_only=True)
class RewardTerm:
    func: Callable[..., Any] = MISSING
    weight: float = MISSING
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Scene:
    num_envs: int = 64
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)


@dataclass(kw_only=True)
class Env:
    scene: Scene = field(default_factory=Scene)
    rewards: dict[str, RewardTerm | None] = field(default_factory=dict)
    noises: list[Noise] = field(default_factory=list)
    noise: Noise | None = None
    frame: Frame = Frame.WORLD
    seed: int | None = None
    hidden: tuple[int, ...] = (256, 128)
    names: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    stiffness: float | dict[str, float] = 20.0
    solver: Literal["newton", "cg"] = "newton"
    scales: Sequence[float] = ()
    kind: type[Noise] = Noise
    file: Path | None = None
    fast: bool = False
    speed: float | int | str = 1.0


def env() -> Env:
    return Env(
        rewards={
            "alive": RewardTerm(func=alive, weight=1.0),
            "track": RewardTerm(func=track, weight=2.0, params={"std": 0.5, "range": (0.0, 1.0)}),
        },
        noises=[Noise(), Noise()],
        ranges={"x": (-1.0, 1.0)},
    )


def test_to_dict_is_plain_and_shares_nothing():
    cfg = env()
    plain = to_dict(cfg)
    assert plain["scene"] == {"num_envs": 64, "gravity": (0.0, 0.0, -9.81)}
    assert plain["rewards"]["track"]["func"] == f"{__name__}:track"
    assert plain["kind"] == f"{__name__}:Noise"
    plain["rewards"]["track"]["params"]["std"] = 9.0
    assert cfg == env()


def test_to_dict_names_the_path_of_a_lambda():
    cfg = env()
    cfg.rewards["alive"] = RewardTerm(func=lambda env: 0, weight=1.0)
    with pytest.raises(ConfigError, match=r"^rewards\.alive\.func: .* is a lambda"):
        to_dict(cfg)


def test_update_from_to_dict_restores():
    cfg = env()
    changes = to_dict(cfg)
    other = env()
    other.scene.num_envs, other.rewards["alive"].func, other.ranges["x"] = 1, track, (0.0, 0.0)
    update_from_dict(other, changes)
    assert other == cfg


@pytest.mark.parametrize(
    ("changes", "read", "expected"),
    [
        ({"scene": {"num_envs": 8}}, lambda cfg: cfg.scene.num_envs, 8),
        ({"scene": {"gravity": [0, 0, -1]}}, lambda cfg: cfg.scene.gravity, (0.0, 0.0, -1.0)),
        ({"speed": 2}, lambda cfg: (cfg.speed, type(cfg.speed)), (2, int)),
        ({"speed": 2.0}, lambda cfg: (cfg.speed, type(cfg.speed)), (2.0, float)),
        ({"rewards": {"alive": {"weight": 3}}}, lambda cfg: cfg.rewards["alive"].weight, 3.0),
        ({"rewards": {"alive": {"func": f"{__name__}:track"}}}, lambda cfg: cfg.rewards["alive"].func, track),
        ({"rewards": {"alive": None}}, lambda cfg: cfg.rewards["alive"], None),
        ({"rewards": {"track": {"params": {"std": 0.1, "new": 1}}}}, lambda cfg: cfg.rewards["track"].params,
         {"std": 0.1, "range": (0.0, 1.0), "new": 1}),
        ({"rewards": {"new": RewardTerm(func=alive, weight=0.0)}}, lambda cfg: list(cfg.rewards),
         ["alive", "track", "new"]),
        ({"noises": [{}, {"std": 5}]}, lambda cfg: [noise.std for noise in cfg.noises], [0.1, 5.0]),
        ({"noises": []}, lambda cfg: cfg.noises, []),
        ({"noise": {"std": 2}}, lambda cfg: cfg.noise, Noise(std=2.0)),
        ({"frame": "BODY"}, lambda cfg: cfg.frame, Frame.BODY),
        ({"frame": "b"}, lambda cfg: cfg.frame, Frame.BODY),
        ({"seed": 3}, lambda cfg: cfg.seed, 3),
        ({"hidden": [64]}, lambda cfg: cfg.hidden, (64,)),
        ({"names": ("a",)}, lambda cfg: cfg.names, ["a"]),
        ({"ranges": {"y": [0, 1]}}, lambda cfg: cfg.ranges, {"x": (-1.0, 1.0), "y": (0.0, 1.0)}),
        ({"stiffness": {"hip": 3}}, lambda cfg: cfg.stiffness, {"hip": 3.0}),
        ({"solver": "cg"}, lambda cfg: cfg.solver, "cg"),
        ({"scales": (1, 2)}, lambda cfg: cfg.scales, (1.0, 2.0)),
        ({"file": "a/b"}, lambda cfg: cfg.file, Path("a/b")),
        ({"scene": MISSING}, lambda cfg: cfg.scene, MISSING),
    ],
)  # fmt: skip
def test_update_merges_and_converts(changes, read, expected):
    cfg = env()
    update_from_dict(cfg, changes)
    assert read(cfg) == expected
    assert repr(read(cfg)) == repr(expected)  # also 3.0 and 3 differ


def test_update_writes_in_place():
    cfg = env()
    scene, term, params = cfg.scene, cfg.rewards["track"], cfg.rewards["track"].params
    update_from_dict(cfg, {"scene": {"num_envs": 1}, "rewards": {"track": {"params": {"std": 1.0}}}})
    assert cfg.scene is scene and cfg.rewards["track"] is term and term.params is params
    assert params["std"] == 1.0


@pytest.mark.parametrize(
    ("changes", "error", "expected"),
    [
        ({"scen": {}}, UnknownFieldError, ["scen: unknown field of Env 'scen'. Did you mean 'scene'"]),
        ({"rewards": {"alvie": {"weight": 1}}}, UnknownFieldError, ["rewards.alvie: ", "'alive'", "alive, track"]),
        ({"rewards": {"alvie": None}}, UnknownFieldError, ["rewards.alvie: ", "'alive'"]),
        ({"rewards": {"alive": {"wieght": 1}}}, UnknownFieldError, ["rewards.alive.wieght: ", "'weight'"]),
        ({"noise": {"sdt": 1}}, UnknownFieldError, ["noise: unknown field of Noise 'sdt'. Did you mean 'std'?"]),
        ({"scene": {"num_envs": "many"}}, ConfigError, ["scene.num_envs: got 'many' (str), expected int"]),
        ({"scene": {"num_envs": 1.5}}, ConfigError, ["scene.num_envs: got 1.5 (float), expected int"]),
        ({"scene": {"num_envs": True}}, ConfigError, ["scene.num_envs: got True (bool), expected int"]),
        ({"scene": {"num_envs": None}}, ConfigError, ["scene.num_envs: got None (NoneType), expected int"]),
        ({"scene": {"gravity": [0, 1]}}, ConfigError, ["scene.gravity: got 2 values, [0, 1], expected 3"]),
        ({"scene": {"gravity": [0, 1, "g"]}}, ConfigError, ["scene.gravity[2]: got 'g' (str), expected float"]),
        ({"scene": None}, ConfigError, ["scene: got None (NoneType), expected Scene"]),
        ({"seed": "x"}, ConfigError, ["seed: got 'x' (str), expected int | None"]),
        ({"fast": 1}, ConfigError, ["fast: got 1 (int), expected bool"]),
        ({"frame": "LAB"}, ConfigError, ["frame: got 'LAB' (str), expected Frame (WORLD, BODY)"]),
        ({"solver": "pgs"}, ConfigError, ["solver: got 'pgs' (str), expected Literal['newton', 'cg']"]),
        ({"noises": [{}]}, ConfigError, ["noises: got 1 elements, expected 2"]),
        ({"hidden": "64"}, ConfigError, ["hidden: got '64' (str), expected tuple[int, ...]"]),
        ({"ranges": {"x": [0]}}, ConfigError, ["ranges.x: got 1 values, [0], expected 2"]),
        ({"stiffness": "stiff"}, ConfigError, ["stiffness: got 'stiff' (str), expected float | dict[str, float]"]),
        ({"kind": alive}, ConfigError, ["kind: got <function alive"]),
        ({"rewards": {"alive": {"func": "alive"}}}, ConfigError, ["rewards.alive.func: got 'alive' (str), expected"]),
        ({"rewards": {"alive": {"func": f"{__name__}:alvie"}}}, ConfigError, ["rewards.alive.func: ", "'alive'"]),
    ],
)
def test_wrong_updates_are_explained_and_change_nothing(changes, error, expected):
    cfg = env()
    with pytest.raises(ConfigError) as caught:
        update_from_dict(cfg, {"seed": 7, **copy.copy(changes)} if "seed" not in changes else changes)
    assert type(caught.value) is error
    for part in expected:
        assert part in str(caught.value)
    assert cfg == env()


def test_unknown_field_is_also_a_key_error():
    with pytest.raises(KeyError):
        update_from_dict(env(), {"nothing": 1})


def test_changes_between_configurations_take_parts_of_another_class_whole():
    @dataclass(kw_only=True)
    class Bias(Noise):
        mean: float = 0.0

    first, second = env(), env()
    assert changes_between(first, second) == {}
    first.noise, second.noise = Noise(std=0.2), Bias(std=0.2, mean=1.0)
    second.scene.gravity = (0.0, 0.0, -1.6)
    second.rewards["alive"] = None
    second.rewards["track"].params["range"] = (0.0, 2.0)
    changes = changes_between(first, second)
    assert changes == {
        "scene": {"gravity": (0.0, 0.0, -1.6)},
        "rewards": {"track": {"params": {"range": (0.0, 2.0)}}, "alive": None},
        "noise": second.noise,
    }
    update_from_dict(first, changes)
    assert first == second and first.noise is not second.noise


@dataclass(kw_only=True)
class Unclear:
    number: int = 1
    thing: NoSuchType = None  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def test_an_annotation_that_means_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"Unclear\.thing: its annotation 'NoSuchType' means nothing at run time"):
        update_from_dict(Unclear(), {"number": 2})
