"""Operators remembered for the tensors they were built from, while those live and stay the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from mgnni.graph.propagation import Propagation

PER_GRAPH = 4  # operators kept for one edge_index: weights and options vary little


class _Entry(NamedTuple):
    tensors: tuple[Tensor | None, ...]  # edge_weight and batch, held so that `is` stays safe
    versions: tuple[int, ...]
    copies: tuple[Tensor, ...]
    options: tuple[Any, ...]
    propagation: Propagation


_entries: Any = WeakIdKeyDictionary()  # edge_index -> list of _Entry, newest last


def _versions(*tensors: Tensor | None) -> tuple[int, ...]:
    return tuple(t._version for t in tensors if t is not None)


def _copies(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Copies of the CPU tensors, whose memory numpy can change behind torch's version counter.

    On an accelerator nobody else writes, and comparing would wait for the device.
    """
    return tuple(t.detach().clone() for t in tensors if t is not None and t.device.type == "cpu")


def cached_propagation(
    edge_index: Tensor,
    num_nodes: int,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    **options: Any,
) -> Propagation:
    """As :meth:`Propagation.from_edge_index`, but built only once for the same tensors."""
    given = (edge_index, edge_weight, batch)
    present = [t for t in given if t is not None]
    if not all(isinstance(t, Tensor) and not t.is_inference() for t in present) or (
        edge_weight is not None and edge_weight.requires_grad
    ):
        # What is no tensor is refused there. Inference tensors count no versions, and values in
        # an autograd graph belong to one pass.
        return Propagation.from_edge_index(
            edge_index, num_nodes, edge_weight, batch=batch, **options
        )
    chosen = (num_nodes, *sorted(options.items()))
    entries: list[_Entry] = _entries.setdefault(edge_index, [])
    on_cpu = [t for t in present if t.device.type == "cpu"]
    for entry in entries:
        if (
            entry.options == chosen
            and entry.tensors[0] is edge_weight
            and entry.tensors[1] is batch
            and entry.versions == _versions(*given)
            and all(torch.equal(a, b) for a, b in zip(on_cpu, entry.copies, strict=True))
        ):
            return entry.propagation
    propagation = Propagation.from_edge_index(
        edge_index, num_nodes, edge_weight, batch=batch, **options
    )
    entry = _Entry((edge_weight, batch), _versions(*given), _copies(*given), chosen, propagation)
    entries[:] = [*entries, entry][-PER_GRAPH:]
    return propagation
