"""Tasks and backends through entry points of installed packages."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from lab_core import registry
from lab_core.errors import ConfigError, LabError, PluginError, UnknownBackendError, UnknownTaskError
from lab_core.registry import TaskSpec, backend_class, get_task, register_task, task_ids, task_package


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a package of one module, with entry points, importable for one test."""

    def install(name: str, source: str, entry_points: str) -> None:
        root = tmp_path / name
        info = root / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        (root / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(root)

    return install


GOOD = """
    from lab_core.registry import TaskSpec
    HOP = TaskSpec(id="Good-Hop", env_cfg="good_plugin:hop_cfg", agents={"ppo": "good_plugin:ppo_cfg"})
    LOST = TaskSpec(id="Good-Lost", env_cfg="good_plugin:gone", agents={"ppo": "nowhere"})
    def hop_cfg(play=False): return {"play": play}
    def ppo_cfg(): return {"rate": 1e-3}
    class Backend: ...
"""
GOOD_POINTS = """
    [lab.tasks]
    Good-Hop = good_plugin:HOP
    Good-Lost = good_plugin:LOST
    Good-Wrong = good_plugin:hop_cfg
    Good-Other = good_plugin:HOP
    [lab.backends]
    good = good_plugin:Backend
"""
BROKEN = "import a_module_that_is_not_installed"
BROKEN_POINTS = """
    [lab.tasks]
    Broken-Task = broken_plugin:TASK
"""


def test_installed_task_makes_its_configs(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    assert "Good-Hop" in task_ids()
    spec = get_task("Good-Hop")
    assert spec.make_env_cfg() == {"play": False}
    assert spec.make_env_cfg(play=True) == {"play": True}
    assert spec.make_agent_cfg() == spec.make_agent_cfg("ppo") == {"rate": 1e-3}
    assert task_package("Good-Hop") == "good_plugin"
    assert backend_class("good").__name__ == "Backend"


def test_listing_ids_imports_no_task(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    sys.modules.pop("good_plugin", None)
    assert "Good-Hop" in task_ids()
    assert "good_plugin" not in sys.modules


def test_unknown_task_suggests_and_lists(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    with pytest.raises(
        UnknownTaskError, match="unknown task 'good-hopp'. Did you mean 'Good-Hop'.*Good-Lost"
    ) as caught:
        get_task("good-hopp")
    assert isinstance(caught.value, (LabError, KeyError))


def test_broken_package_is_named_and_leaves_the_others_alone(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    install("broken_plugin", BROKEN, BROKEN_POINTS)
    assert {"Broken-Task", "Good-Hop"} <= set(task_ids())
    assert get_task("Good-Hop").id == "Good-Hop"
    with pytest.raises(PluginError, match="'Broken-Task' of package 'broken_plugin'.*a_module_that_is_not_installed"):
        get_task("Broken-Task")


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [("Good-Wrong", "is a function, expected a TaskSpec"), ("Good-Other", "calls itself 'Good-Hop'")],
)
def test_entry_that_is_no_such_task_is_refused(install, task_id, expected):
    install("good_plugin", GOOD, GOOD_POINTS)
    with pytest.raises(PluginError, match=expected):
        get_task(task_id)


def test_two_packages_with_one_id_are_both_named(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    install("rival_plugin", GOOD, "[lab.tasks]\nGood-Hop = rival_plugin:HOP\n")
    with pytest.raises(PluginError, match="offered twice, by 'rival_plugin'.*'good_plugin'"):
        get_task("Good-Hop")


def test_config_functions_that_are_gone_are_named(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    with pytest.raises(PluginError, match="environment config of task 'Good-Lost'.*has no 'gone'"):
        get_task("Good-Lost").make_env_cfg()
    with pytest.raises(PluginError, match="agent config 'ppo' of task 'Good-Lost'.*'nowhere' is not of the form"):
        get_task("Good-Lost").make_agent_cfg()


def test_agents_are_named_when_one_is_unknown():
    spec = TaskSpec(id="T", env_cfg=dict, agents={"ppo": dict, "supermimic": dict})
    with pytest.raises(ConfigError, match="task 'T': unknown agent 'pppo'. Did you mean 'ppo'.*ppo, supermimic"):
        spec.make_agent_cfg("pppo")
    with pytest.raises(ConfigError, match="task 'U' has no agent config"):
        TaskSpec(id="U", env_cfg=dict).make_agent_cfg()


def test_registered_task_can_be_replaced_but_not_shadow_an_installed_one(install, monkeypatch):
    monkeypatch.setattr(registry, "_registered_tasks", {})
    install("good_plugin", GOOD, GOOD_POINTS)
    first, second = TaskSpec(id="My-Task", env_cfg=dict), TaskSpec(id="My-Task", env_cfg=lambda play: {})
    register_task(first)
    register_task(second)
    assert get_task("My-Task") is second
    assert "My-Task" in task_ids()
    assert task_package("My-Task") == "(registered)"
    with pytest.raises(ConfigError, match="'Good-Hop' is taken by package 'good_plugin'"):
        register_task(TaskSpec(id="Good-Hop", env_cfg=dict))


def test_unknown_backend_lists_what_exists(install):
    install("good_plugin", GOOD, GOOD_POINTS)
    with pytest.raises(UnknownBackendError, match="unknown physics backend 'goood'. Did you mean 'good'"):
        backend_class("goood")


def test_configuration_and_command_line_import_no_torch():
    modules = "lab_core, lab_core.config, lab_core.registry, lab_core.cli, lab_core.cli.list, lab_core.cli.info"
    code = f"import sys, {modules}, lab_core.gym_registration; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
