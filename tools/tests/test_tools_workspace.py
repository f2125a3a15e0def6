"""Facts about the repository that no other gate holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import workspace

WORKFLOWS = sorted((workspace.ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_package_is_in_the_import_contract():
    members = {path.parent.name for path in workspace.ROOT.glob("source/*/pyproject.toml")}
    settings = workspace.read_toml(workspace.ROOT / "pyproject.toml")
    assert members == set(workspace.packages())
    assert members == set(settings["tool"]["importlinter"]["root_packages"])
    assert members == set(settings["project"]["dependencies"])


@pytest.mark.parametrize("package", workspace.packages())
def test_declared_siblings_lie_below(package):
    assert workspace.siblings(package) <= workspace.importable_from(package) - {package}


def test_layers_order_the_packages():
    assert workspace.importable_from("lab_core") == {"lab_core"}
    assert workspace.importable_from("lab_newton") == {"lab_core", "lab_warp", "lab_newton"}
    assert "lab_rl" not in workspace.importable_from("lab_tasks")
    assert "lab_tasks" not in workspace.importable_from("lab_rl")


@pytest.mark.parametrize("package", workspace.packages())
def test_version_is_the_same_in_code_and_metadata(package):
    text = (workspace.package_dir(package) / package / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{workspace.project(package)["version"]}"' in text


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_pins_actions_and_calls_tools_that_exist(workflow):
    text = workflow.read_text(encoding="utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    assert [action for action in actions if not re.search(r"@(v\d+|[0-9a-f]{40})", action)] == []
    assert [tool for tool in re.findall(r"tools/\w+\.py", text) if not (workspace.ROOT / tool).is_file()] == []


def test_there_are_workflows():
    assert {path.name for path in WORKFLOWS} == {"ci.yml", "nightly.yml", "release.yml"}


def documents() -> list[Path]:
    """The Markdown files of the project."""
    root = workspace.ROOT
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("source/*/README.md")])


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(workspace.ROOT)))
def test_documents_point_to_what_exists(document):
    text = document.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not (document.parent / link).exists()] == []
    programs = re.findall(r"\b(?:tools|scripts)/[\w/]+\.py\b", text)
    assert [program for program in programs if not (workspace.ROOT / program).is_file()] == []


def run_pytest(skeleton, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test of lab_core under the workspace's pytest settings."""
    skeleton.write("source/lab_core/tests/test_settings.py", test)
    command = [sys.executable, "-m", "pytest", "source/lab_core/tests", "-q", "-n", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(command, cwd=skeleton.root, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("place", "outcome"), [("lab_core.old", "1 failed"), ("lab_coreutils", "1 passed")])
def test_deprecated_calls_fail_in_our_code_only(skeleton, place, outcome):
    call = f"warnings.warn_explicit('old', DeprecationWarning, 'x.py', 1, module='{place}')"
    assert outcome in run_pytest(skeleton, f"import warnings\n\n\ndef test_call():\n    {call}\n").stdout


def test_unknown_marker_fails(skeleton):
    result = run_pytest(skeleton, "import pytest\n\n\n@pytest.mark.gpus\ndef test_it():\n    pass\n")
    assert result.returncode != 0
    assert "'gpus' not found in `markers`" in result.stdout
