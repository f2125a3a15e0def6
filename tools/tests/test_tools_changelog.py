"""Changelog rules and releases, in temporary git repositories."""

from __future__ import annotations

import pytest

REMOVED = "Remove the old call.\n\nMigration: call the new one.\n"
RENAMED = "**Breaking:** Rename it.\n\nMigration: use the new name.\n"


@pytest.fixture
def repository(skeleton):
    """The skeleton as a git repository whose first commit is the base of every change."""
    skeleton.git("init", "--quiet")
    skeleton.commit()
    skeleton.git("tag", "base")
    return skeleton


def fragment(repository, package, name, text="Add a thing.\n"):
    repository.write(f"source/{package}/changelog.d/{name}", text)


def check(repository):
    repository.commit()
    return repository.run("changelog.py", "check", "--base", "base")


def release(repository, *arguments):
    repository.commit()
    return repository.run("changelog.py", "release", *arguments)


def version(repository, package):
    line = next(
        line for line in repository.read(f"source/{package}/pyproject.toml").splitlines() if "version =" in line
    )
    return line.split('"')[1]


def set_version(repository, package, new):
    repository.replace(f"source/{package}/pyproject.toml", '"0.1.0"', f'"{new}"')
    repository.replace(f"source/{package}/{package}/__init__.py", '"0.1.0"', f'"{new}"')


# --- check ----------------------------------------------------------------------------------------------------------


def test_change_with_fragment_passes(repository):
    repository.write("source/lab_rl/lab_rl/new.py", "")
    fragment(repository, "lab_rl", "+new.added.md")
    result = check(repository)
    assert result.returncode == 0, result.stdout


def test_package_without_fragment_is_named(repository):
    repository.write("source/lab_rl/lab_rl/new.py", "")
    repository.write("source/lab_core/lab_core/new.py", "")
    fragment(repository, "lab_rl", "+new.added.md")
    result = check(repository)
    assert result.returncode == 1
    assert "lab_core: changed (lab_core/new.py) without a fragment" in result.stdout
    assert "lab_rl" not in result.stdout


def test_fragment_of_an_earlier_change_does_not_count(repository):
    fragment(repository, "lab_rl", "+earlier.added.md")
    repository.commit()
    repository.git("tag", "--force", "base")
    repository.write("source/lab_rl/lab_rl/new.py", "")
    assert check(repository).returncode == 1


def test_removing_a_fragment_does_not_count(repository):
    fragment(repository, "lab_rl", "+earlier.added.md")
    repository.commit()
    repository.git("tag", "--force", "base")
    repository.write("source/lab_rl/lab_rl/new.py", "")
    (repository.root / "source/lab_rl/changelog.d/+earlier.added.md").unlink()
    assert check(repository).returncode == 1


def test_base_that_moved_on_is_compared_at_the_fork(repository):
    repository.git("branch", "feature")
    repository.write("source/lab_core/lab_core/by_others.py", "")
    repository.commit()
    repository.git("tag", "--force", "base")
    repository.git("switch", "--quiet", "feature")
    repository.write("source/lab_rl/lab_rl/new.py", "")
    fragment(repository, "lab_rl", "+new.added.md")
    result = check(repository)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path",
    ["source/lab_rl/tests/test_x.py", "source/lab_rl/README.md", "source/lab_rl/lab_rl/notes.md", "docs/index.md"],
)
def test_tests_and_documentation_need_no_fragment(repository, path):
    repository.write(path, "text\n")
    assert check(repository).returncode == 0


def test_dependency_change_needs_a_fragment(repository):
    repository.replace("source/lab_rl/pyproject.toml", '"lab_core>=0.1,<0.2"', '"lab_core>=0.1.3,<0.2"')
    result = check(repository)
    assert "lab_rl: changed (pyproject.toml) without a fragment" in result.stdout


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("+x.feature.md", "Add a thing.", "+x.feature.md is no fragment name"),
        ("+x.added.rst", "Add a thing.", "+x.added.rst is no fragment name"),
        ("x.added.md", "Add a thing.", "x.added.md is no fragment name"),
        ("+.added.md", "Add a thing.", "+.added.md is no fragment name"),
        ("+x.added.md", " \n", "+x.added.md is empty"),
        ("+x.added.md", "- Add a thing.", "+x.added.md starts with a bullet"),
        ("+x.added.md", "Added a thing.", "+x.added.md begins with 'Added'; write in the imperative mood"),
        ("+x.changed.md", "**Breaking:** Renamed it.\n\nMigration: none.", "+x.changed.md begins with 'Renamed'"),
        ("+x.changed.md", "**Breaking:** Rename it.", "+x.changed.md breaks users; end it with a paragraph"),
        ("+x.removed.md", "Remove it.", "+x.removed.md breaks users; end it with a paragraph"),
    ],
)
def test_malformed_fragment_fails(repository, name, text, message):
    fragment(repository, "lab_warp", name, text)
    result = check(repository)
    assert result.returncode == 1
    assert f"lab_warp: {message}" in result.stdout


