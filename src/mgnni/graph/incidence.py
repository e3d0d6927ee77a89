"""Differences along edges: the scaled incidence matrix of a graph and its transpose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.memo import memoize_differentiable
from mgnni.graph.propagation import Propagation


@dataclass(frozen=True, eq=False)
class Incidence:
    r"""The incidence matrix :math:`G` and the scaling :math:`D^{-1/2}` of a graph.

    The row of an edge of weight :math:`w` from :math:`j` to :math:`i` holds :math:`\sqrt w` at
    :math:`i` and :math:`-\sqrt w` at :math:`j`. With :math:`D` the sum of the weights into and out
    of each node,

    .. math::  \|G D^{-1/2} x\|^2 = \sum_e w_e (d_i^{-1/2} x_i - d_j^{-1/2} x_j)^2
               \le 2 \sum_e w_e (x_i^2 / d_i + x_j^2 / d_j) \le 2 \|x\|^2

    for any graph. For undirected graphs, which list every edge in both directions,
    :math:`D^{-1/2} G^{\top} G D^{-1/2}` is the normalised Laplacian. Only one of the two directions
    is stored, because the other differs by its sign only and contributes the same to a sum.

    Attributes:
        target (Tensor): Target node of each edge, shape ``(edges,)``.
        source (Tensor): Source node of each edge, shape ``(edges,)``.
        root (Tensor): Square roots of the weights, shape ``(edges, 1)``.
        scale (Tensor): :math:`D^{-1/2}`, zero for nodes without edges, shape ``(num_nodes, 1)``.
        copies (int): How often the graph lists each stored edge, 1 or 2.
    """

    target: Tensor
    source: Tensor
    root: Tensor
    scale: Tensor
    copies: int

    def differences(self, x: Tensor, root: Tensor) -> Tensor:
        """Return :math:`G X`, one row per edge.

        Args:
            x (Tensor): One row per node.
            root (Tensor): :attr:`root`, or the same values in another autograd graph.
        """
        return root * (x[self.target] - x[self.source])

    def sums(self, y: Tensor, root: Tensor) -> Tensor:
        r"""Return :math:`G^{\top} Y`, one row per node.

        Args:
            y (Tensor): One row per edge, odd in the differences along the edges.
            root (Tensor): :attr:`root`, or the same values in another autograd graph.
        """
        y = self.copies * root * y
        zero = y.new_zeros(self.scale.size(0), y.size(1))
        return zero.index_add(0, self.target, y).index_add(0, self.source, -y)


@memoize_differentiable
def incidence(propagation: Propagation) -> Incidence:
    """Return the incidence matrix of a graph, with the entries of its operator as edge weights."""
    pattern, weight = propagation.pattern, propagation.values
    target, source = pattern.row, pattern.col.long()
    if bool((weight < 0).any()):
        raise ArgumentError(
            f"'edge_weight' must not be negative (got {weight.min().item():g}), because its square "
            "root is used; take the absolute value, or leave it out"
        )
    degree = weight.new_zeros(propagation.num_nodes)
    degree = degree.index_add(0, target, weight).index_add(0, source, weight)
    connected = degree > 0
    scale = torch.where(connected, torch.where(connected, degree, 1.0).rsqrt(), 0.0)
    one_way = propagation.symmetric and not weight.requires_grad
    stored = (target < source if one_way else target != source) & (weight > 0)
    root = weight[stored].sqrt().unsqueeze(1)
    copies = 2 if one_way else 1
    return Incidence(target[stored], source[stored], root, scale.unsqueeze(1), copies)
