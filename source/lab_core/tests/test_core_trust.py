"""Whose code a file may name."""

from __future__ import annotations

import functools
import sys

import pytest

from lab_core.config import dump_yaml, load_yaml, resolve_reference
from lab_core.errors import ConfigError
from lab_core.registry import TaskSpec, announced_packages, get_task, register_task, task_ids
from lab_core.trust import reading_a_file, trust_files


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A module on the path that tells when it is imported."""
    (tmp_path / "a_stranger.py").write_text("import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
                                            "def reward(env): ...\n")  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "a_stranger.ran"
    sys.modules.pop("a_stranger", None)


TEXTS = [
    "func: !ref a_stranger:reward",
    "!cfg:a_stranger:Cfg {}",
    "name: a_stranger:Solver",
    "- !enum a_stranger:Mode.A",
    "asset: a_stranger.models:robot.xml",
    "a_stranger:reward: 1",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_file_imports_nothing_of_a_package_that_announces_nothing(text, stranger):
    with reading_a_file(), pytest.raises(ConfigError, match=r"<text>:1: .*code of 'a_stranger'.*--trust"):
        load_yaml(text)
    assert not stranger.exists()


def test_with_trust_it_does(stranger):
    with trust_files(), reading_a_file():
        assert load_yaml(TEXTS[0])["func"].__name__ == "reward"
    assert stranger.exists()


@pytest.mark.parametrize("reference", ["os:system", "subprocess:run", "builtins:eval", "lab_core.registry:Path.unlink"])
def test_not_even_what_is_imported_already(reference):
    with reading_a_file(), pytest.raises(ConfigError, match="--trust"):
        load_yaml(f"!ref {reference}")


def test_a_file_inside_of_any_package_may_be_named_and_imports_nothing(stranger):
    text = "a_stranger:models/robot.xml"
    with reading_a_file():
        assert load_yaml(f"asset: {text}") == {"asset": text}
    with pytest.raises(ConfigError, match="not of the form 'module:name'"):
        resolve_reference(text)
    assert not stranger.exists()


def test_texts_that_only_look_alike_pass():
    text = "{a: 'http://x.org/y', b: 'a: b', c: 'cuda:0', d: 'lab_core:models/robot.xml', e: 'rate [1/s]: 3'}"
    with reading_a_file():
        assert set(load_yaml(text)) == set("abcde")


def test_a_task_that_is_made_by_pythons_own_library_opens_nothing(monkeypatch):
    monkeypatch.setattr("lab_core.registry._registered_tasks", {})
    register_task(TaskSpec(id="Partial", env_cfg=functools.partial(dict)))
    register_task(TaskSpec(id="Builtin", env_cfg=dict))
    assert not announced_packages() & {"functools", "builtins"}


def test_every_task_of_installed_packages_can_be_read(monkeypatch):
    monkeypatch.setattr("lab_core.registry._registered_tasks", {})
    for task in task_ids():
        text = dump_yaml(get_task(task).make_env_cfg())
        with reading_a_file():
            assert load_yaml(text) == get_task(task).make_env_cfg()


def test_registered_tasks_count_as_announced(stranger, monkeypatch):
    """Whoever registers a task has run its module already."""
    monkeypatch.setattr("lab_core.registry._registered_tasks", {})
    register_task(TaskSpec(id="Own", env_cfg="a_stranger:make"))
    assert "a_stranger" in announced_packages()
    with reading_a_file():
        assert load_yaml(TEXTS[0])["func"].__name__ == "reward"
