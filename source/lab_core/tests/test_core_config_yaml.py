"""YAML files hold any configuration exactly, and say what is wrong with a broken one."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lab_core.config import MISSING, config_hash, dump_yaml, load_yaml, save_yaml
from lab_core.errors import ConfigError, UnknownFieldError


class Frame(enum.Enum):
    WORLD = "w"
    BODY = 2


def track_velocity(env: Any, std: float) -> None: ...


class Curriculum:
    @classmethod
    def flat(cls) -> None: ...


@dataclass(kw_only=True)
class Noise:
    std: float = 0.1


@dataclass(kw_only=True)
class UniformNoise(Noise):
    low: float = -1.0


@dataclass(kw_only=True)
class Term:
    func: Callable[..., Any] = MISSING
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class RewardTerm(Term):
    weight: float = MISSING

    def __post_init__(self) -> None:
        if self.weight is not MISSING and not math.isfinite(self.weight):
            raise ValueError(f"weight must be finite, got {self.weight}")


@dataclass(kw_only=True)
class Env:
    rewards: dict[str, RewardTerm | None] = field(default_factory=dict)
    noises: list[Noise] = field(default_factory=list)
    anything: Any = None
    steps: int = field(default=0, init=False)


def full_config() -> Env:
    return Env(
        rewards={
            "track": RewardTerm(
                func=track_velocity,
                weight=1.0,
                params={
                    "frame": Frame.BODY,
                    "joints": slice(None, 4, 2),
                    "ranges": ((-1.0, 1.0), (0, 3)),
                    "dtype": torch.float16,
                    "noise": UniformNoise(low=-2.0),
                },
            ),
            "on": None,
            "alive": RewardTerm(func=Curriculum.flat),
        },
        noises=[Noise(), UniformNoise()],
        anything={
            "class": Curriculum,
            "path": Path("runs/a b"),
            "floats": [1e-3, 1e20, -0.0, math.inf, -math.inf],
            "words": [
                "1e-3",
                "on",
                "null",
                "",
                " x",
                "a: b",
                "2024-01-01",
                "0x10",
                "~",
                "line\nline",
                "ünïcode",
                "1:30",
            ],
            "hole": MISSING,
            "nested": [[], {}, (), [(None, True)], {"a": {"b": ()}}],
            3: "integer key",
        },
    )


def test_round_trip_keeps_every_kind_of_value():
    cfg = full_config()
    loaded = load_yaml(dump_yaml(cfg))
    assert loaded == cfg
    assert repr(loaded) == repr(cfg)  # also types, order, the sign of zero
    assert type(loaded.noises[1]) is UniformNoise
    assert loaded.anything["hole"] is MISSING


def test_nan_survives():
    assert math.isnan(load_yaml(dump_yaml([math.nan]))[0])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text("abc:#- \n'\"~1"), inner),
    max_leaves=8,
)


@given(value=VALUES)
@example(value="\x85")  # YAML 1.1 breaks lines here too
@example(value={"a\u2028": "\u2029 b"})
@example(value=["\ufeff", "\ud800", "\r\n", "\t", "\x00", "\x7f", "\ufffe"])
@example(value={" a ": " \n ", "": "", "\n": "a\n \n"})
def test_any_nested_value_survives(value):
    assert repr(load_yaml(dump_yaml(value))) == repr(value)


# All characters that some rule of YAML or of Unicode singles out: control and format characters, every kind of space
# and line break, surrogates, private and unassigned ones, the ends of planes.
SINGLED_OUT = [
    chr(code)
    for first, last in [
        (0x00, 0x17F),
        (0x1680, 0x1680),
        (0x2000, 0x206F),
        (0x3000, 0x3000),
        (0xD7F0, 0xE00F),
        (0xFDD0, 0xFDEF),
        (0xFE00, 0xFE0F),
        (0xFEF0, 0x1000F),
        (0x10FFF0, 0x10FFFF),
    ]
    for code in range(first, last + 1)
]


@pytest.mark.parametrize("form", ["{}", "a{}", "{}a", "a {} b", "a\n{}b", " {}", "{} ", "{0}{0}", "a{}\n", "-{}#:{}"])
def test_any_character_survives_in_any_place(form):
    texts = [form.format(character, character) for character in SINGLED_OUT]
    loaded = load_yaml(dump_yaml(dict(zip(texts, texts, strict=True))))
    assert loaded == {text: text for text in texts}
    assert list(loaded) == list(dict.fromkeys(texts))


def test_breaks_and_blanks_survive_in_any_order():
    texts = ["".join(text) for length in (1, 2, 3, 4) for text in product("a \n\x85\u2028\t'", repeat=length)]
    assert load_yaml(dump_yaml(texts)) == texts


def test_the_whole_basic_plane_survives():
    texts = ["".join(map(chr, range(first, first + 0x40))) for first in range(0, 0x10000, 0x40)]
    assert load_yaml(dump_yaml(texts)) == texts


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\x00", "\ud800", "\ufeff"])
def test_paths_and_files_keep_any_character(tmp_path, character):
    value = [Path(f"a{character}b"), f"{character}\n"]
    save_yaml(value, tmp_path / "value.yaml")
    assert load_yaml(tmp_path / "value.yaml") == value


def test_shared_objects_are_written_out_and_loaded_apart():
    noise = Noise()
    text = dump_yaml([noise, noise])
    assert "&" not in text
    first, second = load_yaml(text)
    assert first == second and first is not second


def test_text_is_readable():
    text = dump_yaml(RewardTerm(func=track_velocity, weight=0.5, params={"range": (0.0, 1.0)}))
    assert text == (
        f"!cfg:{__name__}:RewardTerm\n"
        f"func: !ref {__name__}:track_velocity\n"
        "params:\n"
        "  range: !tuple [0.0, 1.0]\n"
        "weight: 0.5\n"
    )


def test_plain_yaml_follows_the_core_schema():
    text = "{a: 1e-3, b: on, c: 0x1F, d: -.inf, e: 2024-01-01, f: .5, g: null, h: 0o17, i: 007, j: 1_000}"
    assert load_yaml(text) == {
        "a": 1e-3, "b": "on", "c": 31, "d": -math.inf, "e": "2024-01-01", "f": 0.5, "g": None, "h": 15, "i": 7,
        "j": "1_000",
    }  # fmt: skip


def test_files_are_written_whole_and_read_by_path_or_name(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("old")
    save_yaml(full_config(), path)
    assert load_yaml(path) == load_yaml(str(path)) == full_config()
    assert list(tmp_path.iterdir()) == [path]


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("old")
    with pytest.raises(ConfigError):
        save_yaml({"f": lambda: 0}, path)
    assert path.read_text() == "old"


def test_a_save_that_breaks_off_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_text("old")

    def breaks_off(self: Path, text: str, encoding: str) -> None:
        self.write_bytes(text.encode()[:3])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_text", breaks_off)
    with pytest.raises(OSError, match="No space"):
        save_yaml([1, 2, 3], path)
    assert path.read_text() == "old"


def test_hash_tells_configs_apart():
    changed = full_config()
    assert config_hash(changed) == config_hash(full_config())
    changed.noises[1].std = 0.2
    assert config_hash(changed) != config_hash(full_config())


def local_function():
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda: 0, "is a lambda"),
        (local_function(), "is defined inside a function"),
        (torch.zeros(2), "a torch.Tensor cannot be written"),
        ({1, 2}, "a set cannot be written"),
        (object(), "a object cannot be written"),
    ],
)
def test_values_without_text_form_are_named_by_path(value, expected):
    cfg = Env(rewards={"track": RewardTerm(params={"scales": [1.0, value]})})
    with pytest.raises(ConfigError, match=expected) as caught:
        dump_yaml(cfg)
    assert str(caught.value).startswith("rewards.track.params.scales[1]: ")


def test_number_and_string_subclasses_are_refused_with_the_remedy():
    class Name(str): ...

    with pytest.raises(ConfigError, match=r"a\[0\]: .*Name is not written to YAML; use str\(\)"):
        dump_yaml({"a": [Name("x")]})


def test_cycles_are_refused():
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ConfigError, match="contains itself"):
        dump_yaml(cycle)
    with pytest.raises(ConfigError, match="anchor contains itself"):
        load_yaml("&a [*a]")


ENV, REWARD = f"!cfg:{__name__}:Env", f"!cfg:{__name__}:RewardTerm"


@pytest.mark.parametrize(
    ("text", "error", "expected"),
    [
        ("a: [1, 2", ConfigError, ["<text>:1: broken YAML"]),
        ("", ConfigError, ["the file is empty"]),
        (f"{ENV}\nrewardz: {{}}", UnknownFieldError, ["<text>:2: rewardz: ", "Did you mean 'rewards'?", "noises"]),
        (
            f"{ENV}\nrewards:\n  track: {REWARD}\n    wieght: 1.0",
            UnknownFieldError,
            ["<text>:4: rewards.track.wieght: unknown field of RewardTerm", "Did you mean 'weight'?"],
        ),
        (f"{ENV}\nnoises:\n- !cfg:{__name__}:GoneNoise {{}}", ConfigError, ["<text>:3: noises[0]: ", "'GoneNoise'"]),
        (f"!cfg:{__name__}:RewardTrem {{}}", ConfigError, ["did you mean 'RewardTerm'"]),
        ("a: !cfg:no_such_module:X {}", ConfigError, ["<text>:1: a: cannot import module 'no_such_module'"]),
        (f"a: !ref {__name__}:track_velocty", ConfigError, ["a: ", "did you mean 'track_velocity'"]),
        ("a: !ref math:pi", ConfigError, ["a: math:pi is neither a function nor a class"]),
        ("a: !ref nothing", ConfigError, ["a: 'nothing' is not of the form 'module:name'"]),
        (f"a: !cfg:{__name__}:Curriculum {{}}", ConfigError, ["is no dataclass"]),
        (f"a: {ENV} [1]", ConfigError, ["a: expected a mapping"]),
        (f"a: {REWARD} {{weight: .inf}}", ConfigError, ["a: RewardTerm refuses its values: weight must be finite"]),
        (f"a: !enum {__name__}:Frame.WRLD", ConfigError, ["a: unknown Frame 'WRLD'. Did you mean 'WORLD'?"]),
        (f"a: !enum {__name__}:Noise.std", ConfigError, ["is no enum"]),
        ("a: !dtype flot32", ConfigError, ["a: unknown torch dtype 'flot32'. Did you mean", "'float32'"]),
        ("a: !slice [1, 2]", ConfigError, ["a: expected [start, stop, step], got 2 values"]),
        ("a: !tuple {b: 1}", ConfigError, ["a: expected a list"]),
        ("a: !ref [1]", ConfigError, ["a: expected one value after !ref"]),
        ("a: !!int x", ConfigError, ["a: 'x' is no integer"]),
        ("a: !!float x", ConfigError, ["a: 'x' is no number"]),
        ("a: !tupel [1]", ConfigError, ["a: unknown tag '!tupel'. Did you mean '!tuple'"]),
        ("a: !!python/object/apply:os.system [ls]", ConfigError, ["unknown tag"]),
        ("a: 1\na: 2", ConfigError, ["<text>:2: a: the key is given twice"]),
        ("? [1]\n: 2", ConfigError, ["a key must be a single value"]),
    ],
)
def test_broken_files_are_explained(text, error, expected):
    with pytest.raises(ConfigError) as caught:
        load_yaml(text)
    assert type(caught.value) is error
    for part in expected:
        assert part in str(caught.value)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "run.yaml"
    with pytest.raises(ConfigError, match=r"run\.yaml: cannot read the file"):
        load_yaml(path)
    path.write_text("a: !tupel []")
    with pytest.raises(ConfigError, match=r"run\.yaml:1: a: unknown tag"):
        load_yaml(path)
