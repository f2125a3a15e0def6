"""Which change runs which tests, and that no test file is left out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ci_jobs
import workspace

ALL = ["lab_core", "lab_warp", "lab_newton", "lab_tasks", "lab_rl", "tools"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], ALL),
        (["source/lab_core/lab_core/registry.py"], ALL),
        (["source/lab_warp/tests/test_warp_capture_graphs.py"], ALL),
        (["source/lab_newton/pyproject.toml"], ALL),
        (["source/lab_rl/lab_rl/runner.py"], ["lab_rl", "tools"]),
        (["source/lab_rl/tests/test_rl_readme.py"], ["lab_rl", "tools"]),
        (["source/lab_rl/changelog.d/+x.added.md"], []),
        (["source/lab_tasks/lab_tasks/robots/go2.xml"], ["lab_tasks", "lab_rl", "tools"]),
        (["docs/index.md", "README.md", "source/lab_core/README.md", "LICENSE"], []),
        (["docs/conf.py"], []),
        (["docs/index.md", "source/lab_rl/lab_rl/runner.py"], ["lab_rl", "tools"]),
        (["tools/changelog.py"], ALL),
        (["pyproject.toml"], ALL),
        ([".ci/run"], ALL),
        (["scripts/train.py"], ALL),
        (["source/lab_unknown/lab_unknown/x.py"], ALL),
        (["source/README.txt"], ALL),
    ],
)
def test_selection(changed, expected):
    assert sorted(ci_jobs.select(changed)) == sorted(expected)


def test_command_prints_a_matrix():
    script = workspace.ROOT / "tools" / "ci_jobs.py"
    changed = "source/lab_rl/lab_rl/x.py\n"
    result = subprocess.run([sys.executable, str(script)], input=changed, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == [
        {"name": "lab_rl", "tests": "source/lab_rl/tests"},
        {"name": "tools", "tests": "tools/tests"},
    ]


@pytest.mark.parametrize("package", workspace.packages())
def test_every_package_runs_the_tools_tests_which_read_its_files(package):
    assert "tools" in ci_jobs.jobs_for(f"source/{package}/{package}/x.py")


def tracked_tests() -> list[str]:
    listing = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        ":(glob)**/test_*.py",
        ":(glob)**/*_test.py",
    ]
    return subprocess.run(listing, cwd=workspace.ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_every_test_file_is_run_by_a_job():
    found = tracked_tests()
    assert "tools/tests/test_tools_ci_jobs.py" in found
    assert [path for path in found if ci_jobs.job_of(path) is None] == []


@pytest.mark.parametrize("stray", ["scripts/test_stray.py", "source/lab_core/lab_core/test_stray.py", "docs/test_x.py"])
def test_stray_test_file_is_noticed(stray):
    assert ci_jobs.job_of(stray) is None


def test_names_of_test_modules_are_unique():
    names = [path.rsplit("/", 1)[-1] for path in tracked_tests()]
    assert sorted(names) == sorted(set(names))