def test_missing_start_marker_fails(repository):
    repository.write("source/lab_warp/CHANGELOG.md", "# Changelog\n")
    assert "lab_warp: CHANGELOG.md lacks the line" in check(repository).stdout


def test_version_and_changelog_do_not_move_by_hand(repository):
    set_version(repository, "lab_rl", "0.2.0")
    repository.replace("source/lab_warp/CHANGELOG.md", "# Changelog\n", "# Changelog\n\nNews.\n")
    result = check(repository)
    assert result.returncode == 1
    assert "lab_rl: the version and CHANGELOG.md move together" in result.stdout
    assert "lab_warp: the version and CHANGELOG.md move together" in result.stdout


def test_new_package_needs_only_its_fragment(repository):
    repository.git("rm", "-r", "--quiet", "source/lab_rl")
    repository.commit()
    repository.git("tag", "without")
    repository.git("revert", "--no-edit", "HEAD")
    fragment(repository, "lab_rl", "+new.added.md")
    repository.commit()
    result = repository.run("changelog.py", "check", "--base", "without")
    assert result.returncode == 0, result.stdout


def test_unknown_base_is_named(repository):
    result = repository.run("changelog.py", "check", "--base", "nowhere")
    assert result.returncode == 1
    assert "nowhere" in result.stdout


# --- release --------------------------------------------------------------------------------------------------------


def test_release_builds_the_changelog_and_removes_fragments(repository):
    fragment(repository, "lab_rl", "+one.added.md", "Add checkpoints.\n")
    fragment(repository, "lab_rl", "+two.fixed.md", "Let the progress bar end.\n")
    result = release(repository)
    assert result.returncode == 0, result.stdout
    assert "lab_rl: 0.1.0 -> 0.1.1; commit, then tag lab_rl-v0.1.1" in result.stdout
    text = repository.read("source/lab_rl/CHANGELOG.md")
    assert text.startswith("# Changelog\n\n<!-- towncrier release notes start -->\n\n## 0.1.1 (")
    assert "### Added\n\n- Add checkpoints.\n" in text
    assert "### Fixed\n\n- Let the progress bar end.\n" in text
    assert [path.name for path in (repository.root / "source/lab_rl/changelog.d").iterdir()] == [".gitkeep"]
    assert '__version__ = "0.1.1"' in repository.read("source/lab_rl/lab_rl/__init__.py")
    assert version(repository, "lab_core") == "0.1.0"


def test_what_users_do_not_see_stays_out(repository):
    repository.write("source/lab_rl/lab_rl/new.py", "")
    fragment(repository, "lab_rl", "+inside.skip.md", "Rename a private function.\n")
    assert check(repository).returncode == 0
    assert "lab_rl: no fragments" in repository.run("changelog.py", "release", "lab_rl").stdout
    fragment(repository, "lab_rl", "+one.added.md", "Add checkpoints.\n")
    assert release(repository, "lab_rl").returncode == 0
    text = repository.read("source/lab_rl/CHANGELOG.md")
    assert "Add checkpoints." in text and "private" not in text
    assert [path.name for path in (repository.root / "source/lab_rl/changelog.d").iterdir()] == [".gitkeep"]


@pytest.mark.parametrize("text", ["Speed up resets.", "Feed sensors.", "Let resets be called."])
def test_imperatives_pass(repository, text):
    fragment(repository, "lab_rl", "+one.changed.md", text)
    assert check(repository).returncode == 0


def test_release_passes_the_check(repository):
    repository.write("source/lab_rl/lab_rl/new.py", "")
    fragment(repository, "lab_rl", "+new.added.md")
    release(repository)
    result = check(repository)
    assert result.returncode == 0, result.stdout


def test_second_release_changes_nothing(repository):
    fragment(repository, "lab_rl", "+new.added.md")
    release(repository)
    repository.commit()
    result = repository.run("changelog.py", "release")
    assert result.returncode == 0
    assert "lab_rl: no fragments" in result.stdout
    assert repository.git("status", "--porcelain") == ""


