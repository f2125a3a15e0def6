"""The wheel check passes on sound packages and names the package whose wheel does not stand alone."""

from __future__ import annotations

import pytest

import check_wheels
import workspace

pytestmark = pytest.mark.slow


def test_sound_wheels_pass(skeleton):
    result = skeleton.run("check_wheels.py")
    assert result.returncode == 0, result.stdout
    assert "Wheels passed." in result.stdout


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("lab_warp/fault.py", "import lab_newton\n", "No module named 'lab_newton'"),
        ("lab_warp/fault.py", "import torch\n", "No module named 'torch'"),
        ("lab_warp/inner/__init__.py", "raise RuntimeError('broken on import')\n", "broken on import"),
        ("README.md", "# lab_warp\n\n```python\nimport lab_warp\n\nlab_warp.record()\n```\n", "no attribute 'record'"),
    ],
)
def test_fault_is_named(skeleton, path, text, message):
    skeleton.write(f"source/lab_warp/{path}", text)
    result = skeleton.run("check_wheels.py", "lab_core", "lab_warp")
    assert result.returncode == 1, result.stdout
    assert "lab_core: installs, imports and runs alone" in result.stdout
    assert message in result.stdout
    assert "Wheels failed: lab_warp" in result.stdout


def test_only_the_first_python_example_runs(skeleton):
    text = (
        "# lab_warp\n\n```bash\nfalse\n```\n\n```python\nimport lab_warp\n```\n\n```python\nraise SystemExit(1)\n```\n"
    )
    skeleton.write("source/lab_warp/README.md", text)
    assert skeleton.run("check_wheels.py", "lab_warp").returncode == 0


def test_a_folder_of_an_extra_is_imported_with_it(skeleton):
    path = "source/lab_rl/pyproject.toml"
    skeleton.replace(
        path, "[build-system]", '[project.optional-dependencies]\nnerd = ["lab_newton>=0.1,<0.2"]\n\n[build-system]'
    )
    skeleton.write("source/lab_rl/lab_rl/nerd/__init__.py", "")
    skeleton.write("source/lab_rl/lab_rl/nerd/fit.py", "import lab_newton\n")
    result = skeleton.run("check_wheels.py", "lab_rl")
    assert result.returncode == 0, result.stdout
    skeleton.write("source/lab_rl/lab_rl/nerd/fit.py", "import lab_tasks\n")
    result = skeleton.run("check_wheels.py", "lab_rl")
    assert result.returncode == 1 and "importing every module with extras" in result.stdout


def test_unbuildable_package_fails(skeleton):
    skeleton.replace("source/lab_rl/pyproject.toml", 'readme = "README.md"', 'readme = "MISSING.md"')
    result = skeleton.run("check_wheels.py", "lab_rl")
    assert result.returncode == 1
    assert "building the wheels failed" in result.stdout


def test_undeclared_sibling_in_the_environment_is_named(skeleton, tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "ROOT", skeleton.root)
    wheels = check_wheels.build(tmp_path / "wheels")
    check_wheels.write_constraints(tmp_path / "constraints.txt", wheels)
    skeleton.replace("source/lab_warp/pyproject.toml", '"lab_core>=0.1,<0.2"', "")
    with pytest.raises(check_wheels.WheelError, match="installed lab_core, lab_warp; declared are lab_warp"):
        check_wheels.check("lab_warp", wheels["lab_warp"], tmp_path / "constraints.txt", tmp_path)
