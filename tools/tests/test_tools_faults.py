"""The fault tool finds what tests notice, names what they let pass, and leaves the checkout alone."""

from __future__ import annotations

import ast
import shutil

import pytest

from fault_maker import Source

CODE = '''"""Numbers."""


def double(value: float) -> float:
    """Return twice ``value``."""
    return 2.0 * value


def triple(value: float) -> float:
    """Return three times ``value``."""
    return 3.0 * value
'''
TEST = """
import time
from lab_core.numbers import double

def test_double():
    started = time.monotonic()
    while not 0.0 < double(1.0) < 10.0:
        assert time.monotonic() - started < 60.0
    assert double(1.0) == 2.0
"""
FOUND = '[[fault]]\nname = "half"\nold = "2.0 * value"\nnew = "0.5 * value"\ntests = ["test_numbers.py"]\n'
PASSES = (
    '[[fault]]\nname = "sixfold"\nold = "3.0 * value"\nnew = "6.0 * value"\ntests = ["test_numbers.py::test_double"]\n'
)
TWICE = '[[fault]]\nname = "twice"\nold = "* value"\nnew = ""\ntests = ["test_numbers.py"]\n'
NO_TEST = '[[fault]]\nname = "alone"\nold = "2.0 * value"\nnew = "value"\ntests = ["test_nothing.py"]\n'
BREAKS = '[[fault]]\nname = "breaks"\nold = "def double"\nnew = "def"\ntests = ["test_numbers.py"]\n'


@pytest.fixture
def faulty(skeleton):
    """The skeleton with a module, a test that sees half of it, and a way to try faults."""
    shutil.rmtree(skeleton.root / "tools" / "faults")
    skeleton.write("source/lab_core/lab_core/numbers.py", CODE)
    skeleton.write("source/lab_core/tests/deep/test_numbers.py", TEST)
    skeleton.git("init", "--quiet")

    def run(faults: str, *arguments: str):
        skeleton.write("tools/faults/lab_core.toml", faults)
        return skeleton.run("check_faults.py", *arguments)

    run.skeleton = skeleton
    return run


def test_a_fault_that_a_test_notices_is_found(faulty):
    result = faulty(FOUND)
    assert result.returncode == 0, result.stdout
    assert "lab_core: half  (test_numbers.py::test_double)" in result.stdout
    assert "1 of 1 faults found" in result.stdout


def test_a_fault_that_no_test_notices_fails(faulty):
    result = faulty(FOUND + PASSES, "--jobs", "2", "--table", "table.md")
    assert result.returncode == 1
    assert "lab_core: sixfold  (1 passed" in result.stdout
    assert "1 of 2 faults found" in result.stdout
    assert faulty.skeleton.read("table.md").splitlines()[2:] == [
        "| lab_core | half | `test_numbers.py::test_double` |",
        "| lab_core | sixfold | **passes** |",
    ]


@pytest.mark.parametrize(
    ("fault", "message"), [(TWICE, "its text stands 2 times in lab_core"), (NO_TEST, "no test module test_nothing.py")]
)
def test_a_fault_that_lost_its_place_fails(faulty, fault, message):
    result = faulty(fault)
    assert result.returncode == 1
    assert f"stale      0 s  lab_core: {'twice' if fault is TWICE else 'alone'}  ({message})" in result.stdout


def test_words_choose_faults(faulty):
    result = faulty(FOUND + PASSES, "half")
    assert result.returncode == 0
    assert "1 of 1" in result.stdout


def test_code_that_cannot_be_imported_is_found(faulty):
    result = faulty(BREAKS)
    assert result.returncode == 0, result.stdout
    assert "1 of 1" in result.stdout


def test_a_fault_that_hangs_is_found(faulty):
    faulty.skeleton.replace("tools/check_faults.py", "LIMIT_S = 300", "LIMIT_S = 10")
    result = faulty(FOUND.replace("0.5 *", "50.0 *"))
    assert result.returncode == 0, result.stdout
    assert "(more than 10 s)" in result.stdout


def test_the_checkout_stays_as_it_is(faulty):
    faulty(FOUND + PASSES)
    assert faulty.skeleton.read("source/lab_core/lab_core/numbers.py") == CODE


def test_faults_are_made(faulty):
    result = faulty(FOUND, "--make", "1", "numbers")
    assert result.returncode == 0, result.stdout
    assert "lab_core: numbers.py:" in result.stdout


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("return a < b", {"return a <= b"}),
        ("return a if a is None else b", {"return a if a is not None else b"}),
        ("return a and b", {"return a or b"}),
        ("return not a", {"return (a)"}),
        ("return a + b", {"return a - b"}),
        ("return a.clamp(b, c)", {"return a", "return a.clamp(c, b)"}),
        ("return torch.clamp(a, b)", {"return a", "return torch.clamp(b, a)"}),
        ("return max(a, b)", {"return min(a, b)", "return max(b, a)"}),
        ("a.zero_()", {"pass"}),
        ("return 2", {"return 3"}),
        ("return True", {"return False"}),
        ("a = 'ü' if b == c else d", {"a = 'ü' if b != c else d"}),
        ("return a", set()),
    ],
)
def test_kinds_of_faults(line, faults):
    text = f'def function(a, b, c, d):\n    """Return 1 + 1 < 2."""\n    {line}\n'
    made = {text[: edit.start] + edit.new + text[edit.end :] for edit in Source(text).edits()}
    assert {fault.splitlines()[2].strip() for fault in made} == faults
    for fault in made:
        ast.parse(fault)
