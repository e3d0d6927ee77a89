"""What is derived from an operator once, and kept while the operator lives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import torch
from torch.utils.weak import WeakIdKeyDictionary

from mgnni.graph.propagation import Propagation

F = TypeVar("F", bound=Callable[..., Any])


def derived(derive: F) -> F:
    """Decorate a function of an operator, so that it runs once for each, without gradients.

    It may take options by place, and then runs once for each of these as well. What it returns
    must not hold the operator itself, or neither is ever freed.
    """
    found: Any = WeakIdKeyDictionary()  # Propagation -> options -> value

    @functools.wraps(derive)
    def once(propagation: Propagation, *options: Hashable) -> Any:
        values = found.setdefault(propagation, {})
        if options not in values:
            with torch.inference_mode(False), torch.no_grad():  # what is kept serves training too
                values[options] = derive(propagation, *options)
        return values[options]

    return cast("F", once)


def derived_with_gradients(derive: F) -> F:
    """As :func:`derived`, but for what is differentiated in the edge weights.

    Where these require grad, what follows from them belongs to one pass, and is not kept.
    """
    once = derived(derive)

    @functools.wraps(derive)
    def unless_learnt(propagation: Propagation, *options: Hashable) -> Any:
        learnt = propagation.values.requires_grad
        return derive(propagation, *options) if learnt else once(propagation, *options)

    return cast("F", unless_learnt)
