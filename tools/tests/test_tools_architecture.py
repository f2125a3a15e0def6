"""The documents name what exists; docs/architecture.md shows every folder, and its counts of files are right."""

from __future__ import annotations

import importlib
import re

import pytest

import check_references
import workspace

GUIDE = workspace.ROOT / "docs" / "architecture.md"
DOCUMENTS = sorted(
    path for place in ("*.md", "docs/**/*.md", "source/*/README.md") for path in workspace.ROOT.glob(place)
)
PACKAGES = "|".join(workspace.packages())


def code_spans(text: str) -> list[str]:
    """What stands between backticks, outside of examples."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def is_path(span: str) -> bool:
    """Whether it is the path of a file of ours, whose name may contain ``<what is new>``."""
    top = rf"({PACKAGES}|<package>|tools|docs|scripts)/"
    return re.match(top, span) is not None and re.fullmatch(r"[\w<>./-]+", span) is not None


def exists(path: str) -> bool:
    """Whether there is such a file or folder: one for every ``<name>``, as an example of what is new."""
    pattern = re.sub(r"<\w+>", "*", path).rstrip("/")
    top = pattern.partition("/")[0]
    return any(any(workspace.ROOT.glob(place)) for place in (pattern, f"source/{pattern}", f"source/{top}/{pattern}"))


def resolution_error(span: str) -> str | None:
    """Why a name of ours cannot be resolved, ``module:name`` or the dotted name of a module or of something in it."""
    if not re.fullmatch(rf"({PACKAGES})(\.\w+)*(:\w+(\.\w+)*)?", span):
        return None
    if ":" in span:
        return check_references.resolution_error(span)
    try:
        importlib.import_module(span)
    except ModuleNotFoundError as error:
        module, dot, name = span.rpartition(".")
        return check_references.resolution_error(f"{module}:{name}") if dot else str(error)
    return None


def mistakes(text: str) -> list[str]:
    """What a document names and nobody finds."""
    spans = code_spans(text)
    missing = [span for span in spans if is_path(span) and not exists(span)]
    return missing + [f"{span}: {error}" for span in spans if (error := resolution_error(span))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(workspace.ROOT)))
def test_documents_name_what_exists(document):
    assert mistakes(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "span",
    [
        "lab_core/envs/gone.py",
        "lab_core/gone/",
        "lab_newton/sensors/<sensor>_gone.py",
        "tools/gone.py",
        "lab_core.gone",
        "lab_core.scene.Gone",
        "lab_core.envs.gone:RLEnv",
        "lab_core.envs.rl_env:RLEnv.gone",
    ],
)
def test_what_is_gone_is_found(span):
    assert len(mistakes(f"See `lab_core/envs/rl_env.py` and `{span}`.")) == 1


def test_the_picture_shows_every_folder():
    text, shown = GUIDE.read_text(encoding="utf-8"), {}
    (picture,) = (block for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL) if "lab_core/" in block)
    folders = []
    for indent, name in re.findall(r"^( *)(\w+)/ ", picture, flags=re.MULTILINE):
        if not indent:
            folders = shown.setdefault(name, [])
        else:
            folders.append(name)
    there = {
        package: sorted(path.parent.name for path in (workspace.package_dir(package) / package).glob("*/__init__.py"))
        for package in workspace.packages()
    }
    assert shown == there


def test_the_counts_of_files_are_right():
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| ([^|]+) \|", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) >= 12
    stated = {what: int(count) for what, count, _ in rows}
    assert stated == {what: sum(map(is_path, code_spans(files))) for what, _, files in rows}


def test_the_files_of_a_row_belong_to_one_example():
    """``<sensor>`` stands for one name in all files of a row but its tests, and the last column speaks of it."""
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| \d+ \| ([^|]+) \| ([^|]+) \|", text, flags=re.MULTILINE)
    assert len(rows) >= 12
    for what, files, example in rows:
        new = [span for span in code_spans(files) if "<" in span and "<package>" not in span and "/tests/" not in span]
        names = {name.lower() for name in re.findall(r"[A-Z]?[a-z0-9]+", example)}
        assert any(all(exists(re.sub(r"<\w+>", name, span)) for span in new) for name in names), what
