"""Every way a command can end: exit status and one line on standard error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mgnni
from mgnni.cli.app import WAITING, as_options, one_line, system_error
from mgnni.errors import ConvergenceError, DataError
from mgnni.files import atomic_write

Call = Callable[..., Any]  # see conftest.py
TINY = ["quickstart", "--length", "12", "--chains", "5", "--epochs", "1", "--runs", "1"]


def one_error(ended: Any, status: int) -> str:
    assert ended.status == status
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert line.startswith("mgnni")
    return line


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--length", "10"], "--length must be between 11 and 100000 (got 10)"),
        (["--chains", "4"], "--chains must be between 5 and"),
        (["--epochs", "0"], "--epochs must be between 1 and"),
        (["--runs", "0"], "--runs must be between 1 and"),
        (["--seed", "-1"], "--seed must be between 0 and"),
        (["--length", "100000", "--chains", "11"], "must make at most 2000000 nodes"),
        (["--length", "long"], "--length"),
        (["--lenght", "20"], "did you mean --length?"),
        (["more"], "more"),
    ],
)
def test_bad_usage_is_one_line_and_no_work(
    call: Call, args: list[str], said: str, tmp_path: Path
) -> None:
    line = one_error(call("quickstart", *args, "--output", tmp_path / "new"), 2)
    assert line.startswith("mgnni quickstart: error: ")
    assert said in line
    assert not (tmp_path / "new").exists()


def test_an_unknown_command_is_bad_usage(call: Call) -> None:
    line = one_error(call("quikstart"), 2)
    assert "quikstart" in line
    assert "quickstart" in line.replace("quikstart", "")


@pytest.mark.parametrize(("local", "lines"), [("0", 1), ("1", 0)])
def test_the_first_process_of_every_machine_says_what_is_wrong(
    call: Call, monkeypatch: pytest.MonkeyPatch, local: str, lines: int
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", local)
    ended = call("train", "no-such-data")
    assert (ended.status, len(ended.err.splitlines())) == (2, lines)


@pytest.mark.parametrize("place", ["file", "file/inner"])
def test_a_folder_that_cannot_be_written_is_bad_usage(
    call: Call, place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    line = one_error(call(*TINY, "--output", tmp_path / place), 2)
    assert "--output must be a folder that can be written to" in line
    assert (tmp_path / "file").read_text() == "mine"


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("mgnni.train.fit.fit", broken)


def test_a_failure_is_one_line_unless_debugging(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(monkeypatch, RuntimeError("no\n luck"))
    line = one_error(call(*TINY, "--json", "--output", tmp_path), 1)
    assert line == "mgnni quickstart: error: RuntimeError: no luck (--debug shows where)"
    ended = call(*TINY, "--json", "--debug", "--output", tmp_path)
    assert ended.status == 1
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1] == "mgnni quickstart: error: RuntimeError: no luck"
    assert not list(tmp_path.iterdir())


def test_an_interrupt_is_one_line(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    line = one_error(call(*TINY, "--json", "--output", tmp_path), 130)
    assert line == "mgnni quickstart: interrupted"


def test_an_error_on_purpose_needs_no_traceback(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(monkeypatch, ConvergenceError("missed; raise max_iter"))
    line = one_error(call(*TINY, "--json", "--output", tmp_path), 1)
    assert line == "mgnni quickstart: error: missed; raise max_iter"


def test_a_closed_pipe_is_no_error() -> None:
    """As ``mgnni datasets --json | head -1`` does."""
    command = [sys.executable, "-m", "mgnni", "datasets", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("missing", ["docstring_parser", "rich", "matplotlib"])
def test_a_missing_extra_is_named_with_its_remedy(
    call: Call, missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] == missing:
            monkeypatch.setitem(sys.modules, name, None)
    for part in ("bench_output", "progress", "terminal"):  # imported by other tests
        monkeypatch.delitem(sys.modules, f"mgnni.cli.{part}", raising=False)
    line = one_error(call(*TINY, "--json", "--output", tmp_path), 1)
    assert missing in line
    assert "pip install 'mgnni[cli]'" in line


def test_help_has_an_example_and_every_option(call: Call) -> None:
    ended = call("quickstart", "--help")
    assert ended.status == 0
    assert "mgnni quickstart --length 80" in ended.out
    options = ("length", "chains", "epochs", "runs", "seed", "output", "json", "debug")
    assert all(f"--{option}" in ended.out for option in options)
    assert call("quickstart", "--length", "3", "--wrong", "-h") == ended, "before any complaint"
    top = call("--help")
    assert (top.status, "quickstart" in top.out) == (0, True)
    assert call() == (2, top.out, "")


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"mgnni {mgnni.__version__}\n", "")


def test_the_command_line_itself_imports_nothing_slow() -> None:
    cli = str(Path(sys.modules["mgnni"].__file__ or "").parent)
    code = (
        "import sys, types\n"
        "package = types.ModuleType('mgnni')\n"  # without what `import mgnni` itself needs
        f"package.__path__ = [{cli!r}]\n"
        "sys.modules['mgnni'] = package\n"
        "from mgnni.cli import main\n"
        "status = main(['quickstart', '--help'])\n"
        "slow = [n for n in ('torch', 'numpy', 'matplotlib', 'rich') if n in sys.modules]\n"
        "sys.exit(f'imports {slow}' if slow else status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_is_whole_or_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with atomic_write(path) as file:
        file.write(b"old")

    def stop_half_way() -> None:
        with atomic_write(path) as file:
            file.write(b"new, but")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half_way()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


OPTIONS = {"input_map": "--input-map", "hidden_channels": "--hidden-channels", "seed": "--seeds"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'seed' must lie between 0 and 3 (got 4)", "--seeds must lie between 0 and 3 (got 4)"),
        (
            "'hidden_channels' must equal in_channels with input_map='identity'; use input_map=mlp",
            "--hidden-channels must equal in_channels with --input-map identity; use "
            "--input-map mlp",
        ),
        ("'other' is not 'seed'", "'other' is not 'seed'"),
        ("other='seed', a.b=3", "other='seed', a.b=3"),
        ("", ""),
    ],
)
def test_arguments_become_options(text: str, said: str) -> None:
    assert as_options(text, OPTIONS) == said


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "free some space"),
        (errno.EACCES, "choose another folder"),
        (errno.EROFS, "choose another folder"),
        (errno.EIO, "--debug"),
    ],
)
def test_a_system_error_has_a_reason_and_a_remedy(code: int, remedy: str) -> None:
    line = system_error(OSError(code, os.strerror(code), "a/file"))
    assert line.startswith(f"a/file: {os.strerror(code).lower()}; {remedy}")


def test_a_message_is_one_line() -> None:
    assert one_line(DataError("a\n  b")) == "a b"
    assert one_line(KeyError("a\nb")) == r"KeyError: 'a\nb'"
    assert one_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active"), ({"GOMP_SPINCOUNT": "9"}, "None")],
)
def test_threads_wait_passively_unless_the_user_says_otherwise(
    given: dict[str, str], expected: str
) -> None:
    """Before torch is loaded, since OpenMP reads it then."""
    code = (
        "import os, sys\nfrom mgnni.cli.app import main\nmain(['--version'])\n"
        "print(os.environ.get('OMP_WAIT_POLICY'), 'torch' in sys.modules)"
    )
    usual = {k: v for k, v in os.environ.items() if k not in WAITING}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**usual, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split()[-2:] == [expected, "False"]
