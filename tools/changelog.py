"""Changelog fragments and releases, one package at a time.

    python tools/changelog.py check [--base REF]
    python tools/changelog.py release [PACKAGE ...] [--bump major|minor|patch]

A fragment is ``source/<package>/changelog.d/+<slug>.<type>.md``: one or a few sentences in the imperative mood that say
what the user gets, type one of added, changed, deprecated, removed, fixed. A text that begins with ``**Breaking:**``
breaks users, and so does everything of type removed: its last paragraph begins with ``Migration:`` and says what they
write instead. A fragment of type skip says why users see nothing of a change; it stays out of the changelog.

``check`` wants a new or edited fragment for each package that changed since REF in what it ships: the files of
``source/<package>/<package>/`` and its pyproject.toml. Markdown and tests need none. Versions and CHANGELOG.md move in
a release only.

``release`` raises the version as far as the fragments ask (a break: major; added, changed or deprecated: minor; fixed:
patch; below 1.0 each counts one step less), builds CHANGELOG.md with towncrier and removes the fragments. After a
break it raises the siblings' bounds on the package. It commits nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import workspace

SKIP = "skip"
TYPES = ("added", "changed", "deprecated", "removed", "fixed", SKIP)
TIERS = ("patch", "minor", "major")
FRAGMENT_NAME = re.compile(rf"\+[A-Za-z0-9][\w.-]*\.({'|'.join(TYPES)})\.md")
START_MARKER = "<!-- towncrier release notes start -->"
BREAKING = "**Breaking:**"
MIGRATION = re.compile(r"^Migration: \S", re.MULTILINE)
PAST_TENSE = re.compile(r"(?!Embed|Feed|Need|Seed|Speed)[A-Z]\w*ed\b")


class ChangelogError(Exception):
    """Something that the caller must mend before the command can go on."""


def run(*command: str) -> str:
    """Output of a command at the root of the workspace; ChangelogError with its words when it fails."""
    result = subprocess.run(command, cwd=workspace.ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        raise ChangelogError(f"{' '.join(command)}: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def fragments(package: str) -> list[Path]:
    folder = workspace.package_dir(package) / "changelog.d"
    return sorted(path for path in folder.glob("*") if not path.name.startswith("."))


def news(package: str) -> list[Path]:
    """The fragments that users read."""
    return [path for path in fragments(package) if fragment_type(path) != SKIP]


def fragment_type(fragment: Path) -> str:
    return fragment.name.split(".")[-2]


# --- check ----------------------------------------------------------------------------------------------------------


def format_problems(package: str) -> Iterator[str]:
    """What is wrong with the package's fragments and CHANGELOG.md as files."""
    changelog = workspace.package_dir(package) / "CHANGELOG.md"
    if not changelog.is_file() or START_MARKER not in changelog.read_text(encoding="utf-8"):
        yield f"{package}: CHANGELOG.md lacks the line {START_MARKER}"
    for path in fragments(package):
        text = path.read_text(encoding="utf-8").strip()
        if not FRAGMENT_NAME.fullmatch(path.name):
            yield f"{package}: {path.name} is no fragment name; expected +<slug>.<type>.md, type of {', '.join(TYPES)}"
        elif not text:
            yield f"{package}: {path.name} is empty"
        elif text.startswith(("- ", "* ", "#")):
            yield f"{package}: {path.name} starts with a bullet or heading; write plain sentences"
        elif found := PAST_TENSE.match(text.removeprefix(BREAKING).lstrip()):
            yield f"{package}: {path.name} begins with {found[0]!r}; write in the imperative mood: 'Add ...', 'Let ...'"
        elif breaks(path) and not MIGRATION.search(text):
            yield f"{package}: {path.name} breaks users; end it with a paragraph 'Migration: ...'"


def breaks(fragment: Path) -> bool:
    """Whether users must change something after what the fragment tells of."""
    text = fragment.read_text(encoding="utf-8").lstrip()
    return fragment_type(fragment) == "removed" or text.startswith(BREAKING)


def ships(path: PurePosixPath, package: str) -> bool:
    """Whether a path, relative to ``source/<package>/``, is part of what users install."""
    return path.name == "pyproject.toml" or (path.parts[0] == package and path.suffix != ".md")


def version_at(ref: str, package: str) -> str | None:
    """The package's version at a git revision, None where it did not exist."""
    try:
        text = run("git", "show", f"{ref}:source/{package}/pyproject.toml")
    except ChangelogError:
        return None
    found = re.search(r'^version = "(.+)"', text, re.MULTILINE)
    return found.group(1) if found else None


