"""Every error and warning the library raises on purpose, and how a wrong choice is worded."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MgnniError(Exception):
    """Base of every error this library raises on purpose."""


class ArgumentError(MgnniError, ValueError):
    """An argument has a value, shape, dtype or device that cannot be used."""


class DataError(MgnniError, ValueError):
    """Data cannot be used as it is; the message names the file and row where there is one."""


class NotContractiveError(MgnniError, ValueError):
    """An equation that must contract has no proven Lipschitz constant below one."""


class ConvergenceError(MgnniError, RuntimeError):
    """A solve stopped before its measured residual reached the tolerance."""


class DivergenceError(MgnniError, RuntimeError):
    """A training left the numbers it can compute with."""


class ConvergenceWarning(UserWarning):
    """A solve missed its tolerance and the caller chose ``on_failure="warn"``."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else raise, with the nearest choice."""
    known = sorted(choices)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(f"'{name}' must be one of {known} (got {value!r}){hint}")
