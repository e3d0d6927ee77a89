"""Plant bugs in a copy of the source, one at a time, and see whether the tests notice.

Usage::

    python tests/planted/run.py [--only ID ...] [--jobs N] [--source DIR]

``bugs.toml`` lists the bugs. For each of them ``src/`` is copied to a temporary folder, the bug is
planted there, and the listed tests are run against the copy. A bug is caught if a test fails. The
working tree is never changed.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("bugs.toml")
TIMEOUT = 180.0  # seconds for the tests of one bug
SHARE = 0.9  # of the bugs that must be caught

CAUGHT, TIMED_OUT = "caught", "caught (timeout)"
NOT_CAUGHT, NO_MATCH, BROKEN = "NOT CAUGHT", "does not apply", "CANNOT RUN"


@dataclass(frozen=True)
class Bug:
    """One bug to plant.

    Attributes:
        id: unique name.
        file: path of the source file, relative to the root of the repository.
        find: exact text to replace.
        replace: the text with the bug.
        why: one sentence on what is wrong with it.
        tests: paths or node ids of the tests that are expected to notice.
        nth: which occurrence of ``find`` to replace, from 1; without it the text occurs once.
    """

    id: str
    file: str
    find: str
    replace: str
    why: str
    tests: tuple[str, ...]
    nth: int | None = None

    def problem(self, root: Path) -> str | None:
        """Say why the bug cannot be planted, or return None if it can."""
        path = root / self.file
        if not path.is_file():
            return f"no file {self.file}"
        if self.find == self.replace:
            return "find and replace are equal"
        count = path.read_text(encoding="utf-8").count(self.find)
        if count == 0:
            return "text not found"
        if self.nth is None and count > 1:
            return f"text found {count} times; set nth"
        if self.nth is not None and not 1 <= self.nth <= count:
            return f"text found {count} times, fewer than nth = {self.nth}"
        return None

    def plant(self, root: Path) -> None:
        """Replace the text in the copy of the source under ``root``."""
        path = root / self.file
        before, *rest = path.read_text(encoding="utf-8").split(self.find)
        for number, part in enumerate(rest, start=1):
            before += (self.replace if number == (self.nth or 1) else self.find) + part
        path.write_text(before, encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """What became of one bug."""

    bug: Bug
    status: str
    seconds: float
    detail: str = ""

    def line(self) -> str:
        """Return one line for the table."""
        detail = f"  {self.detail}" if self.detail else ""
        return f"{self.status:16s} {self.seconds:6.1f} s  {self.bug.id}{detail}"


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def load(path: Path = LIST) -> list[Bug]:
    """Read the list."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["bug"]
    return [Bug(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """Yield a temporary folder with a copy of ``src`` in it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        # Byte code is copied too, with times that match, so that imports are fast.
        shutil.copytree(source / "src", Path(folder) / "src")
        yield Path(folder)


def run_tests(tests: Sequence[str], source: Path, copy: Path) -> tuple[int | None, str]:
    """Run tests of ``source`` against the copy; return pytest's exit code, or None, and its output.

    None means that the tests did not end in time.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    # Nothing is written to the working tree.
    environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copy / "hypothesis")
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
    options += ["--basetemp", str(copy / "tmp")]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=source,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
        process.communicate()
        return None, ""
    return process.returncode, output


def try_bug(bug: Bug, source: Path, clean: Path) -> Outcome:
    """Plant one bug and run its tests."""
    start = time.perf_counter()
    problem = bug.problem(clean)
    if problem is not None:
        return Outcome(bug, NO_MATCH, 0.0, problem)
    with copied(clean) as copy:
        bug.plant(copy)
        for stale in (copy / bug.file).parent.glob(f"__pycache__/{Path(bug.file).stem}.*"):
            stale.unlink()
        code, output = run_tests(bug.tests, source, copy)
    seconds = time.perf_counter() - start
    if code is None:
        return Outcome(bug, TIMED_OUT, seconds)
    if code == 0:
        return Outcome(bug, NOT_CAUGHT, seconds, bug.why)
    last = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    detail = last[0] if last else (output.strip().splitlines() or ["no output"])[-1]
    # 1: a test failed. Anything else: nothing could be collected, or there is no such test.
    return Outcome(bug, CAUGHT if code == 1 else BROKEN, seconds, detail[:160])


def check_clean(bugs: Sequence[Bug], source: Path, clean: Path) -> int:
    """Run all listed tests on the source without a bug; return pytest's exit code."""
    tests = sorted({test for bug in bugs for test in bug.tests})
    whole = {test for test in tests if "::" not in test}
    tests = [test for test in tests if test in whole or test.split("::")[0] not in whole]
    code = 0
    for test in tests:  # one by one, as the time limit is for each
        found, output = run_tests([test], source, clean)
        if found != 0:
            code = 1
            say(f"fails without a bug: {test}\n{output}")
    return code


def try_all(
    bugs: Sequence[Bug], source: Path, jobs: int, report: Callable[[Outcome], None]
) -> list[Outcome]:
    """Try all bugs, ``jobs`` at a time; report each as soon as it is known."""
    with copied(source) as clean, ThreadPoolExecutor(jobs) as pool:
        compileall.compile_dir(clean / "src", quiet=2)
        found = []
        for outcome in pool.map(lambda bug: try_bug(bug, source, clean), bugs):
            report(outcome)
            found.append(outcome)
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if too few bugs are caught or an entry cannot be tried."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", metavar="ID", help="ids, or beginnings of ids")
    parser.add_argument("--jobs", type=int, default=1, help="bugs to try at the same time")
    parser.add_argument("--source", type=Path, default=ROOT, help="root of the repository to test")
    parser.add_argument("--list", type=Path, default=LIST, help="list of bugs")
    parser.add_argument(
        "--clean", action="store_true", help="first check that the tests pass without a bug"
    )
    options = parser.parse_args(arguments)
    bugs = load(options.list)
    if options.only:
        bugs = [bug for bug in bugs if bug.id.startswith(tuple(options.only))]
    if not bugs:
        parser.error("no bug has such an id")
    source = options.source.resolve()
    if options.clean:
        with copied(source) as clean:
            if check_clean(bugs, source, clean):
                return 1
    found = try_all(bugs, source, options.jobs, lambda one: say(one.line()))
    count = Counter(outcome.status for outcome in found)
    caught = count[CAUGHT] + count[TIMED_OUT]
    cannot = count[NO_MATCH] + count[BROKEN]
    rest = f", {cannot} could not be tried" if cannot else ""
    say(f"{len(found)} planted, {caught} caught, {count[NOT_CAUGHT]} not caught{rest}")
    return int(caught < SHARE * len(found) or cannot > 0)


if __name__ == "__main__":
    sys.exit(main())
