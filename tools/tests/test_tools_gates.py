"""Each gate passes on a sound workspace and turns red when the fault it guards against is put in."""

from __future__ import annotations

import pytest

import check_docstrings

# Gate, file, its text, what the gate must say.
FAULTS = {
    "unused import": ("lint", "source/lab_core/lab_core/fault.py", "import os\n", "F401"),
    "unformatted": ("format", "source/lab_core/lab_core/fault.py", "x = {  'a':1}\n", "fault.py"),
    "wrong type": ("types", "source/lab_core/lab_core/fault.py", "number: int = 'text'\n", "fault.py:1"),
    "task imports learner": (
        "imports",
        "source/lab_tasks/lab_tasks/fault.py",
        "import lab_rl\n",
        "lab_tasks.fault -> lab_rl",
    ),
    "learner imports task": (
        "imports",
        "source/lab_rl/lab_rl/fault.py",
        "import lab_tasks\n",
        "lab_rl.fault -> lab_tasks",
    ),
    "core imports Warp layer": (
        "imports",
        "source/lab_core/lab_core/fault.py",
        "import lab_warp\n",
        "lab_core.fault -> lab_warp",
    ),
    "core imports engine late": (
        "imports",
        "source/lab_core/lab_core/fault.py",
        "def probe() -> None:\n    import mujoco\n",
        "lab_core.fault -> mujoco",
    ),
    "core names Newton layer": (
        "references",
        "source/lab_core/lab_core/fault.py",
        "BACKEND = 'lab_newton.backend'\n",
        "names lab_newton",
    ),
    "name inside a message": (
        "references",
        "source/lab_tasks/lab_tasks/fault.py",
        "def hint(task: str) -> str:\n    return f'{task}: pip install lab-rl'\n",
        "names lab_rl",
    ),
    "private name of a module": (
        "public-imports",
        "source/lab_warp/lab_warp/fault.py",
        "from lab_core.registry import _tasks\n",
        "source/lab_warp/lab_warp/fault.py:1: lab_core.registry keeps _tasks to itself",
    ),
    "name that a package does not export": (
        "public-imports",
        "source/lab_warp/tests/test_fault.py",
        "def test_it():\n    from lab_core import task\n",
        "source/lab_warp/tests/test_fault.py:2: the __all__ of lab_core does not name task",
    ),
    "Markdown in a docstring": (
        "docstrings",
        "source/lab_core/lab_core/fault.py",
        'def load() -> None:\n    """Loads `path`."""\n',
        "source/lab_core/lab_core/fault.py:2: `path` is Markdown; write ``path``",
    ),
    "dangling reference": (
        "references",
        "source/lab_tasks/lab_tasks/fault.py",
        "CFG = 'lab_core.registry:nothing'\n",
        "has no attribute 'nothing'",
    ),
    "registry imports torch": (
        "import-time",
        "source/lab_core/lab_core/registry.py",
        "import torch\n",
        "also imports torch",
    ),
    "command line breaks": (
        "import-time",
        "source/lab_core/lab_core/cli.py",
        "raise RuntimeError('no')\n",
        "cli failed",
    ),
    "undeclared dependency": (
        "dependencies",
        "source/lab_warp/lab_warp/fault.py",
        "import numpy\n",
        "'numpy' imported but",
    ),
    "unneeded dependency": (
        "dependencies",
        "source/lab_warp/lab_warp/__init__.py",
        "",
        "'lab_core' defined as a dependency",
    ),
}


@pytest.mark.parametrize(
    "gate",
    [
        "lint",
        "format",
        "imports",
        "public-imports",
        "circles",
        "docstrings",
        "references",
        "import-time",
        "dependencies",
        "types",
    ],
)
def test_sound_workspace_passes(skeleton, gate):
    result = skeleton.run("gates.py", gate)
    assert result.returncode == 0, result.stdout
    assert f"--- {gate}" in result.stdout


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_turns_gate_red(skeleton, fault):
    gate, path, text, message = FAULTS[fault]
    skeleton.write(path, text)
    result = skeleton.run("gates.py", gate)
    assert result.returncode == 1, result.stdout
    assert message in " ".join(result.stdout.split())
    assert f"Gates failed: {gate}" in result.stdout


