"""Distances in hops."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor
from torch_geometric.utils import to_undirected

from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation

AT_ONCE = 2**24  # distances that are searched together
NOISE = 1e-9  # relative influence that is rounding


def hops_to(propagation: Propagation, nodes: Tensor) -> Tensor:
    r"""Returns how many hops each node is away from the given ones, along the edges.

    The distance from :math:`p` to :math:`q` is the smallest :math:`k` with a walk of :math:`k`
    non-zero entries of :math:`P` from :math:`p` to :math:`q`.

    Args:
        propagation (Propagation): The operator :math:`P`.
        nodes (Tensor): The nodes :math:`q` at which the paths end.

    Shapes:
        - **nodes:** ``(count,)``
        - **output:** ``(count, num_nodes)``, int32, one column for each :math:`p`; -1 for no path
    """
    pattern, count = propagation.pattern, propagation.num_nodes
    entries = (propagation.values != 0, pattern.col, pattern.crow)
    arrays = tuple(one.cpu().numpy() for one in entries)
    graph = csr_array(arrays, shape=(count, count), copy=True)  # the next line writes into it
    graph.eliminate_zeros()  # entries of P may be zero where degrees are
    starts = check_nodes(nodes, count).cpu().numpy()
    found = torch.empty(len(starts), count, dtype=torch.int32)
    size = max(AT_ONCE // max(count, 1), 1)
    for begin in range(0, len(starts) if count else 0, size):
        part = dijkstra(graph, indices=starts[begin : begin + size], unweighted=True)
        part[np.isinf(part)] = -1
        found[begin : begin + size] = torch.from_numpy(part)
    return found


def hops_from(propagation: Propagation, nodes: Tensor) -> Tensor:
    """Returns how many hops the given nodes are away from each node; see :func:`hops_to`.

    Args:
        propagation (Propagation): The operator.
        nodes (Tensor): The nodes at which the paths start.

    Shapes:
        - **nodes:** ``(count,)``
        - **output:** ``(count, num_nodes)``, int32; -1 for no path
    """
    return hops_to(propagation.adjoint(), nodes)


def influence_hops(propagation: Propagation, nodes: Tensor, influence: Tensor) -> Tensor:
    """Returns distances in the direction in which a model sends messages.

    That is along the edges as in :func:`hops_to`, against them, or both ways, the first in which
    all nodes with an influence have a path.

    Args:
        propagation (Propagation): The operator of the model.
        nodes (Tensor): The influenced nodes.
        influence (Tensor): Influence of each node on them, at least zero.

    Shapes:
        - **nodes:** ``(count,)``
        - **influence, output:** ``(count, num_nodes)``
    """
    least = NOISE * influence.amax() if influence.numel() else 0.0
    for operator in (propagation, propagation.adjoint()):
        distance = hops_to(operator, nodes)
        if not bool((influence[distance < 0] > least).any()):
            return distance
    used = propagation.values.detach() != 0
    edges = torch.stack([propagation.pattern.col.long(), propagation.pattern.row])[:, used]
    both = to_undirected(edges.cpu(), num_nodes=propagation.num_nodes)
    return hops_to(Propagation.from_edge_index(both, propagation.num_nodes), nodes)


def check_nodes(nodes: Tensor, num_nodes: int) -> Tensor:
    """Returns the indices of nodes, given as indices or as a boolean mask.

    Args:
        nodes (Tensor): Indices of nodes, or a mask of all nodes.
        num_nodes (int): Number of nodes.

    Shapes:
        - **nodes:** ``(count,)``, or ``(num_nodes,)`` for a mask
        - **output:** ``(count,)``
    """
    if not isinstance(nodes, Tensor):
        raise ArgumentError(
            f"nodes must be a tensor of indices (got {type(nodes).__name__}); use "
            "torch.tensor([0, 1])"
        )
    if nodes.dtype is torch.bool and nodes.shape == (num_nodes,):
        return nodes.nonzero().squeeze(1)
    whole = nodes.dim() == 1 and nodes.dtype in (torch.int64, torch.int32)
    if not whole or (nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes):
        raise ArgumentError(
            f"nodes must be int64 indices from 0 to {num_nodes - 1} in one dimension (got "
            f"{nodes.dtype}, shape {tuple(nodes.shape)}); use torch.tensor([0, 1])"
        )
    return nodes.long()
