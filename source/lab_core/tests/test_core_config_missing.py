"""``MISSING`` and the completeness check."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from lab_core.config import MISSING, check_complete, missing_fields
from lab_core.errors import ConfigError, IncompleteConfigError


@dataclass(kw_only=True)
class Asset:
    file: str = MISSING
    scale: float = 1.0


@dataclass(kw_only=True)
class Scene:
    entities: dict[str, Asset | None] = field(default_factory=dict)
    parts: list[Asset] = field(default_factory=list)
    limits: tuple[Any, ...] = ()


def test_missing_is_one_object_after_copying_and_pickling():
    assert copy.copy(MISSING) is MISSING
    assert copy.deepcopy({"a": [MISSING]})["a"][0] is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING


def test_missing_has_no_truth_value():
    with pytest.raises(TypeError, match="`is MISSING`"):
        bool(MISSING)


def test_paths_go_through_dataclasses_dicts_lists_and_tuples():
    scene = Scene(
        entities={"robot": Asset(), "off": None},
        parts=[Asset(file="a"), Asset()],
        limits=(0.0, (1.0, {"up": MISSING})),
    )
    assert missing_fields(scene) == ["entities.robot.file", "parts[1].file", "limits[1][1].up"]


def test_incomplete_config_names_every_hole():
    scene = Scene(entities={"robot": Asset(scale=MISSING)}, parts=[Asset()])
    with pytest.raises(IncompleteConfigError) as caught:
        check_complete(scene)
    message = str(caught.value)
    assert message.startswith("Scene is incomplete")
    for hole in ("entities.robot.file", "entities.robot.scale", "parts[0].file"):
        assert f"\n  {hole}" in message
    assert isinstance(caught.value, (ConfigError, TypeError))


def test_complete_config_passes():
    scene = Scene(entities={"robot": Asset(file="a.xml")})
    assert missing_fields(scene) == []
    check_complete(scene)
