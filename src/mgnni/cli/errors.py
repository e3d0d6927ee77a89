"""How a command ends when it does not end well: one line, and a status."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from mgnni.errors import MgnniError

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

EXTRA = (
    "tyro",
    "rich",
    "matplotlib",
    "pyarrow",
    "lightning_fabric",
)  # what ``pip install 'mgnni[cli]'`` adds


class UsageError(MgnniError):
    """The command was called with what it cannot work with; nothing has been done yet."""


class Interrupted(KeyboardInterrupt):
    """The user stopped the command; the message says what there is to know about that."""


def advice(error: ImportError) -> str | None:
    """Say how to install what is missing, if it belongs to the command line."""
    missing = (error.name or "").split(".")[0]
    if missing not in EXTRA:
        return None
    return f"the command line needs {missing}; run: pip install 'mgnni[cli]'"


def one_line(error: BaseException) -> str:
    """Return the message of an error on a single line, with its type if that is news."""
    text = " ".join(str(error).split())
    if isinstance(error, MgnniError):
        return text
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def as_options(text: str, spoken: Mapping[str, str]) -> str:
    """Write an error of the library with the options of the command line.

    Args:
        text: begins with the name of an argument in quotes, and may go on about others as
            ``name='value'``.
        spoken: the option for each name.
    """
    text = re.sub(r"^'(\w+)'", lambda found: spoken.get(found[1], found[0]), text)

    def said(found: re.Match[str]) -> str:
        return f"{spoken[found[1]]} {found[3]}" if found[1] in spoken else found[0]

    return re.sub(r"\b(\w+)=('?)([\w.-]+)\2", said, text)


def trouble(error: OSError) -> str:
    """Say what the system refused, and what may help."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "free some space, then repeat the command with --resume, or choose another disk"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "choose another place, or get the right to it"
    else:
        remedy = "see --debug for where it happened"
    return f"{where}{reason}; {remedy}"
