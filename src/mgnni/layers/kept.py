"""What follows from a graph and its features alone, kept while both live and stay the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from mgnni.graph.propagation import Propagation

PER_GRAPH = 4  # values kept for one graph: models and features vary little

T = TypeVar("T")


class _Entry(NamedTuple):
    x: weakref.ref[Tensor]
    copy: Tensor | None  # of x on the CPU, which numpy can change behind torch's version counter
    constants: tuple[Tensor, ...]  # held, so that no others can come to lie where they are
    key: tuple[Any, ...]
    value: Any


_entries: Any = WeakIdKeyDictionary()  # Propagation -> list of _Entry, newest last


def kept(
    compute: Callable[[], T],
    propagation: Propagation,
    x: Tensor,
    constants: Sequence[Tensor],
    options: tuple[Any, ...] = (),
) -> T:
    """Return ``compute()``, computed only once for the same graph, features and constants.

    Args:
        compute: depends on nothing but what follows; not differentiated.
        propagation: the graph.
        x: features of its nodes.
        constants: other tensors; the same if they lie in the same memory, as views of one do.
        options: whatever else decides, to be compared by ``==``.
    """
    with torch.no_grad(), torch.inference_mode(False):  # what is kept must serve training too
        if any(tensor.is_inference() for tensor in (x, *constants)):  # these count no versions
            return compute()
        places = [(c.data_ptr(), c._version, c.shape, c.dtype) for c in constants]
        key = (x._version, tuple(places), options)
        entries: list[_Entry] = _entries.setdefault(propagation, [])
        for entry in entries:
            same = entry.x() is x and entry.key == key
            if same and (entry.copy is None or torch.equal(entry.copy, x)):
                value: T = entry.value
                return value
        value = compute()
        copy = x.clone() if x.device.type == "cpu" else None
        entry = _Entry(weakref.ref(x), copy, tuple(constants), key, value)
        entries[:] = [*entries, entry][-PER_GRAPH:]
        return value
