"""Configurations refuse names that they do not have."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import lab_core
from lab_core.config import Settings
from lab_core.errors import UnknownFieldError
from lab_core.managers import SceneEntityCfg
from lab_core.scene import SceneCfg


def own_configurations() -> Iterator[type]:
    for module in pkgutil.walk_packages(lab_core.__path__, "lab_core."):
        members = vars(importlib.import_module(module.name)).values()
        yield from (
            cls
            for cls in members
            if inspect.isclass(cls) and cls.__name__.endswith("Cfg") and cls.__module__ == module.name
        )


def test_a_misspelt_field_is_refused_with_the_nearest() -> None:
    scene = SceneCfg()
    with pytest.raises(UnknownFieldError, match=r"field of SceneCfg 'num_env'\. Did you mean 'num_envs'"):
        scene.num_env = 64  # pyright: ignore[reportAttributeAccessIssue]
    assert "num_env" not in vars(scene)


def test_what_is_resolved_inside_may_be_kept() -> None:
    """Neither a private name nor a new value of a field is a mistake."""
    joints = SceneEntityCfg("robot")
    joints.joint_names = "arm"
    joints._bodies = None  # what resolve() keeps
    assert joints.joint_names == "arm"


def test_all_configurations_are_settings() -> None:
    found = list(own_configurations())
    assert len(found) > 60
    assert [cls for cls in found if dataclasses.is_dataclass(cls) and not issubclass(cls, Settings)] == []
