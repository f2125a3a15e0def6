"""Put small faults into a copy of the code, one at a time, and report which of them the tests let pass.

    python tools/check_faults.py [WORD ...] [--jobs N] [--table FILE]     those listed in tools/faults/*.toml
    python tools/check_faults.py --make 50 [--seed 7] [WORD ...]          as many that no one thought of

WORD chooses faults whose package, name or tests contain it. A listed fault names its package, the text ``old`` that
stands once in that package's code, what stands there instead, and the test modules that should notice: text and names
of modules survive moves of files. A listed fault that passes, or whose text is gone, makes the command fail. Of those
made at random some change nothing that could be noticed, so they are only reported; their tests are the quick ones.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import fault_maker
import workspace

LIMIT_S = 300  # a fault that makes a test hang is found, too
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """``old`` in a file of the package becomes ``new``; ``tests`` are modules, or ``module::name``."""

    package: str
    name: str
    old: str
    new: str
    tests: tuple[str, ...]
    markers: str = "not gpu and not long"

    def matches(self, words: list[str]) -> bool:
        return not words or any(word in text for word in words for text in (self.package, self.name, *self.tests))


@dataclass(frozen=True)
class Outcome:
    fault: Fault
    kind: str  # found, passes, stale or error
    detail: str
    seconds: float


def listed(folder: Path) -> list[Fault]:
    """All listed faults; the name of a file is that of the package."""
    faults = []
    for path in sorted(folder.glob("*.toml")):
        entries = workspace.read_toml(path)["fault"]
        faults += [Fault(path.stem, **{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    return faults


def tracked(root: Path) -> list[Path]:
    """The files of the checkout that git knows or would know, relative to its root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name and (root / name).is_file()]


@dataclass(frozen=True)
class Result:
    returncode: int
    output: str


class Copy:
    """A copy of the checkout, for one fault at a time."""

    def __init__(self, root: Path):
        self.root = root
        for path in tracked(workspace.ROOT):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((workspace.ROOT / path).read_bytes())
        self._tests = {path.name: path for path in root.glob("source/*/tests/**/test_*.py")}

    def try_fault(self, fault: Fault) -> Outcome:
        start = time.monotonic()
        kind, detail = self._try(fault)
        return Outcome(fault, kind, detail, time.monotonic() - start)

    def _try(self, fault: Fault) -> tuple[str, str]:
        files = self._files_with(fault)
        if len(files) != 1:
            return "stale", f"its text stands {len(files)} times in {fault.package}"
        if unknown := [name for name in fault.tests if name.partition("::")[0] not in self._tests]:
            return "stale", f"no test module {', '.join(unknown)}"
        text = files[0].read_text(encoding="utf-8")
        files[0].write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        try:
            return self._run_tests(fault)
        finally:
            files[0].write_text(text, encoding="utf-8")

    def _files_with(self, fault: Fault) -> list[Path]:
        """The file with the text, as often as it contains it."""
        folder = self.root / "source" / fault.package / fault.package
        texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
        return [path for path, text in texts.items() for _ in range(text.count(fault.old))]

    def _run_tests(self, fault: Fault) -> tuple[str, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        for test in fault.tests:
            module, colons, name = test.partition("::")
            command.append(f"{self._tests[module]}{colons}{name}")
        paths = os.pathsep.join(str(self.root / "source" / package) for package in workspace.packages())
        # No bytecode: a fault of the same length within the same second would not be seen.
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        result = run_within_limit([*command, "-m", fault.markers], self.root, environment)
        if result is None:
            return "found", f"more than {LIMIT_S} s"
        if result.returncode == 0:
            return "passes", result.output.strip().splitlines()[-1]
        if found := FAILED.search(result.output):
            return "found", found[1].rpartition("/")[2]
        return "error", result.output[-500:]


def run_within_limit(command: list[str], folder: Path, environment: dict[str, str]) -> Result | None:
    """None for a command that did not end in time; it is ended with all that it started."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return Result(process.returncode, output.read())


def try_all(faults: list[Fault], jobs: int) -> list[Outcome]:
    """The outcome of each fault, in their order; printed as they come."""
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for index in range(jobs):
            copies.put(Copy(Path(temporary) / str(index)))

        def attempt(fault: Fault) -> Outcome:
            copy = copies.get()
            try:
                outcome = copy.try_fault(fault)
            finally:
                copies.put(copy)
            print(
                f"{outcome.kind:7} {outcome.seconds:4.0f} s  {fault.package}: {fault.name}  ({outcome.detail})",
                flush=True,
            )
            return outcome

        return list(pool.map(attempt, faults))


def table(outcomes: list[Outcome]) -> str:
    """A Markdown table with a row per fault."""
    rows = [
        f"| {outcome.fault.package} | {outcome.fault.name} | "
        f"{f'`{outcome.detail}`' if outcome.kind == 'found' else f'**{outcome.kind}**'} |"
        for outcome in outcomes
    ]
    return "\n".join(["| Package | Fault | Found by |", "|---|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only faults whose package, name or tests contain it")
    parser.add_argument("--jobs", type=int, default=1, help="tries so many at once (default: %(default)s)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="also writes a Markdown table")
    parser.add_argument("--make", type=int, metavar="N", help="makes N faults instead of taking those listed")
    parser.add_argument("--seed", type=int, default=0, help="chooses which are made (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.make:
        made = fault_maker.make(arguments.make, arguments.seed, arguments.words)
        faults = [Fault(*fields, markers="not gpu and not long and not slow") for fields in made]
    else:
        faults = [fault for fault in listed(workspace.ROOT / "tools" / "faults") if fault.matches(arguments.words)]
    outcomes = try_all(faults, arguments.jobs)
    if arguments.table:
        arguments.table.write_text(table(outcomes) + "\n", encoding="utf-8")
    missed = [outcome for outcome in outcomes if outcome.kind != "found"]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} faults found.")
    return 1 if missed and not arguments.make else 0


if __name__ == "__main__":
    sys.exit(main())