def change_problems(package: str, base: str) -> Iterator[str]:
    """What is missing from the change between ``base`` and the present commit."""
    prefix = f"source/{package}"
    rows = run("git", "diff", "--name-status", "--no-renames", base, "HEAD", "--", prefix).splitlines()
    changed = {PurePosixPath(path).relative_to(prefix): status for status, path in (row.split("\t") for row in rows)}
    before = version_at(base, package)
    released = before is not None and before != workspace.project(package)["version"]
    rewritten = changed.get(PurePosixPath("CHANGELOG.md"), "A") != "A"
    if released != rewritten:
        yield f"{package}: the version and CHANGELOG.md move together, by `tools/changelog.py release` only"
    touched = sorted(str(path) for path in changed if ships(path, package))
    written = [path for path, status in changed.items() if path.parts[0] == "changelog.d" and status != "D"]
    if touched and not written and not released:
        yield f"{package}: changed ({', '.join(touched[:3])}) without a fragment in {prefix}/changelog.d"


def check(base: str) -> None:
    """ChangelogError listing each fault of the fragments and each package that changed without one."""
    start = run("git", "merge-base", base, "HEAD").strip()
    found = [
        problem
        for package in workspace.packages()
        for problem in (*format_problems(package), *change_problems(package, start))
    ]
    if found:
        raise ChangelogError("\n".join(found))
    print(f"Changelog: every package changed since {base} has its fragment.")


# --- release --------------------------------------------------------------------------------------------------------


def required_tier(package: str) -> str:
    """How far the package's fragments ask its version to move, as written for 1.0 and later."""
    if any(map(breaks, news(package))):
        return "major"
    return "patch" if {fragment_type(path) for path in news(package)} == {"fixed"} else "minor"


def bump_for(package: str, tier: str) -> str:
    """The component to raise: below 1.0 a break raises the minor version and all else the patch version."""
    if not workspace.project(package)["version"].startswith("0."):
        return tier
    return "minor" if tier == "major" else "patch"


def bounds(version: str) -> str:
    """The range of versions that promise to work like ``version``: ">=0.2,<0.3", ">=2.0,<3"."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f">={major}.{minor},<0.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def raise_bounds(package: str, old: str, new: str) -> list[str]:
    """After a break, let each sibling require the new version and say so; returns the siblings."""
    if bounds(old).split(",")[1] == bounds(new).split(",")[1]:
        return []
    raised = [name for name in workspace.packages() if package in workspace.siblings(name)]
    for sibling in raised:
        folder = workspace.package_dir(sibling)
        pyproject = folder / "pyproject.toml"
        text = pyproject.read_text(encoding="utf-8")
        pyproject.write_text(re.sub(rf'"{package}[<>=~!][^"]*"', f'"{package}{bounds(new)}"', text), encoding="utf-8")
        note = folder / "changelog.d" / f"+{package}-{new}.changed.md"
        note.write_text(f"Require {package} {new} or newer.\n", encoding="utf-8")
    return raised


def set_version_attribute(package: str, version: str) -> None:
    """Keep ``__version__`` of the package equal to the version in its pyproject.toml."""
    path = workspace.package_dir(package) / package / "__init__.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, flags=re.M), encoding="utf-8")


def release(package: str, bump: str | None) -> None:
    if not news(package):
        print(f"{package}: no fragments, nothing to release")
        return
    old = workspace.project(package)["version"]
    component = bump or bump_for(package, required_tier(package))
    new = run("uv", "version", "--package", package, "--bump", component, "--frozen", "--short").strip()
    set_version_attribute(package, new)
    for path in set(fragments(package)) - set(news(package)):
        path.unlink()
    folder = str(workspace.package_dir(package))
    build = (workspace.program("towncrier"), "build", "--yes", "--config", "pyproject.toml")
    run(*build, "--dir", folder, "--name", package, "--version", new)
    raised = raise_bounds(package, old, new)
    print(f"{package}: {old} -> {new}; commit, then tag {package}-v{new}")
    if raised:
        print(f"{package}: {', '.join(raised)} now require it; release them too")


def release_all(packages: list[str], bump: str | None) -> None:
    """Release the given packages, lowest first, after all of them passed the checks."""
    if run("git", "status", "--porcelain"):
        raise ChangelogError("the work tree has uncommitted changes; commit or remove them before a release")
    if found := [problem for package in packages for problem in format_problems(package)]:
        raise ChangelogError("\n".join(found))
    for package in packages:
        release(package, bump)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="fail when a package changed without a fragment")
    checking.add_argument("--base", default="origin/main", help="revision to compare with (default: %(default)s)")
    releasing = commands.add_parser("release", help="raise versions and build the changelogs")
    releasing.add_argument("packages", nargs="*", metavar="PACKAGE", help="default: every package with fragments")
    releasing.add_argument("--bump", choices=TIERS, help="raise this component, whatever the fragments ask for")
    arguments = parser.parse_args()
    try:
        if arguments.command == "check":
            check(arguments.base)
        else:
            known = workspace.packages()
            if unknown := sorted(set(arguments.packages) - set(known)):
                raise ChangelogError(f"no package {', '.join(unknown)}; there are {', '.join(known)}")
            chosen = arguments.packages or known
            release_all([package for package in known if package in chosen], arguments.bump)
    except ChangelogError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
