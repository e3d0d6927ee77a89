"""Errors and warnings of the library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


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


class LostProcessError(MgnniError, RuntimeError):
    """Another process of a distributed training has ended or does not answer."""


class ConvergenceWarning(UserWarning):
    """A solver missed its tolerance and ``on_failure="warn"`` is set."""


class DataWarning(UserWarning):
    """Data were read in a way that is probably not meant, or leak the label."""


def one_line(error: BaseException, limit: int | None = None) -> str:
    """Return the message of an error in one line, with the type of an unexpected error.

    Args:
        error (BaseException): The error.
        limit (int, optional): Largest number of characters of the message.
            (default: :obj:`None`)
    """
    text = " ".join(str(error).split())[:limit]
    if isinstance(error, MgnniError):
        return text
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``.

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


def check_int(name: str, value: int, least: int = 1) -> int:
    """Return ``value`` if it is an integer of at least ``least``; else raise.

    Args:
        name (str): Name of the argument, for the message.
        value (int): The argument, for example a number of channels or layers.
        least (int, optional): Smallest valid value. (default: :obj:`1`)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kind = "a positive int" if least == 1 else f"an int of at least {least}"
        raise ArgumentError(f"'{name}' must be {kind} (got {value!r})")
    return value


def check_ints(name: str, values: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """Return ``values`` as a tuple if all are integers of at least ``least``; else raise.

    Args:
        name (str): Name of the argument, for the message.
        values (Sequence[int]): The argument, for example the sizes of hidden layers.
        least (int, optional): Smallest valid value. (default: :obj:`1`)
    """
    if isinstance(values, (int, str)) or not isinstance(values, Sequence):
        raise ArgumentError(
            f"'{name}' must be a sequence of ints (got {values!r}); write for example (64, 32)"
        )
    if any(not isinstance(v, int) or isinstance(v, bool) or v < least for v in values):
        kind = "positive ints" if least == 1 else f"ints of at least {least}"
        raise ArgumentError(f"'{name}' must hold {kind} (got {tuple(values)})")
    return tuple(values)


def check_number(name: str, value: float, interval: str, hint: str) -> float:
    """Return ``value`` as a float if it is a number in an interval; else raise.

    Args:
        name (str): Name of the argument, for the message.
        value (float): The argument.
        interval (str): The interval, for example ``"[0, 1)"`` or ``"(0, inf)"``.
        hint (str): What to do, for the message.
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        above = low <= value if interval[0] == "[" else low < value
        below = value <= high if interval[-1] == "]" else value < high
        if above and below:
            return float(value)
    raise ArgumentError(f"'{name}' must lie in {interval} (got {value!r}); {hint}")


def check_dropout(name: str, value: float) -> float:
    """Return a dropout probability if it lies in [0, 1); else raise.

    Args:
        name (str): Name of the argument, for the message.
        value (float): The argument.
    """
    return check_number(name, value, "[0, 1)", "0 switches it off")
