"""Errors and warnings of the library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MgnniError(Exception):
    """Base class of all errors raised by this library."""


class ArgumentError(MgnniError, ValueError):
    """An argument has an invalid value, shape, dtype or device."""


class DataError(MgnniError, ValueError):
    """Invalid data; the message names the file and the row where there is one."""


class NotContractiveError(MgnniError, ValueError):
    """The equation has no proven Lipschitz constant below one."""


class ConvergenceError(MgnniError, RuntimeError):
    """A solver stopped before its residual reached the tolerance."""


class DivergenceError(MgnniError, RuntimeError):
    """Training diverged: non-finite loss or weights."""


class ConvergenceWarning(UserWarning):
    """A solver missed its tolerance and ``on_failure="warn"`` is set."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Returns ``value`` if it is one of ``choices``.

    Args:
        name (str): Name of the argument, for the error message.
        value (object): The value to check.
        choices (iterable of str): All valid values.

    Raises:
        ArgumentError: ``value`` is not valid; the message suggests the closest choice.
    """
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
