"""From command-line arguments to a command, and from its result to an exit status."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence

from mgnni.cli.arguments import Command, UsageError, layout
from mgnni.cli.bench import Bench
from mgnni.cli.compare import Compare
from mgnni.cli.datasets import Datasets
from mgnni.cli.explain import Explain
from mgnni.cli.export import Export
from mgnni.cli.inspect import Inspect
from mgnni.cli.minibatch import Minibatch
from mgnni.cli.models import Models
from mgnni.cli.plan import Plan
from mgnni.cli.precompute import Precompute
from mgnni.cli.predict import Predict
from mgnni.cli.quickstart import Quickstart
from mgnni.cli.range import Range
from mgnni.cli.report import Report
from mgnni.cli.reproduce import Reproduce
from mgnni.cli.train import Train
from mgnni.cli.tune import Tune
from mgnni.errors import ArgumentError, MgnniError, closest, one_line
from mgnni.version import __version__

DESCRIPTION = """Implicit graph neural networks for PyTorch Geometric.

Every command has its own --help; mgnni --version prints the version.

Example: mgnni quickstart
Example: mgnni train texas
Example: mgnni predict runs/texas texas
"""
COMMANDS: dict[str, type[Command]] = {
    one.__name__.lower(): one
    for one in (
        Quickstart,
        Datasets,
        Inspect,
        Models,
        Train,
        Tune,
        Predict,
        Explain,
        Export,
        Compare,
        Range,
        Report,
        Reproduce,
        Bench,
        Precompute,
        Minibatch,
        Plan,
    )
}
DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
# Settings of OpenMP, and of its implementations by GNU and Intel.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
HELP = ("-h", "--help")
PRECOMPUTED = "--precomputed"
# What `pip install 'mgnni[cli]'` adds.
EXTRA = ("docstring_parser", "rich", "matplotlib", "plotly", "pyarrow", "lightning_fabric")


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 success, 1 failure, 2 wrong usage.

    Args:
        args (Sequence[str], optional): The arguments after ``mgnni``. (default: those of the
            process)
    """
    args = list(sys.argv[1:] if args is None else args)
    wait_passively()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the terminal may lack characters such as ±
            stream.reconfigure(errors="replace")
    name = " ".join(["mgnni", *(args[:1] if args and args[0] in COMMANDS else [])])
    options: Mapping[str, str] = {}
    try:
        if not args or args[0] not in COMMANDS:
            return _overview(args)
        command, rest = _command(args)
        options = command.renamed  # of errors while the parser is made
        parser = command.parser(rest)
        options = {**parser.option_names(), **command.renamed}
        if set(HELP) & set(rest):
            parser.print_help()
        else:
            command.create(parser.parse(rest)).run()
        sys.stdout.flush()
        return DONE
    except KeyboardInterrupt as error:
        sys.stderr.write(f"{name}: interrupted{f'; {error}' if str(error) else ''}\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, for example `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if "--debug" in args:
            traceback.print_exception(error)
        status, message = _failure(error, options)
        if status == FAILED and not isinstance(error, (MgnniError, ImportError, OSError)):
            message += "" if "--debug" in args else " (--debug shows where)"
        # The processes that torchrun starts on a machine make the same mistake; one message is
        # enough. Another machine may lack a file or a device that the first one has.
        if status != BAD_USAGE or os.environ.get("LOCAL_RANK", "0") == "0":
            sys.stderr.write(f"{name}: error: {message}\n")
        return status


def _command(args: Sequence[str]) -> tuple[type[Command], list[str]]:
    """Return the command and its arguments; a training on stored terms is one of its own."""
    if args[0] == "train" and PRECOMPUTED in args:
        return Minibatch, [arg for arg in args[1:] if arg != PRECOMPUTED]
    return COMMANDS[args[0]], list(args[1:])


def wait_passively() -> None:
    """Let idle OpenMP threads sleep instead of spin, unless the environment says how they wait.

    On a busy machine, threads that spin take the time of those they wait for: twelve epochs on
    Chameleon with two threads on two cores beside other work took 63 to 83 s, and 2 s like this.
    OpenMP reads the variable when torch is loaded, so this is for a process that has not done so.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "passive"


def _failure(error: Exception, options: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit status and the message of an error."""
    if isinstance(error, ArgumentError):
        return BAD_USAGE, as_options(one_line(error), options)
    if isinstance(error, OSError):
        return FAILED, system_error(error)
    missing = (error.name or "").split(".")[0] if isinstance(error, ImportError) else ""
    if missing in EXTRA:
        return FAILED, f"the command line needs {missing}; run: pip install 'mgnni[cli]'"
    return BAD_USAGE if isinstance(error, UsageError) else FAILED, one_line(error)


def _overview(args: Sequence[str]) -> int:
    """Handle a command line that does not start with a command."""
    if args[:1] == ["--version"]:
        sys.stdout.write(f"mgnni {__version__}\n")
        return DONE
    if args and args[0] not in HELP:
        near = closest(args[0], COMMANDS)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"COMMAND must be one of {', '.join(COMMANDS)} (got {args[0]!r}){hint}")
    lines = [f"  {name:12}{(one.__doc__ or '').splitlines()[0]}" for name, one in COMMANDS.items()]
    commands = "\n".join(["commands:", *lines])
    sys.stdout.write(f"usage: mgnni COMMAND [options]\n\n{layout(DESCRIPTION)}\n\n{commands}\n")
    return DONE if args else BAD_USAGE


def as_options(text: str, options: Mapping[str, str]) -> str:
    """Replace argument names in a message of the library by option strings.

    Args:
        text (str): The message; it starts with the quoted name of an argument and may contain
            others as ``name='value'``.
        options (Mapping[str, str]): The option string of each argument.
    """
    text = re.sub(r"^'(\w+)'", lambda found: options.get(found[1], found[0]), text)

    def replaced(found: re.Match[str]) -> str:
        return f"{options[found[1]]} {found[3]}" if found[1] in options else found[0]

    return re.sub(r"\b(\w+)=('?)([\w.-]+)\2", replaced, text)


def system_error(error: OSError) -> str:
    """Return what the operating system refused, and what may help."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "free some space and repeat the command with --resume, or use another disk"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "choose another folder or change its permissions"
    else:
        remedy = "--debug shows where it happened"
    return f"{where}{reason}; {remedy}"
