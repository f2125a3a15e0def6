"""What conftest.py at the root promises of every suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

import workspace

TESTS = "source/lab_core/tests"


@pytest.fixture
def suite(skeleton):
    """Runs pytest in the skeleton, on two workers unless told otherwise; keywords go to the environment."""
    shutil.copy(workspace.ROOT / "conftest.py", skeleton.root / "conftest.py")

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        left_out = ("PYTEST_", "LAB_HYPOTHESIS", "OMP_NUM_THREADS")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(
            command, cwd=skeleton.root, env=inherited | environment, capture_output=True, text=True, timeout=300
        )

    run.write = lambda name, text: skeleton.write(f"{TESTS}/{name}", text)
    run.folder = skeleton.root
    return run


HYPOTHESIS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_it(number):
    with open("drawn", "a") as file:
        print(number, file=file)
"""


def drawn(suite, **environment) -> list[str]:
    suite.write("test_drawn.py", HYPOTHESIS)
    result = suite(f"{TESTS}/test_drawn.py", **environment)
    assert "1 passed" in result.stdout, result.stdout
    path = suite.folder / "drawn"
    numbers = path.read_text().split()
    path.unlink()
    return numbers


def test_hypothesis_draws_the_same_each_time(suite):
    assert drawn(suite) == drawn(suite)


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_search_draws_anew_and_more(suite, ci):
    first, second = (drawn(suite, LAB_HYPOTHESIS="search", CI=ci) for _ in range(2))
    assert first != second
    assert len(first) > 500


ADDRESS = """
import pytest

@pytest.mark.parametrize("value", [object()], ids=str)
def test_it(value): ...
"""


def test_no_name_of_a_test_holds_an_address(suite):
    suite.write("test_address.py", ADDRESS)
    result = suite(f"{TESTS}/test_address.py")
    assert result.returncode and "give its parameter an id" in result.stdout + result.stderr


WHO = """
import os, sys, time, pytest

{mark}
@pytest.mark.parametrize("case", range(3))
def test_it(case):
    time.sleep(0.2)
    with open("who", "a") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("OMP_NUM_THREADS"), "{name}", file=file)
"""


def who(suite, *arguments: str, **environment) -> list[list[str]]:
    """Worker, threads and name of the file of each test that ran, in order."""
    for name, mark in {"a": "", "b": "", "c": "@pytest.mark.slow"}.items():
        suite.write(f"test_{name}.py", WHO.format(name=name, mark=mark))
    result = suite(*arguments, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.split() for line in (suite.folder / "who").read_text().splitlines()]


def test_files_stay_together_and_slow_ones_come_first(suite):
    rows = who(suite, TESTS, "-n", "2")
    assert len(rows) == 9
    assert {worker for worker, _, _ in rows} == {"gw0", "gw1"}
    for name in "abc":
        assert len({worker for worker, _, file in rows if file == name}) == 1
    assert "c" in {file for _, _, file in rows[:2]}


def test_workers_share_the_cores(suite):
    threads = {int(threads) for _, threads, _ in who(suite, TESTS, "-n", "2")}
    assert threads == {max(1, len(os.sched_getaffinity(0)) // 2)}


def test_a_choice_of_threads_stays(suite):
    assert {threads for _, threads, _ in who(suite, TESTS, "-n", "2", OMP_NUM_THREADS="3")} == {"3"}


@pytest.mark.parametrize(
    "arguments", [(f"{TESTS}/test_a.py",), (f"{TESTS}/test_a.py::test_it", f"{TESTS}/test_b.py"), (TESTS, "-n", "0")]
)
def test_named_files_run_in_this_process(suite, arguments):
    assert {worker for worker, _, _ in who(suite, *arguments)} == {"None"}


KERNEL = """
import sys
import warp as wp
sys.path.insert(0, {folder!r})
import shared_kernels

def test_it():
    out = wp.zeros(1, dtype=float, device="cpu")
    wp.launch(shared_kernels.fill, dim=1, inputs=[out], device="cpu")
    assert out.numpy()[0] == 1.0
"""
SHARED = """
import warp as wp

@wp.kernel
def fill(out: wp.array(dtype=float)):
    out[0] = 1.0
"""


@pytest.mark.slow
def test_two_workers_compile_a_kernel_once(suite):
    suite.write("helpers/shared_kernels.py", SHARED)
    for name in "ab":
        suite.write(f"test_{name}.py", KERNEL.format(folder=str(suite.folder / TESTS / "helpers")))
    result = suite(TESTS, "-n", "2", "-rA", WARP_CACHE_PATH=str(suite.folder / "cache"))
    assert "2 passed" in result.stdout, result.stdout
    assert sorted(re.findall(r"Module shared_kernels .*\((\w+)\)", result.stdout)) == ["cached", "compiled"]
