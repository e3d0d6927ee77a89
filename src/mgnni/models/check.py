"""Checks of what a model is given, at construction and at every call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation


def check_width(name: str, width: int, least: int = 1) -> int:
    """Return a number of channels or of layers if it can be one."""
    if not isinstance(width, int) or isinstance(width, bool) or width < least:
        kind = "a positive int" if least == 1 else f"an int of at least {least}"
        raise ArgumentError(f"'{name}' must be {kind} (got {width!r})")
    return width


def check_widths(name: str, widths: Sequence[int]) -> tuple[int, ...]:
    """Return the widths of hidden layers as a tuple."""
    if isinstance(widths, (int, str)) or not isinstance(widths, Sequence):
        raise ArgumentError(
            f"'{name}' must be a sequence of ints (got {widths!r}); write (64, 32), or () for none"
        )
    if any(not isinstance(width, int) or width < 1 for width in widths):
        raise ArgumentError(f"'{name}' must hold positive ints (got {tuple(widths)})")
    return tuple(widths)


def check_dropout(dropout: float) -> float:
    """Return the probability if it is one."""
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise ArgumentError(f"'dropout' must lie in [0, 1) (got {dropout!r}); 0 switches it off")
    return float(dropout)


def check_features(x: Tensor, in_channels: int, sparse: bool = False) -> None:
    """Check type, layout and shape of the features."""
    if not isinstance(x, Tensor):
        raise ArgumentError(
            f"'x' must be a tensor (got {type(x).__name__}); torch.as_tensor converts arrays"
        )
    if x.dim() != 2 or x.size(1) != in_channels or not x.is_floating_point():
        raise ArgumentError(
            f"'x' must be floating point of shape (num_nodes, {in_channels}) (got {x.dtype}, "
            f"{tuple(x.shape)}); in_channels of the model must be x.size(1)"
        )
    if x.layout is not torch.strided and not (sparse and x.layout is torch.sparse_csr):
        allowed = "dense or sparse CSR" if sparse else "dense in this configuration"
        remedy = "x.to_sparse_csr()" if sparse else "x.to_dense()"
        raise ArgumentError(f"'x' must be {allowed} (got {x.layout}); use {remedy}")


def check_same_graph(
    x: Tensor, propagation: Propagation, edge_weight: Tensor | None, batch: Tensor | None
) -> None:
    """Check that what comes with a Propagation belongs to it."""
    if x.size(0) != propagation.num_nodes:
        raise ArgumentError(
            f"'x' must have one row for each of the {propagation.num_nodes} nodes of the "
            f"Propagation (got {x.size(0)} rows); build it from the same graph"
        )
    if edge_weight is not None:
        raise ArgumentError(
            "'edge_weight' must be None with a Propagation (got a tensor), which has its weights "
            "already; pass it to Propagation.from_edge_index"
        )
    if batch is None:
        return
    own = propagation.graph_of_node()
    if batch.shape != own.shape or not torch.equal(batch, own):
        graphs = int(batch.max()) + 1 if batch.numel() else 0
        raise ArgumentError(
            f"'batch' must be that of the Propagation, with {propagation.num_graphs} graph(s) (got "
            f"{graphs}, or other nodes in them); pass it to Propagation.from_edge_index as well"
        )


def check_finite(x: Tensor) -> None:
    """Name the first feature that is not finite, if there is one."""
    x = x.to_dense()
    if not bool(torch.isfinite(x).all()):
        row, column = (~torch.isfinite(x)).nonzero()[0].tolist()
        raise ArgumentError(
            f"'x' must be finite (got {x[row, column].item()} at row {row}, column {column}); "
            "impute or drop such features"
        ) from None