def test_newest_release_comes_first(repository):
    for text in ("First.\n", "Second.\n"):
        fragment(repository, "lab_rl", "+new.fixed.md", text)
        assert release(repository).returncode == 0
    text = repository.read("source/lab_rl/CHANGELOG.md")
    assert 0 < text.index("## 0.1.2") < text.index("Second.") < text.index("## 0.1.1") < text.index("First.")


@pytest.mark.parametrize(
    ("before", "fragments", "after"),
    [
        ("1.2.3", {"+a.fixed.md": "Mend."}, "1.2.4"),
        ("1.2.3", {"+a.fixed.md": "Mend.", "+b.skip.md": "Rename inside."}, "1.2.4"),
        ("1.2.3", {"+a.fixed.md": "Mend.", "+b.added.md": "Add."}, "1.3.0"),
        ("1.2.3", {"+a.deprecated.md": "Deprecate."}, "1.3.0"),
        ("1.2.3", {"+a.added.md": "Add.", "+b.removed.md": REMOVED}, "2.0.0"),
        ("1.2.3", {"+a.changed.md": RENAMED, "+b.fixed.md": "Mend."}, "2.0.0"),
        ("0.1.0", {"+a.added.md": "Add."}, "0.1.1"),
        ("0.1.0", {"+a.removed.md": REMOVED}, "0.2.0"),
    ],
)
def test_highest_tier_wins(repository, before, fragments, after):
    set_version(repository, "lab_rl", before)
    for name, text in fragments.items():
        fragment(repository, "lab_rl", name, text)
    result = release(repository, "lab_rl")
    assert result.returncode == 0, result.stdout
    assert version(repository, "lab_rl") == after


def test_bump_overrides_the_fragments(repository):
    fragment(repository, "lab_rl", "+a.fixed.md")
    release(repository, "lab_rl", "--bump", "major")
    assert version(repository, "lab_rl") == "1.0.0"


def test_break_raises_the_bounds_of_siblings(repository):
    fragment(repository, "lab_warp", "+a.removed.md", REMOVED)
    result = release(repository, "lab_warp")
    assert result.returncode == 0, result.stdout
    assert "lab_warp: lab_newton, lab_tasks now require it" in result.stdout
    assert '"lab_warp>=0.2,<0.3"' in repository.read("source/lab_newton/pyproject.toml")
    assert '"lab_core>=0.1,<0.2"' in repository.read("source/lab_newton/pyproject.toml")
    note = repository.read("source/lab_newton/changelog.d/+lab_warp-0.2.0.changed.md")
    assert note == "Require lab_warp 0.2.0 or newer.\n"
    repository.git("add", "--all")
    assert check(repository).returncode == 0


def test_release_of_all_carries_new_bounds_upwards(repository):
    fragment(repository, "lab_core", "+a.removed.md", REMOVED)
    result = release(repository)
    assert result.returncode == 0, result.stdout
    assert [version(repository, name) for name in ("lab_core", "lab_warp", "lab_rl")] == ["0.2.0", "0.1.1", "0.1.1"]
    assert '"lab_core>=0.2,<0.3"' in repository.read("source/lab_rl/pyproject.toml")


@pytest.mark.parametrize("kind", ["added", "fixed"])
def test_compatible_release_leaves_the_bounds(repository, kind):
    fragment(repository, "lab_core", f"+a.{kind}.md")
    release(repository, "lab_core")
    assert '"lab_core>=0.1,<0.2"' in repository.read("source/lab_warp/pyproject.toml")


def test_major_release_bounds_at_the_next_major(repository):
    fragment(repository, "lab_core", "+a.fixed.md")
    release(repository, "lab_core", "--bump", "major")
    assert '"lab_core>=1.0,<2"' in repository.read("source/lab_warp/pyproject.toml")


def test_dirty_tree_is_refused(repository):
    fragment(repository, "lab_rl", "+a.fixed.md")
    result = repository.run("changelog.py", "release")
    assert result.returncode == 1
    assert "uncommitted changes" in result.stdout
    assert version(repository, "lab_rl") == "0.1.0"


def test_malformed_fragment_stops_the_release_before_any_change(repository):
    fragment(repository, "lab_core", "+a.fixed.md")
    fragment(repository, "lab_rl", "+a.feature.md")
    result = release(repository)
    assert result.returncode == 1
    assert "lab_rl: +a.feature.md is no fragment name" in result.stdout
    assert repository.git("status", "--porcelain") == ""


def test_unknown_package_lists_the_known(repository):
    result = repository.run("changelog.py", "release", "lab_gym")
    assert result.returncode == 1
    assert "no package lab_gym; there are lab_core" in result.stdout
