"""Files that others wrote move as in C MuJoCo, or are refused in words. They are read where they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported without their folder
from robot_files_corpus import Outcome, try_file

PACKAGES = ("dm_control==1.0.50", "gymnasium-robotics==1.4.2", "metaworld==3.1.1", "mjlab==1.6.0", "robosuite==1.5.2")
ACCEPTED = 0.85
"""Least share of the files with something that moves, which MuJoCo accepts, that are built untouched."""


def gymnasium_files() -> list[Path]:
    spec = find_spec("gymnasium")
    assert spec is not None and spec.origin is not None
    return sorted((Path(spec.origin).parent / "envs" / "mujoco" / "assets").glob("*.xml"))


@pytest.fixture
def packages(request: pytest.FixtureRequest) -> Path:
    """Returns a folder with the packages of the corpus, which is kept between runs."""
    folder = request.config.cache.mkdir("corpus")
    missing = [name for name in PACKAGES if not (folder / name).is_dir()]
    uv = shutil.which("uv")
    if missing and uv is None:
        pytest.skip("uv, which downloads the packages of the corpus, is not installed")
    for name in missing:
        part = folder / f"{name}.part"
        command = [str(uv), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(part)]
        made = subprocess.run([*command, name], capture_output=True, text=True, check=False)
        if made.returncode:
            shutil.rmtree(part, ignore_errors=True)
            pytest.skip(f"{name} of the corpus cannot be downloaded: {made.stderr.strip()[-300:]}")
        part.rename(folder / name)
    return folder


@pytest.mark.parametrize("name", ["hopper", "walker2d_v5", "reacher", "swimmer"])
def test_a_file_of_gymnasium_moves_as_in_c_mujoco(name: str):
    (path,) = (path for path in gymnasium_files() if path.stem == name)
    outcome = try_file(path)
    assert outcome.kind == "accepted", outcome.why


def summarise(outcomes: dict[str, Outcome]) -> str:
    counts = Counter(outcome.kind for outcome in outcomes.values())
    rest = [f"{kind}: {name}: {outcome.why[:300]}" for name, outcome in outcomes.items()
            if (kind := outcome.kind) in ("refused", "wrong")]  # fmt: skip
    return "\n".join((f"{dict(counts)}", *rest))


@pytest.mark.long
def test_every_file_of_gymnasium_is_built_untouched():
    outcomes = {path.name: try_file(path) for path in gymnasium_files()}
    assert {outcome.kind for outcome in outcomes.values()} == {"accepted"}, summarise(outcomes)


@pytest.mark.long
def test_the_corpus_is_accepted_or_refused_and_never_wrong(packages: Path):
    files = sorted(path for end in ("xml", "urdf") for path in packages.rglob(f"*.{end}"))
    outcomes = {str(path.relative_to(packages)): try_file(path) for path in files}
    counts = Counter(outcome.kind for outcome in outcomes.values())
    print(summarise(outcomes))
    assert not counts["wrong"], summarise(outcomes)
    assert counts["accepted"] >= ACCEPTED * (counts["accepted"] + counts["refused"]), summarise(outcomes)
