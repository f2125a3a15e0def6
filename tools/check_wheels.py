"""Gate: the wheel of each package works alone.

    python tools/check_wheels.py [PACKAGE ...]

Builds all wheels. Then, for each package in an empty environment of its own: installs the wheel with what it declares
(siblings from the built wheels, third-party packages at the workspace's pins), checks that no sibling came along that
it does not declare, imports every module, and runs the first Python example of its README. A folder that is called like
an extra of its package is imported when that extra is installed too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import workspace

EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
left_out = tuple(f"{package.__name__}.{extra}." for extra in sys.argv[2:])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__") and not module.name.startswith(left_out):
        importlib.import_module(module.name)
"""


class WheelError(Exception):
    """A wheel that does not do what its package promises."""


def run(step: str, folder: Path, *command: str | Path) -> str:
    """Output of a command in ``folder``; WheelError that names the step when it fails."""
    result = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise WheelError(f"{step} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def build(folder: Path) -> dict[str, Path]:
    """The built wheel of each package."""
    run("building the wheels", workspace.ROOT, "uv", "build", "--all-packages", "--wheel", "--out-dir", folder)
    return {package: next(folder.glob(f"{package}-*.whl")) for package in workspace.packages()}


def write_constraints(path: Path, wheels: dict[str, Path]) -> None:
    """Pin siblings to the built wheels and everything else as the workspace does."""
    pins = workspace.read_toml(workspace.ROOT / "pyproject.toml")["tool"]["uv"].get("constraint-dependencies", [])
    built = [f"{package} @ {wheel.as_uri()}" for package, wheel in wheels.items()]
    path.write_text("\n".join([*pins, *built]), encoding="utf-8")


def declared_siblings(package: str) -> set[str]:
    """The packages of this workspace that installing ``package`` brings along, itself among them."""
    return {package}.union(*map(declared_siblings, workspace.siblings(package)))


def extras_with_folder(package: str) -> list[str]:
    """The extras of ``package`` that a folder of it needs, which is called like them."""
    folder = workspace.package_dir(package)
    extras = workspace.read_toml(folder / "pyproject.toml")["project"].get("optional-dependencies", {})
    return [extra for extra in extras if (folder / package / extra).is_dir()]


def check(package: str, wheel: Path, constraints: Path, folder: Path) -> None:
    """WheelError when the wheel does not install, import or run its example alone."""
    environment = folder / "environment"
    run("creating the environment", folder, "uv", "venv", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    pip = ("uv", "pip")
    run("installing", folder, *pip, "install", "--python", python, "--constraints", constraints, wheel)
    listed = json.loads(run("listing", folder, *pip, "list", "--python", python, "--format", "json"))
    present = {entry["name"].replace("-", "_") for entry in listed} & set(workspace.packages())
    if present != declared_siblings(package):
        expected = ", ".join(sorted(declared_siblings(package)))
        raise WheelError(f"installed {', '.join(sorted(present))}; declared are {expected}")
    extras = extras_with_folder(package)
    run("importing every module", folder, python, "-I", "-c", IMPORT_ALL, package, *extras)
    readme = (workspace.package_dir(package) / "README.md").read_text(encoding="utf-8")
    if example := EXAMPLE.search(readme):
        script = folder / "example.py"
        script.write_text(example.group(1), encoding="utf-8")
        run("the README's first example", folder, python, "-I", script)
    if extras:
        whole = f"{package}[{','.join(extras)}] @ {wheel.as_uri()}"
        run("installing extras", folder, *pip, "install", "--python", python, "--constraints", constraints, whole)
        run("importing every module with extras", folder, python, "-I", "-c", IMPORT_ALL, package)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="default: all")
    chosen = parser.parse_args().packages or workspace.packages()
    if unknown := sorted(set(chosen) - set(workspace.packages())):
        parser.error(f"no package {', '.join(unknown)}; there are {', '.join(workspace.packages())}")
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            wheels = build(folder / "wheels")
        except WheelError as error:
            print(error)
            return 1
        write_constraints(folder / "constraints.txt", wheels)
        for package in chosen:
            (folder / package).mkdir()
            try:
                check(package, wheels[package], folder / "constraints.txt", folder / package)
            except WheelError as error:
                failed.append(package)
                print(f"{package}: {error}", flush=True)
            else:
                print(f"{package}: installs, imports and runs alone", flush=True)
    print(f"Wheels failed: {', '.join(failed)}" if failed else "Wheels passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
