"""From the arguments to a command, and from its end to an exit status."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Protocol

from mgnni.cli.bench import Bench
from mgnni.cli.datasets import Datasets
from mgnni.cli.errors import (
    BAD_USAGE,
    DONE,
    FAILED,
    INTERRUPTED,
    UsageError,
    advice,
    as_options,
    one_line,
    trouble,
)
from mgnni.cli.help import described
from mgnni.cli.models import Models
from mgnni.cli.predict import Predict
from mgnni.cli.quickstart import Quickstart
from mgnni.cli.train import Train
from mgnni.errors import ArgumentError, MgnniError

DESCRIPTION = """Implicit graph neural networks for PyTorch Geometric.

Every command has a --help of its own; mgnni --version prints the version.

Example: mgnni quickstart
Example: mgnni train texas
Example: mgnni predict runs/texas texas
"""


class Command(Protocol):
    """A command: a dataclass of its options, with a method that runs it."""

    debug: bool

    def run(self) -> None:
        """Do the work, or raise."""


COMMANDS: dict[str, type[Any]] = {
    "quickstart": Quickstart,
    "datasets": Datasets,
    "models": Models,
    "train": Train,
    "predict": Predict,
    "bench": Bench,
}


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 bad usage.

    Args:
        args: what stands after ``mgnni``; taken from the command line by default.
    """
    args = list(sys.argv[1:] if args is None else args)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ± or γ still gets its table
            stream.reconfigure(errors="replace")
    if args == ["--version"]:
        _print_version()
        return DONE
    name = " ".join(["mgnni", *(args[:1] if args and args[0] in COMMANDS else [])])
    debug = "--debug" in args
    try:
        command = parse(args)
        command.run()
        sys.stdout.flush()
    except SystemExit as stop:  # --help, or arguments that tyro has complained about
        status = stop.code if isinstance(stop.code, int) else DONE
        return status if args else BAD_USAGE  # without arguments it shows the help
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"{name}: interrupted{f'; {stop}' if str(stop) else ''}\n")
        return INTERRUPTED
    except ArgumentError as error:
        speak = getattr(COMMANDS.get(args[0]), "spoken", None)
        spoken = {} if speak is None else speak(args[1:])
        return _fail(name, as_options(one_line(error), spoken), BAD_USAGE, debug)
    except UsageError as error:
        return _fail(name, one_line(error), BAD_USAGE, debug)
    except MgnniError as error:  # data that cannot be used, a training that diverged
        return _fail(name, one_line(error), FAILED, debug)
    except ImportError as error:
        return _fail(name, advice(error) or one_line(error), FAILED, debug)
    except BrokenPipeError:  # who reads it, head say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _fail(name, trouble(error), FAILED, debug)
    except Exception as error:  # a user's one line; --debug has the rest
        hint = "" if debug else " (--debug shows where)"
        return _fail(name, one_line(error) + hint, FAILED, debug)
    return DONE


def parse(args: list[str]) -> Command:
    """Return the command with its options; leave by ``SystemExit`` for help and bad usage."""
    import tyro

    heard = io.StringIO()
    known = bool(args) and args[0] in COMMANDS
    helped = not args or bool({"-h", "--help"} & set(args))
    try:
        with contextlib.redirect_stderr(heard):
            if known:
                chosen = COMMANDS[args[0]]
                if hasattr(chosen, "variant"):  # whose options depend on what is said
                    chosen = chosen.variant(args[1:])
                # Where defaults depend on the data, a switch must not turn round with them.
                varied = hasattr(chosen, "default")
                command: Command = tyro.cli(
                    chosen,
                    default=chosen.default(args[1:]) if varied else None,
                    prog=f"mgnni {args[0]}",
                    description=described(chosen.__doc__),
                    # Alone, as tyro does not show what has been given before it.
                    args=["--help"] if helped else args[1:],
                    config=() if varied else (tyro.conf.FlagCreatePairsOff,),
                )
            else:
                command = _all_commands().cli(
                    prog="mgnni",
                    description=described(DESCRIPTION),
                    args=["--help"] if helped else args,
                )
    except SystemExit as stop:
        if stop.code in (None, DONE):
            raise
        prog = f"mgnni {args[0]}" if known else "mgnni"
        sys.stderr.write(f"{prog}: error: {complaint(heard.getvalue())}; see {prog} --help\n")
        raise SystemExit(BAD_USAGE) from None
    return command


def _all_commands() -> Any:
    """All commands with the first line of each, for ``mgnni --help``."""
    import tyro

    app = tyro.extras.SubcommandApp()
    for name, command in COMMANDS.items():
        first = (command.__doc__ or "").strip().splitlines()[0]
        app.command(name=name, help=first)(command)
    return app


def complaint(box: str) -> str:
    """Reduce tyro's framed message to its first sentence and its suggestion.

    The frame is drawn with lines, or with blanks and dashes where those cannot be shown; then the
    title is a part of its own.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    parts: list[list[str]] = [[]]
    for row in (line.strip("│ ") for line in plain.splitlines() if line[:1] not in "╭╰"):
        if row and not row.strip("─-"):
            parts.append([])
        elif row:
            parts[-1].append(row)
    message, *rest = parts if plain.startswith("╭") else parts[1:] or parts
    said = " ".join(message).rstrip(".")
    said = re.sub(r"^Error parsing (--\S+): ", r"\1 ", said)
    said = re.sub(r"^Missing from mgnni \w+: ([A-Z]+) .*", r"\1 is missing", said)
    for first, *others in filter(None, rest):
        if first.startswith("Perhaps you meant") and others:
            said += f"; perhaps you meant {others[0].split()[0]}"
        elif first.startswith("Available subcommands"):
            said += f"; {first[0].lower()}{first[1:]}"
    return said


def _fail(name: str, message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"{name}: error: {message}\n")
    return status


def _print_version() -> None:
    from mgnni import __version__

    sys.stdout.write(f"mgnni {__version__}\n")
