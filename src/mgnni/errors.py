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
    near = closest(str(value), known)
    hint = f"; did you mean {near!r}?" if near else ""
    raise ArgumentError(f"'{name}' must be one of {known} (got {value!r}){hint}")


def closest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to ``word``, or None; swapped letters count as similar."""
    known = list(choices)
    near = difflib.get_close_matches(word.lower(), known, n=max(len(known), 1))
    return min(near, key=lambda one: sorted(one) != sorted(word.lower()), default=None)
