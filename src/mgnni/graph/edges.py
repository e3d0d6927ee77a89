"""Graphs as users pass them: edge indices and sparse adjacency matrices, converted and checked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TypeGuard, Union, runtime_checkable

import torch
from torch import Tensor

from mgnni.errors import ArgumentError

if TYPE_CHECKING:
    from torch_geometric import EdgeIndex

FLOATS = (torch.float32, torch.float64)


@runtime_checkable
class SparseTensor(Protocol):
    """The part of ``torch_sparse.SparseTensor`` that is read; the package is optional."""

    def coo(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return rows, columns and values."""

    def sparse_sizes(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""


Adjacency = Union[Tensor, SparseTensor]  # noqa: UP007 (evaluated at run time, where Tensor has no |)


def is_sparse(edge_index: Adjacency) -> bool:
    """Whether a graph is given as a sparse matrix rather than as an edge index."""
    if isinstance(edge_index, Tensor):
        return edge_index.layout is not torch.strided
    return isinstance(edge_index, SparseTensor)


def _is_pyg_index(edge_index: object) -> TypeGuard[EdgeIndex]:
    """Whether this is an ``EdgeIndex`` of PyG, which an exported model is served without."""
    pyg = sys.modules.get("torch_geometric")
    return pyg is not None and isinstance(edge_index, pyg.EdgeIndex)


def components(edge_index: Adjacency) -> tuple[Tensor, ...]:
    """Return the dense tensors in which a graph is stored: indices, then values if there are.

    Args:
        edge_index (Tensor, EdgeIndex or SparseTensor): The graph.

    Shapes:
        - **output:** ``(2, num_edges)`` for an edge index; for a sparse matrix, the indices of
          its layout and values ``(nnz,)``
    """
    if _is_pyg_index(edge_index):
        return (edge_index.as_tensor(),)
    if not isinstance(edge_index, Tensor):
        return tuple(part for part in edge_index.coo() if part is not None)
    if edge_index.layout is torch.strided:
        return (edge_index,)
    if edge_index.layout is torch.sparse_coo:
        return edge_index._indices(), edge_index._values()
    if edge_index.layout is torch.sparse_csr:
        return edge_index.crow_indices(), edge_index.col_indices(), edge_index.values()
    if edge_index.layout is torch.sparse_csc:
        return edge_index.ccol_indices(), edge_index.row_indices(), edge_index.values()
    raise ArgumentError(
        f"'edge_index' must be dense, or sparse in COO, CSR or CSC layout (got "
        f"{edge_index.layout}); use .to_sparse_csr()"
    )


def read_edges(
    edge_index: Adjacency, num_nodes: int | None, edge_weight: Tensor | None
) -> tuple[Tensor, int, Tensor | None]:
    """Return a 64-bit edge index, the number of nodes and the edge weights.

    As in PyG, a sparse matrix is the transposed adjacency ``adj_t``: rows are targets, columns
    are sources, and values are edge weights.

    Args:
        edge_index (Tensor, EdgeIndex or SparseTensor): The graph.
        num_nodes (int, optional): Number of nodes; :obj:`None` if ``edge_index`` knows it.
        edge_weight (Tensor, optional): Edge weights.

    Shapes:
        - **output:** edge index ``(2, num_edges)``, weights ``(num_edges,)``
    """
    known = None  # number of nodes
    if is_sparse(edge_index):
        if edge_weight is not None:
            raise ArgumentError(
                "'edge_weight' must be None with a sparse adjacency (got both), whose values are "
                "the weights; pass edge_index and edge_weight, or the sparse matrix alone"
            )
        index, edge_weight, known = _from_sparse(edge_index)
        if num_nodes not in (None, known):
            raise ArgumentError(
                f"'num_nodes' must be {known}, the size of the sparse adjacency (got "
                f"{num_nodes!r}); leave it out, or pass a matrix with one row per node"
            )
    elif _is_pyg_index(edge_index):
        index = edge_index.as_tensor()
        rows, columns = edge_index.sparse_size()
        known = rows if rows == columns else None
    elif isinstance(edge_index, Tensor):
        index = edge_index.as_subclass(Tensor)
    else:
        raise ArgumentError(
            f"'edge_index' must be a tensor or a sparse adjacency (got {type(edge_index).__name__})"
            "; torch.as_tensor converts arrays and lists"
        )
    index, num_nodes = _check_edge_index(index, known if num_nodes is None else num_nodes)
    return index, num_nodes, edge_weight


def _from_sparse(adj_t: Adjacency) -> tuple[Tensor, Tensor | None, int]:
    """Return the edge index, weights and size of a matrix with targets as rows."""
    weight: Tensor | None
    if not isinstance(adj_t, Tensor):
        row, col, weight = adj_t.coo()
        size = tuple(adj_t.sparse_sizes())
    else:
        size = tuple(adj_t.shape)
        if adj_t.layout is torch.sparse_coo and adj_t.requires_grad:
            # Only the values of a coalesced matrix are differentiable.
            adj_t = adj_t.coalesce()
            (row, col), weight = adj_t.indices(), adj_t.values()
        elif adj_t.layout is torch.sparse_coo:  # duplicates are added later, in float64
            (row, col), weight = components(adj_t)
        else:
            pointers, index, weight = components(adj_t)
            count = pointers.diff()
            own = torch.arange(count.numel(), device=index.device).repeat_interleave(count)
            row, col = (own, index) if adj_t.layout is torch.sparse_csr else (index, own)
    if len(size) != 2 or size[0] != size[1]:
        raise ArgumentError(
            f"'edge_index' must be square if it is a sparse adjacency (got {size}); bipartite "
            "graphs are not supported"
        )
    return torch.stack([col.long(), row.long()]), weight, size[0]


def _check_edge_index(edge_index: Tensor, num_nodes: int | None) -> tuple[Tensor, int]:
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or num_nodes < 0:
        raise ArgumentError(
            f"'num_nodes' must be a non-negative int (got {num_nodes!r}); pass x.size(0)"
        )
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise ArgumentError(
            f"'edge_index' must hold integers (got dtype {edge_index.dtype}); use .long()"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ArgumentError(
            f"'edge_index' must have shape (2, num_edges) (got {tuple(edge_index.shape)}), with "
            "sources in its first row and targets in its second; use .t() if it is transposed"
        )
    if edge_index.numel():
        low, high = torch.stack(edge_index.aminmax()).tolist()
        if low < 0 or high >= num_nodes:
            wrong = low if low < 0 else high
            raise ArgumentError(
                f"'edge_index' must hold node indices in [0, {num_nodes}) (got {wrong}); "
                "check num_nodes, or relabel the nodes from 0"
            )
    return edge_index.long(), num_nodes


def check_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return ``dtype`` if operators support it."""
    if dtype not in FLOATS:
        raise ArgumentError(
            f"'dtype' must be torch.float32 or torch.float64 (got {dtype}); equilibria are solved "
            "in one of these, so use lower precision in the other layers only"
        )
    return dtype


def check_weight(
    edge_weight: Tensor | None, edge_index: Tensor, dtype: torch.dtype | None, *, nonnegative: bool
) -> tuple[Tensor, torch.dtype]:
    """Return the weights in float64, and the dtype of the operator.

    Args:
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.
        edge_index (Tensor): The edges.
        dtype (torch.dtype, optional): The dtype of the operator, if given.
        nonnegative (bool): Whether weights must not be negative.

    Shapes:
        - **edge_weight, output:** ``(num_edges,)``
        - **edge_index:** ``(2, num_edges)``
    """
    if edge_weight is not None and not isinstance(edge_weight, Tensor):
        raise ArgumentError(
            f"'edge_weight' must be a tensor (got {type(edge_weight).__name__}); torch.as_tensor "
            "converts arrays and lists"
        )
    given = edge_weight.dtype if edge_weight is not None else torch.get_default_dtype()
    wanted = check_dtype(dtype or (given if given in FLOATS else torch.float32))
    num_edges = edge_index.size(-1)
    if edge_weight is None:
        return torch.ones(num_edges, dtype=torch.float64, device=edge_index.device), wanted
    if edge_weight.shape != (num_edges,):
        raise ArgumentError(
            f"'edge_weight' must have shape ({num_edges},), one weight per edge (got "
            f"{tuple(edge_weight.shape)}); use .view(-1) on a column"
        )
    if not edge_weight.is_floating_point():
        raise ArgumentError(
            f"'edge_weight' must be floating point (got {edge_weight.dtype}); use .float()"
        )
    _check_device("edge_weight", edge_weight, edge_index)
    if torch._C._functorch.is_batchedtensor(edge_weight):
        raise ArgumentError(
            "'edge_weight' must not be batched by vmap (got a batch), because all samples share "
            "one operator; loop over the graphs instead"
        )
    if num_edges:
        low, high = torch.stack(edge_weight.detach().aminmax()).tolist()
        if not (low > float("-inf") and high < float("inf")):
            raise ArgumentError(
                f"'edge_weight' must be finite (got values from {low} to {high}); remove or "
                "correct the edges where torch.isfinite(edge_weight) is false"
            )
        if nonnegative and low < 0:
            raise ArgumentError(
                f"'edge_weight' must not be negative with this normalization (got {low:.6g}), "
                "because degrees and the contraction bound need it; use normalization='none'"
            )
    return edge_weight.double(), wanted


def check_batch(
    batch: Tensor | None, batch_size: int | None, edge_index: Tensor, num_nodes: int
) -> int:
    """Return the number of graphs, after checking that no edge joins two of them.

    Args:
        batch (Tensor, optional): Graph of each node, shape ``(num_nodes,)``.
        batch_size (int, optional): Number of graphs; the largest index plus one if :obj:`None`.
        edge_index (Tensor): The edges, shape ``(2, num_edges)``.
        num_nodes (int): Number of nodes.
    """
    if batch_size is not None and (
        not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 0
    ):
        raise ArgumentError(
            f"'batch_size' must be a non-negative int (got {batch_size!r}); pass the number of "
            "graphs, batch.num_graphs of a PyG Batch"
        )
    if batch is None:
        if batch_size not in (None, 1):
            raise ArgumentError(
                f"'batch_size' must be 1 without a batch vector (got {batch_size}); pass batch, "
                "the graph of each node"
            )
        return 1
    if not isinstance(batch, Tensor):
        raise ArgumentError(
            f"'batch' must be a tensor (got {type(batch).__name__}); a PyG Batch has it as .batch"
        )
    if batch.shape != (num_nodes,) or batch.dtype != torch.int64:
        raise ArgumentError(
            f"'batch' must be a 64-bit integer tensor of shape ({num_nodes},) (got "
            f"{batch.dtype}, {tuple(batch.shape)}); a PyG Batch has it as .batch"
        )
    _check_device("batch", batch, edge_index)
    if num_nodes == 0:
        return batch_size or 0
    crossing = batch[edge_index[0]] != batch[edge_index[1]]
    # One host-device synchronisation for all checks.
    low, high, crosses = torch.stack([*batch.aminmax(), crossing.any().long()]).tolist()
    if low < 0:
        raise ArgumentError(f"'batch' must not be negative (got {low}); number the graphs from 0")
    if batch_size is not None and high >= batch_size:
        raise ArgumentError(
            f"'batch' must hold graph indices in [0, {batch_size}), as batch_size={batch_size} "
            f"(got {high}); check batch_size"
        )
    if crosses:
        edge = edge_index[:, crossing][:, 0].tolist()
        raise ArgumentError(
            f"'batch' must assign both ends of an edge to one graph (got edge {edge} between "
            f"graphs {batch[edge[0]].item()} and {batch[edge[1]].item()}); leave batch out if "
            "the graphs are connected"
        )
    return high + 1 if batch_size is None else batch_size


def _check_device(name: str, tensor: Tensor, edge_index: Tensor) -> None:
    if tensor.device != edge_index.device:
        raise ArgumentError(
            f"'{name}' must be on the device of edge_index, {edge_index.device} (got "
            f"{tensor.device}); use .to(edge_index.device)"
        )
