"""Sums of the entries of an operator, row by row and column by column."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.graph.derived import derived_with_gradients
from mgnni.graph.propagation import Propagation


@derived_with_gradients
def row_sums(propagation: Propagation) -> Tensor:
    """Return the weight of all that a node gathers, shape ``(num_nodes, 1)``; found once."""
    return propagation.apply(propagation.values.new_ones(propagation.num_nodes, 1))


@derived_with_gradients
def largest_degrees(propagation: Propagation) -> Tensor:
    r"""Return a bound on :math:`\|P\|_2` in each graph, shape ``(num_graphs,)``, in float64.

    It is the root of the largest absolute row sum times the largest column sum, so in an
    undirected graph the largest degree. A graph without edges has a one: any bound will do, and
    the root has no slope at zero.
    """
    size, graph = propagation.values.double().abs(), propagation.graph_of_node()
    product = size.new_ones(propagation.num_graphs)
    for end in (propagation.pattern.row, propagation.pattern.col.long()):
        sums = size.new_zeros(propagation.num_nodes).index_add(0, end, size)
        product = product * torch.zeros_like(product).scatter_reduce(0, graph, sums, "amax")
    return torch.where(product > 0, product, 1.0).sqrt()
