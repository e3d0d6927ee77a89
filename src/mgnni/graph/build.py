"""From edges to the entries of the propagation operator, with a proven bound on its norm."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.csr import Pattern
from mgnni.graph.edges import Adjacency, check_batch, check_weight, read_edges
from mgnni.graph.normalize import NORMALIZATIONS, Bound, normalize, prove

ROUNDING = 8  # units in the last place by which the directions of an edge may differ
FLOWS = ("source_to_target", "target_to_source")


class Parts(NamedTuple):
    """The parts of a propagation operator."""

    pattern: Pattern
    weight: Tensor  # of the distinct edges, before normalisation, in float64
    values: Tensor  # the normalised entries
    symmetric: bool
    bound: Bound
    normalization: str
    num_graphs: int


def build(
    edge_index: Adjacency,
    num_nodes: int | None,
    edge_weight: Tensor | None,
    *,
    normalization: str,
    self_loops: bool,
    flow: str,
    batch: Tensor | None,
    batch_size: int | None,
    dtype: torch.dtype | None,
    norm_bound: float | None,
) -> Parts:
    """Check the input, add self-loops, sum duplicate edges, normalise, and bound the norm.

    See :meth:`mgnni.Propagation.from_edge_index` for details.

    Args:
        edge_index (Tensor, EdgeIndex or SparseTensor): The edges.
        num_nodes (int, optional): Number of nodes; :obj:`None` if ``edge_index`` knows it.
        edge_weight (Tensor, optional): Edge weights; all ones if :obj:`None`.
        normalization (str): The normalisation, or ``"auto"``.
        self_loops (bool): Whether to use :math:`A + I`.
        flow (str): The flow of messages.
        batch (Tensor, optional): Graph of each node; :obj:`None` for a single graph.
        batch_size (int, optional): Number of graphs.
        dtype (torch.dtype, optional): The dtype of the entries.
        norm_bound (float, optional): A bound on the norm guaranteed by the user.

    Shapes:
        - **edge_index:** ``(2, num_edges)``, or sparse ``(num_nodes, num_nodes)``
        - **edge_weight:** ``(num_edges,)``
        - **batch:** ``(num_nodes,)``
    """
    kind = check_choice("normalization", normalization, (*NORMALIZATIONS, "auto"))
    to_target = check_choice("flow", flow, FLOWS) == "source_to_target"
    edge_index, num_nodes, edge_weight = read_edges(edge_index, num_nodes, edge_weight)
    weight, dtype = check_weight(edge_weight, edge_index, dtype, nonnegative=kind != "none")
    num_graphs = check_batch(batch, batch_size, edge_index, num_nodes)
    if self_loops:
        loop = torch.arange(num_nodes, device=edge_index.device)
        edge_index = torch.cat([edge_index, loop.expand(2, -1)], dim=1)
        weight = torch.cat([weight, weight.new_ones(num_nodes)])

    gather, scatter = (0, 1) if to_target else (1, 0)
    key, position = torch.unique(
        edge_index[scatter] * num_nodes + edge_index[gather], return_inverse=True
    )
    weight = weight.new_zeros(key.numel()).index_add(0, position, weight)
    if edge_weight is not None:
        precision = min(torch.finfo(one).eps for one in (edge_weight.dtype, torch.float32))
        weight = _without_rounding(key, num_nodes, weight, ROUNDING * precision)
    row, col = key // max(num_nodes, 1), key % max(num_nodes, 1)
    pattern = Pattern.from_sorted(row, col, num_nodes)
    source, target = (col, row) if to_target else (row, col)

    if kind in ("auto", "sym"):
        undirected = is_symmetric(pattern, weight)
        if kind == "sym" and not undirected:
            raise ArgumentError(
                "'normalization' must not be 'sym' for a directed graph (got one), because "
                "||S||_2 <= 1 can fail there; use normalization='dir', or "
                "torch_geometric.utils.to_undirected(edge_index)"
            )
        kind = "sym" if undirected else "dir"
    if kind != "none" and key.numel():  # a common factor cancels, and large degrees may overflow
        weight = weight / 2.0 ** float(weight.detach().max().clamp(min=1e-300).log2().floor())
    # With equal in- and out-degrees both formulas give the same entries, but only that of "dir"
    # also has the derivative along changes that make the graph directed.
    learned = normalization == "auto" and weight.requires_grad
    entries = normalize("dir" if learned else kind, source, target, weight, num_nodes)
    if not bool(torch.isfinite(entries).all()):
        raise ArgumentError(
            f"'edge_weight' must span fewer orders of magnitude (got a ratio that overflows with "
            f"normalization={kind!r}); drop or rescale the smallest weights"
        )
    symmetric = is_symmetric(pattern, entries)
    bound = prove(kind, symmetric, source, target, weight.detach(), num_nodes, norm_bound)
    if to_target:
        bound = bound.transposed()
    return Parts(pattern, weight, entries.to(dtype), symmetric, bound, kind, num_graphs)


def _without_rounding(key: Tensor, num_nodes: int, weight: Tensor, rtol: float) -> Tensor:
    """Return weights where both directions of an edge are equal if they were up to rounding.

    The sums of duplicate edges, as in :func:`torch_geometric.utils.to_undirected`, depend on the
    order of the duplicates. Gradients are those of each direction.

    Args:
        key (Tensor): Row times ``num_nodes`` plus column of each entry, ascending.
        num_nodes (int): Number of nodes.
        weight (Tensor): Weight of each entry.
        rtol (float): Largest relative difference that counts as rounding.

    Shapes:
        - **key, weight, output:** ``(nnz,)``
    """
    if not key.numel():
        return weight
    mirrored = key % num_nodes * num_nodes + key // num_nodes
    place = torch.searchsorted(key, mirrored).clamp(max=key.numel() - 1)
    one = weight.detach()
    other = torch.where(key[place] == mirrored, one[place], one)
    size = torch.maximum(one.abs(), other.abs())
    close = (one - other).abs() <= rtol * size
    return weight + torch.where(close, (other - one) / 2, 0.0)


def is_symmetric(pattern: Pattern, values: Tensor) -> bool:
    """Whether a matrix equals its transpose: same pattern, same values up to rounding.

    Args:
        pattern (Pattern): The pattern of the matrix.
        values (Tensor): Its entries.

    Shapes:
        - **values:** ``(nnz,)``
    """
    other, order = pattern.transposed
    if not (torch.equal(pattern.crow, other.crow) and torch.equal(pattern.col, other.col)):
        return False
    values = values.detach()
    return torch.allclose(values, values[order], rtol=1e-12, atol=0.0)


def symmetric_graphs(pattern: Pattern, values: Tensor, graph: Tensor, num_graphs: int) -> Tensor:
    """Return :func:`is_symmetric` per graph, for a batch whose graphs are contiguous.

    The entries of a graph then occupy the same range in the matrix and in its transpose.

    Args:
        pattern (Pattern): The pattern of the matrix.
        values (Tensor): Its entries.
        graph (Tensor): Graph of each entry.
        num_graphs (int): Number of graphs.

    Shapes:
        - **values:** ``(nnz,)``
        - **graph:** ``(nnz,)``
        - **output:** ``(num_graphs,)``, boolean
    """
    other, order = pattern.transposed
    equal = torch.isclose(values, values[order], rtol=1e-12, atol=0.0)
    equal &= (pattern.row == other.row) & (pattern.col == other.col)
    unequal = torch.zeros(num_graphs, dtype=torch.long, device=values.device)
    return unequal.index_add_(0, graph, (~equal).long()) == 0
