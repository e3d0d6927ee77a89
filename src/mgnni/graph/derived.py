"""What is derived from an operator once, and kept while the operator lives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils.weak import WeakIdKeyDictionary

from mgnni.graph.propagation import Propagation

T = TypeVar("T")


def derived(derive: Callable[[Propagation], T]) -> Callable[[Propagation], T]:
    """Decorate a function of an operator, so that it runs once for each.

    What it returns must not hold the operator itself, or neither is ever freed.
    """
    found: Any = WeakIdKeyDictionary()

    @functools.wraps(derive)
    def once(propagation: Propagation) -> T:
        if propagation not in found:
            with torch.inference_mode(False), torch.no_grad():  # what is kept serves training too
                found[propagation] = derive(propagation)
        value: T = found[propagation]
        return value

    return once