@pytest.mark.parametrize(
    ("package", "target", "message"),
    [
        ("lab_core", "lab_core.missing:main", "No module named 'lab_core.missing'"),
        ("lab_core", "lab_rl:train", "names lab_rl"),
        ("lab_tasks", "lab_tasks:CARTPOLE", "has no attribute 'CARTPOLE'"),
    ],
)
def test_entry_points_are_references(skeleton, package, target, message):
    pyproject = f"source/{package}/pyproject.toml"
    skeleton.write(
        pyproject, f'{skeleton.read(pyproject)}\n[project.entry-points."lab.commands"]\ntrain = "{target}"\n'
    )
    result = skeleton.run("gates.py", "references")
    assert result.returncode == 1
    assert f"{pyproject} [lab.commands] train" in result.stdout
    assert message in result.stdout


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "from lab_core.scene.files import load",
            "lab_core.scene.files lies inside of lab_core; import from lab_core.scene",
        ),
        ("import lab_core.scene.files", "lab_core.scene.files lies inside of lab_core"),
        ("from lab_core.scene import files", "lab_core.scene.files lies inside of lab_core"),
        ("from lab_core.scene import load", "the __all__ of lab_core.scene does not name load"),
        ("from lab_core._inner import load", "lab_core._inner lies inside of lab_core; import from lab_core what"),
        ("from lab_core import _inner", "lab_core._inner lies inside of lab_core"),
        ("from lab_core.scene import Scene", None),
        ("from lab_core import scene, registry", None),
        ("import lab_core.registry", None),
        ("from lab_core.registry import task", None),
        ("from lab_core import __version__", None),
        ("from lab_warp.deep.inside import anything", None),  # its own
    ],
)
def test_a_package_takes_what_another_one_exports(skeleton, statement, message):
    skeleton.write("source/lab_core/lab_core/scene/__init__.py", '__all__: list[str] = ["Scene"]\n')
    for module in ("scene/files", "_inner"):
        skeleton.write(f"source/lab_core/lab_core/{module}.py", "load = None\n")
    skeleton.write("source/lab_warp/lab_warp/user.py", f"{statement}\n")
    result = skeleton.run("gates.py", "public-imports")
    assert result.returncode == (1 if message else 0), result.stdout
    assert (message or "Gates passed") in result.stdout


TYPES_OF = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import lab_core.{}\n"
CIRCLES = {
    "late import": (
        {"one": "import lab_core.two\n", "two": "def load():\n    from lab_core import one\n"},
        "modules import each other at run time: lab_core.one, lab_core.two",
    ),
    "folders": (
        {"a/one": "import lab_core.b.one\n", "b/two": "import lab_core.a.two\n", "a/two": "", "b/one": ""},
        "folders import each other at run time: lab_core.a, lab_core.b",
    ),
    "three by type": (
        {"one": "import lab_core.two\n", "two": "import lab_core.three\n", "three": TYPES_OF.format("one")},
        "3 modules name each other, counting types: lab_core.one, lab_core.three, lab_core.two",
    ),
    "one pair by type": ({"a": "import lab_core.b\n", "b": TYPES_OF.format("a")}, None),
    "too many pairs by type": (
        {f"a{i}": f"import lab_core.b{i}\n" for i in range(3)} | {f"b{i}": TYPES_OF.format(f"a{i}") for i in range(3)},
        "3 pairs of modules name each other, counting types: lab_core.a0 <-> lab_core.b0",
    ),
    "name that a package passes on": (
        {
            "a/__init__": "from lab_core.a.high import y\nfrom lab_core.a.low import x\n",
            "a/high": "from lab_core.a import x\n\ny = x\n",
            "a/low": "x = 0\n",
        },
        None,
    ),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_circles_turn_their_gate_red(skeleton, circle):
    modules, message = CIRCLES[circle]
    for module, text in modules.items():
        skeleton.write(f"source/lab_core/lab_core/{module}.py", text)
    result = skeleton.run("gates.py", "circles")
    assert result.returncode == (1 if message else 0), result.stdout
    assert (message or "No circles.") in result.stdout


TEXT = '''"""Returns ``x``, see :func:`load`, `a page <https://example.com>`_.

Makes `y` of `x`.
"""

number = "`z`"  # `z`
size = 1
"""Of `z`."""
'''


def test_markdown_is_found_in_docstrings_only_and_doubled():
    assert check_docstrings.findings(TEXT) == [(3, "`y`"), (3, "`x`"), (8, "`z`")]
    fixed = check_docstrings.fixed(TEXT)
    assert check_docstrings.findings(fixed) == []
    assert fixed == TEXT.replace("`y` of `x`", "``y`` of ``x``").replace("Of `z`", "Of ``z``")


def test_docstrings_and_own_names_are_no_references(skeleton):
    text = '"""Works with lab_rl."""\n\nOWN = "lab_tasks.motions"\nLOWER = "lab_core.registry"\n'
    skeleton.write("source/lab_tasks/lab_tasks/names.py", text)
    assert skeleton.run("gates.py", "references").returncode == 0


def test_changelog_gate_takes_the_base(skeleton):
    skeleton.git("init", "--quiet")
    skeleton.commit()
    skeleton.write("source/lab_rl/lab_rl/new.py", "")
    skeleton.commit()
    assert skeleton.run("gates.py", "changelog", "--base", "HEAD").returncode == 0
    result = skeleton.run("gates.py", "changelog", "--base", "HEAD~1")
    assert result.returncode == 1
    assert "lab_rl: changed" in result.stdout


def test_unknown_gate_lists_the_known(skeleton):
    result = skeleton.run("gates.py", "lints")
    assert result.returncode == 2
    assert "no gate lints; there are lint, format" in result.stdout
