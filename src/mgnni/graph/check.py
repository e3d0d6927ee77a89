"""Checks of a graph given as tensors: each failure names the argument, its value and the remedy."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError

FLOATS = (torch.float32, torch.float64)


def check_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return ``edge_index`` as a plain 64-bit tensor of shape ``(2, num_edges)``."""
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or num_nodes < 0:
        raise ArgumentError(
            f"'num_nodes' must be a non-negative int (got {num_nodes!r}); pass x.size(0)"
        )
    if not isinstance(edge_index, Tensor) or edge_index.layout is not torch.strided:
        given = edge_index.layout if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ArgumentError(
            f"'edge_index' must be a dense tensor (got {given}); torch.as_tensor converts arrays "
            "and lists, torch_geometric.utils.to_edge_index a sparse adjacency"
        )
    edge_index = edge_index.as_subclass(Tensor)
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise ArgumentError(
            f"'edge_index' must hold integers (got dtype {edge_index.dtype}); use .long()"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ArgumentError(
            f"'edge_index' must have shape (2, num_edges) (got {tuple(edge_index.shape)}); "
            "sources stand in its first row, targets in its second"
        )
    if edge_index.numel():
        low, high = (int(v) for v in edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            wrong = low if low < 0 else high
            raise ArgumentError(
                f"'edge_index' must hold node indices in [0, {num_nodes}) (got {wrong}); "
                "check num_nodes, or relabel the nodes from 0"
            )
    return edge_index.long()


def check_weight(
    edge_weight: Tensor | None,
    edge_index: Tensor,
    dtype: torch.dtype | None,
    *,
    nonnegative: bool,
) -> tuple[Tensor, torch.dtype]:
    """Return the weights in float64, and the type the operator shall have."""
    if edge_weight is not None and not isinstance(edge_weight, Tensor):
        raise ArgumentError(
            f"'edge_weight' must be a tensor (got {type(edge_weight).__name__}); torch.as_tensor "
            "converts arrays and lists"
        )
    given = edge_weight.dtype if edge_weight is not None else torch.get_default_dtype()
    wanted = dtype if dtype is not None else (given if given in FLOATS else torch.float32)
    if wanted not in FLOATS:
        raise ArgumentError(
            f"'dtype' must be torch.float32 or torch.float64 (got {wanted}); the equilibrium "
            "is solved in one of these, and lower precision is for the layers around it"
        )
    num_edges = edge_index.size(-1)
    if edge_weight is None:
        return torch.ones(num_edges, dtype=torch.float64, device=edge_index.device), wanted
    if edge_weight.shape != (num_edges,):
        raise ArgumentError(
            f"'edge_weight' must have shape ({num_edges},), one weight an edge (got "
            f"{tuple(edge_weight.shape)}); use .view(-1) on a column"
        )
    if not edge_weight.is_floating_point():
        raise ArgumentError(
            f"'edge_weight' must be floating point (got {edge_weight.dtype}); use .float()"
        )
    if edge_weight.device != edge_index.device:
        raise ArgumentError(
            f"'edge_weight' must be on the device of edge_index, {edge_index.device} (got "
            f"{edge_weight.device}); use .to(edge_index.device)"
        )
    if num_edges:
        low, high = (float(v) for v in edge_weight.detach().aminmax())
        if not (low > float("-inf") and high < float("inf")):
            raise ArgumentError(
                f"'edge_weight' must be finite (got values from {low} to {high}); remove or "
                "repair the edges where torch.isfinite(edge_weight) is false"
            )
        if nonnegative and low < 0:
            raise ArgumentError(
                f"'edge_weight' must not be negative with this normalization (got {low:.6g}), "
                "because degrees and the contraction bound need it; use normalization='none'"
            )
    return edge_weight.double(), wanted


def check_batch(batch: Tensor | None, edge_index: Tensor, num_nodes: int) -> int:
    """Return the number of graphs, after checking that no edge joins two of them."""
    if batch is None:
        return 1
    if not isinstance(batch, Tensor):
        raise ArgumentError(
            f"'batch' must be a tensor (got {type(batch).__name__}); a PyG Batch carries one as "
            ".batch"
        )
    if batch.shape != (num_nodes,) or batch.dtype != torch.int64:
        raise ArgumentError(
            f"'batch' must be a 64-bit integer tensor of shape ({num_nodes},) (got "
            f"{batch.dtype}, {tuple(batch.shape)}); a PyG Batch carries one as .batch"
        )
    if batch.device != edge_index.device:
        raise ArgumentError(
            f"'batch' must be on the device of edge_index, {edge_index.device} (got "
            f"{batch.device}); use .to(edge_index.device)"
        )
    if num_nodes == 0:
        return 0
    if int(batch.min()) < 0:
        raise ArgumentError(
            f"'batch' must not be negative (got {int(batch.min())}); number the graphs from 0"
        )
    crossing = batch[edge_index[0]] != batch[edge_index[1]]
    if bool(crossing.any()):
        edge = edge_index[:, crossing][:, 0].tolist()
        raise ArgumentError(
            f"'batch' must put both ends of an edge into one graph (got edge {edge} between "
            f"graphs {batch[edge[0]].item()} and {batch[edge[1]].item()}); leave batch out if "
            "the graphs are connected"
        )
    return int(batch.max()) + 1
