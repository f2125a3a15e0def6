"""The ``lab`` command and its sub-commands ``list`` and ``info``."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import warnings
from functools import partial

import pytest
from rich.console import Console

from lab_core.cli import console, main
from lab_core.cli.console import print_table
from lab_core.cli.info import PROBES, collect, lab_versions


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package with commands and tasks, some of them broken."""
    info = tmp_path / "cli_plugin-3.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: cli_plugin\nVersion: 3.2\nRequires-Dist: lab-core>=0\n"
    )
    (info / "entry_points.txt").write_text(
        "[lab.commands]\ndance = cli_plugin:main\nfail = cli_plugin:fail\nstop = cli_plugin:stop\n"
        "crash = cli_plugin:crash\npipe = cli_plugin:pipe\n"
        "broken = cli_plugin_broken:main\ngone = cli_plugin_gone:main\n"
        "[lab.tasks]\nPlugin-Dance = cli_plugin:TASK\nPlugin-Broken = cli_plugin_broken:TASK\n"
    )
    (tmp_path / "cli_plugin_broken.py").write_text('"""Breaks."""\nimport a_module_that_is_not_installed\n')
    source = '''
        """Module text."""
        from lab_core.errors import ConfigError
        from lab_core.registry import TaskSpec

        TASK = TaskSpec(id="Plugin-Dance", env_cfg="x:y", agents={"ppo": "x:z"}, description="Dance [red]well[/red].")

        def main(argv):
            """Make the robot dance.

            More text.
            """
            print("dancing", *argv)
            return 5 if argv else None

        def fail(argv):
            raise ConfigError("rewards.alive: [bold]wrong[/bold]")

        def stop(argv):
            raise KeyboardInterrupt

        def crash(argv):
            raise ZeroDivisionError

        def pipe(argv):
            raise BrokenPipeError
    '''
    (tmp_path / "cli_plugin.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)


def test_modules_of_the_present_folder_are_found_last(plugin, tmp_path):
    """As by ``--policy module:function``; the installed command itself does not look there."""
    (tmp_path / "cli_own.py").write_text("print('found')")
    (tmp_path / "colorsys.py").write_text("raise AssertionError('hides the library')")
    code = (
        "import sys\nsys.path.remove('')\nfrom lab_core.cli import main\nmain(['--version'])\nimport cli_own, colorsys"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert process.returncode == 0 and process.stdout.endswith("found\n"), process.stderr


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_commands_with_their_first_line(plugin, argv, capsys):
    assert main(argv) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "dance Make the robot dance." in lines
    assert "fail Module text." in lines
    assert "broken Breaks." in lines  # nothing was imported
    assert "gone (not available: no module named 'cli_plugin_gone')" in lines
    assert any(line.startswith("info Show versions") for line in lines)


def test_arguments_and_exit_code_pass_through(plugin, capsys):
    assert main(["dance"]) == 0
    assert main(["dance", "--fast"]) == 5
    assert capsys.readouterr().out == "dancing\ndancing --fast\n"


def test_unknown_command_suggests_the_nearest(plugin, capsys):
    assert main(["dancing"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown command 'dancing'. Did you mean 'dance'?")


def test_broken_command_is_named(plugin, capsys):
    assert main(["broken"]) == 1
    message = capsys.readouterr().err
    assert "command 'broken' of package 'cli_plugin'" in message and "a_module_that_is_not_installed" in message


def test_own_errors_are_one_line_without_markup(plugin, capsys, monkeypatch):
    monkeypatch.delenv("LAB_DEBUG", raising=False)
    assert main(["fail"]) == 1
    assert capsys.readouterr().err == "error: rewards.alive: [bold]wrong[/bold]\n"


@pytest.mark.parametrize(
    ("argument", "hint"),
    (
        ("env.scene.num_envs=64", "env.scene.num_envs=64 is written --env.scene.num-envs 64"),
        ("env.rewards.alive=null", "env.rewards.alive=null is written --env.rewards.alive None"),
        ("--headless", "--headless: Nothing opens a window here; leave it out."),
        ("--run_name=x", "--run-name: Name the run with `--name NAME`."),
    ),
)
def test_settings_in_the_way_of_isaac_lab_get_a_hint_where_they_fail(plugin, capsys, argument, hint):
    assert main(["fail", argument]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"Hint: {hint}"
    assert main(["dance", argument]) == 5  # what a command takes is its own
    assert "Hint" not in capsys.readouterr().err


def test_debug_shows_the_traceback(plugin, capsys, monkeypatch):
    monkeypatch.setenv("LAB_DEBUG", "1")
    assert main(["fail"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_other_errors_are_not_hidden(plugin):
    with pytest.raises(ZeroDivisionError):
        main(["crash"])


def test_interrupt_exits_130(plugin, capsys):
    assert main(["stop"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_version_names_every_package_on_top_of_lab_core(plugin, capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "cli_plugin 3.2" in lines
    assert f"lab_core {lab_versions()['lab_core']}" in lines


def test_list_shows_tasks_and_names_broken_ones(plugin, capsys):
    assert main(["list"]) == 0
    captured = capsys.readouterr()
    lines = [" ".join(line.split()) for line in captured.out.splitlines()]
    assert "Plugin-Dance cli_plugin ppo Dance [red]well[/red]." in lines
    assert "Plugin-Broken" not in captured.out
    assert "warning: task 'Plugin-Broken' of package 'cli_plugin' cannot be loaded" in captured.err


def test_list_filters_by_keyword(plugin, capsys):
    assert main(["list", "--keyword", "PLUGIN-dance"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["task", "Plugin-Dance"]
    assert main(["list", "--keyword", "no such task"]) == 0
    assert capsys.readouterr().out == "no task matches 'no such task'\n"


def test_list_refuses_unknown_options(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["list", "--keywrod", "x"])
    assert caught.value.code == 2
    assert "--keyword" in capsys.readouterr().err


def test_plain_table_is_aligned(capsys):
    print_table(("a", "b"), [("long cell", "x"), ("c", "")])
    assert capsys.readouterr().out == "a          b\nlong cell  x\nc\n"


def test_info_reports_versions_and_machine(capsys):
    assert main(["info"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {"torch", "python", "lab_core", "memory"} <= set(rows)


def test_a_failing_probe_is_a_warning():
    def fails() -> dict[str, str]:
        raise OSError("no such file")

    def warns() -> dict[str, str]:
        warnings.warn("the driver is\ntoo old", stacklevel=2)
        return {"gpu": "none"}

    rows, problems = collect({"fan speed": fails, "GPU": warns})
    assert rows == [("gpu", "none")]
    assert problems == ["fan speed cannot be determined: OSError: no such file", "the driver is too old"]


def test_info_survives_a_machine_without_anything(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    for name in ("sysconf", "sched_getaffinity"):
        monkeypatch.delattr(f"os.{name}", raising=False)
    _, problems = collect(PROBES)
    assert any(problem.startswith("memory cannot be determined: AttributeError") for problem in problems)


class TestReaderGone:
    """The output goes into a pipe that nobody reads any more, as after ``lab ... | head -1``."""

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    @pytest.mark.parametrize(
        ("stream", "argv"),
        [
            ("stdout", ["--help"]),
            ("stdout", ["list", "--help"]),
            ("stdout", ["data"]),
            ("stderr", ["nonsense"]),
            ("stderr", ["list", "--nonsense"]),
            ("stderr", ["data", "info", "nowhere"]),
        ],
    )
    def test_the_exit_code_is_that_of_a_shell_and_nothing_is_said(self, stream, argv, unbuffered, monkeypatch):
        monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
        reading, writing = os.pipe()
        os.close(reading)
        other = "stderr" if stream == "stdout" else "stdout"
        code = f"import sys; from lab_core.cli import main; sys.exit(main({argv}))"
        try:
            outputs = {stream: writing, other: subprocess.PIPE}
            done = subprocess.run([sys.executable, "-c", code], **outputs, text=True, timeout=60)
        finally:
            os.close(writing)
        assert done.returncode == 141, done
        assert "BrokenPipe" not in getattr(done, other)

    def test_another_pipe_is_an_error(self, plugin):
        with pytest.raises(BrokenPipeError):
            main(["pipe"])


@pytest.mark.parametrize("width", [30, 60, 100])
def test_the_first_column_is_whole_on_any_terminal(monkeypatch, width):
    """It holds ids, which people copy."""
    shown = io.StringIO()
    monkeypatch.setattr(console, "Console", partial(Console, file=shown, force_terminal=True, width=width))
    name = "Lab-Velocity-Rough-AnymalC-Explore"
    print_table(("task", "description"), [(name, "Wide states and random targets of an ANYmal C on rough ground.")])
    assert name in shown.getvalue()
