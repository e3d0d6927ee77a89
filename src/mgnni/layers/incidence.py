"""Differences along edges: the scaled incidence matrix of a graph, and its transpose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.derived import derived_with_gradients
from mgnni.graph.propagation import Propagation


@dataclass(frozen=True, eq=False)
class Incidence:
    r"""The incidence matrix :math:`G` and the scaling :math:`D^{-1/2}` of a graph.

    A row of :math:`G` belongs to an edge of weight :math:`w` from :math:`j` to :math:`i`, and has
    :math:`\sqrt w` at :math:`i` and :math:`-\sqrt w` at :math:`j`. With :math:`D` the sums of the
    weights into and out of every node,

    .. math::  \|G D^{-1/2} x\|^2 = \sum_e w_e (d_i^{-1/2} x_i - d_j^{-1/2} x_j)^2
               \le 2 \sum_e w_e (x_i^2 / d_i + x_j^2 / d_j) \le 2 \|x\|^2,

    for any graph. Of an undirected one, where every edge is there in both directions, the square
    of :math:`G D^{-1/2}` is the normalised Laplacian. Only one of two such edges is kept: the
    other has the same difference, but for its sign, and adds the same to a sum.

    Attributes:
        target, source: nodes of each edge, shape ``(edges,)``.
        root: roots of the weights, shape ``(edges, 1)``.
        copies: how many times each edge is there, 1 or 2.
        scale: :math:`D^{-1/2}`, zero where a node has no edges, shape ``(num_nodes, 1)``.
    """

    target: Tensor
    source: Tensor
    root: Tensor
    scale: Tensor
    copies: int

    def differences(self, x: Tensor, root: Tensor) -> Tensor:
        """Return :math:`G X`, one row an edge; ``root`` may be :attr:`root` as autograd sees it."""
        return root * (x[self.target] - x[self.source])

    def sums(self, y: Tensor, root: Tensor) -> Tensor:
        r"""Return :math:`G^{\top} Y`, one row a node, :math:`Y` being odd in the differences."""
        y = self.copies * root * y
        zero = y.new_zeros(self.scale.size(0), y.size(1))
        return zero.index_add(0, self.target, y).index_add(0, self.source, -y)


@derived_with_gradients
def incidence(propagation: Propagation) -> Incidence:
    """Return the incidence matrix of the graph of an operator, whose entries are the weights."""
    pattern, weight = propagation.pattern, propagation.values
    target, source = pattern.row, pattern.col.long()
    if bool((weight < 0).any()):
        raise ArgumentError(
            f"'edge_weight' must not be negative (got {weight.min().item():g}), for its root "
            "scales a difference along the edge; take the absolute value, or leave it out"
        )
    degree = weight.new_zeros(propagation.num_nodes)
    degree = degree.index_add(0, target, weight).index_add(0, source, weight)
    linked = degree > 0
    scale = torch.where(linked, torch.where(linked, degree, 1.0).rsqrt(), 0.0)
    one_way = propagation.symmetric and not weight.requires_grad
    kept = (target < source if one_way else target != source) & (weight > 0)
    root = weight[kept].sqrt().unsqueeze(1)
    copies = 2 if one_way else 1
    return Incidence(target[kept], source[kept], root, scale.unsqueeze(1), copies)
