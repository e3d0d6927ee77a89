r"""The residual at the returned states, and the error bound that it certifies.

If the map :math:`T(Z) = \gamma P^m Z W + B` contracts by :math:`L < 1` in some norm, then
:math:`\|Z - Z^\star\| \le \|T(Z) - Z\| / (1 - L)`. The residual is measured per graph, because
the nodes and channels of a graph are coupled, and the graphs of a batch are not.
:meth:`mgnni.solve.result.Records.accept` decides from these numbers whether a graph is solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from mgnni.graph.normalize import NodeNorm
from mgnni.graph.propagation import Propagation
from mgnni.solve.equation import Equations, one_if_shared
from mgnni.solve.products import biased_product
from mgnni.solve.rounding import rounding_factors

FROBENIUS = NodeNorm("frobenius")


class Graphs(Protocol):
    """Anything that knows the graph of each node: an operator or a fixed-point problem."""

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""

    @property
    def batch(self) -> Tensor | None:
        """Graph of each node, shape ``(num_nodes,)``, or :obj:`None` for a single graph."""


def graph_sum(graphs: Graphs, x: Tensor) -> Tensor:
    """Sums over the nodes of each graph.

    Args:
        graphs (Graphs): Knows the graph of each node.
        x (Tensor): The numbers to sum.

    Shapes:
        - **x:** ``(..., num_nodes)``
        - **output:** ``(..., num_graphs)``
    """
    if graphs.batch is None:
        total = x.sum(-1, keepdim=True)
        return graphs.sum_over_processes(total) if isinstance(graphs, Propagation) else total
    total = x.new_zeros(*x.shape[:-1], graphs.num_graphs)
    return total.index_add_(-1, graphs.batch, x)


def graph_max(graphs: Graphs, x: Tensor) -> Tensor:
    """Returns the largest non-negative number of each graph, zero for a graph without nodes.

    Args:
        graphs (Graphs): Knows the graph of each node.
        x (Tensor): Non-negative numbers.

    Shapes:
        - **x:** ``(..., num_nodes)``
        - **output:** ``(..., num_graphs)``
    """
    if graphs.batch is None:
        largest = x.amax(-1, keepdim=True) if x.size(-1) else x.new_zeros(*x.shape[:-1], 1)
        return graphs.max_over_processes(largest) if isinstance(graphs, Propagation) else largest
    largest = x.new_zeros(*x.shape[:-1], graphs.num_graphs)
    index = graphs.batch.expand_as(x)
    return largest.scatter_reduce_(-1, index, x, "amax", include_self=True)


def graph_magnitude(graphs: Graphs, x: Tensor) -> Tensor:
    """Largest absolute entry of each graph.

    Args:
        graphs (Graphs): Knows the graph of each node.
        x (Tensor): The states.

    Shapes:
        - **x:** ``(..., num_nodes, channels)``
        - **output:** ``(..., num_graphs)``
    """
    if x.size(-1) == 0:
        return x.new_zeros(*x.shape[:-2], max(graphs.num_graphs, 1))
    return graph_max(graphs, torch.maximum(x.amax(-1), -x.amin(-1)))


def spread(graphs: Graphs, x: Tensor) -> Tensor:
    """Broadcasts one number per graph to its nodes.

    Args:
        graphs (Graphs): Knows the graph of each node.
        x (Tensor): One number per graph.

    Shapes:
        - **x:** ``(..., num_graphs)``
        - **output:** ``(..., num_nodes, 1)``, or ``(..., 1, 1)`` for a single graph
    """
    rows = x if graphs.batch is None else x[..., graphs.batch]
    return rows.unsqueeze(-1)


def frobenius(graphs: Graphs, x: Tensor) -> Tensor:
    """Frobenius norm per graph in float64.

    Rows are short, and inputs of extreme size have been scaled before, so only the sums over
    nodes need float64.

    Args:
        graphs (Graphs): Knows the graph of each node.
        x (Tensor): The states.

    Shapes:
        - **x:** ``(..., num_nodes, channels)``
        - **output:** ``(..., num_graphs)``
    """
    rows: Tensor = torch.linalg.vector_norm(x, dim=-1).double()
    return graph_sum(graphs, rows.square()).sqrt()


def node_norm(graphs: Graphs, norm: NodeNorm, x: Tensor) -> Tensor:
    """Norm of each graph, given the absolute values or the norms of its rows.

    Args:
        graphs (Graphs): Knows the graph of each node.
        norm (NodeNorm): The norm over the nodes.
        x (Tensor): Non-negative numbers.

    Shapes:
        - **x:** ``(..., num_nodes)``
        - **output:** ``(..., num_graphs)``
    """
    if norm.kind == "max":
        return graph_max(graphs, x if norm.weight is None else x / norm.weight)
    if norm.kind == "sum":
        return graph_sum(graphs, x if norm.weight is None else x * norm.weight)
    return graph_sum(graphs, x.square()).sqrt()


def to_frobenius(graphs: Graphs, norm: NodeNorm) -> Tensor | None:
    """Factor from a norm to the Frobenius norm, per graph; None if they agree.

    Args:
        graphs (Graphs): Knows the graph of each node.
        norm (NodeNorm): The norm over the nodes, with its weights.

    Shapes:
        - **output:** ``(num_graphs,)``
    """
    if norm.kind == "max" and norm.weight is not None:
        return graph_sum(graphs, norm.weight.square()).sqrt()
    if norm.kind == "sum" and norm.weight is not None:
        return graph_max(graphs, 1 / norm.weight)
    return None


@dataclass(frozen=True, eq=False)
class Measurement:
    """Residuals at given states; norms are on the CPU."""

    residual: Tensor  # shape: (equations, nodes, channels), T(Z) - Z
    hop: Tensor  # shape: as residual, P^m Z; the gradient of the weight needs it too
    residual_norm: Tensor  # shape: (equations, graphs)
    reference: Tensor  # shape: (equations, graphs), the larger of ||B||_F and ||Z||_F
    error_bound: Tensor  # shape: (equations, graphs), on ||Z - Z*||_F

    @property
    def relative(self) -> Tensor:
        """Residual norm over the reference; zero where both vanish."""
        norm = self.residual_norm
        return torch.where(norm == 0, torch.zeros_like(norm), norm / self.reference)

    def replaced(self, other: Measurement, where: Tensor, operator: Propagation) -> Measurement:
        """Returns this measurement with the numbers of ``other`` for the selected graphs."""
        rows = spread(operator, where.to(self.residual.device))
        return Measurement(
            torch.where(rows, other.residual, self.residual),
            torch.where(rows, other.hop, self.hop),
            torch.where(where, other.residual_norm, self.residual_norm),
            torch.where(where, other.reference, self.reference),
            torch.where(where, other.error_bound, self.error_bound),
        )

    def scaled(self, factor: Tensor) -> Measurement:
        """Returns the norms multiplied by one factor per graph."""
        names = ("residual_norm", "reference", "error_bound")
        return replace(self, **{name: getattr(self, name) * factor for name in names})


def measure(
    equations: Equations,
    bias: Tensor,
    z: Tensor,
    hop: Tensor | None = None,
    image: Tensor | None = None,
) -> Measurement:
    r"""Measures the residual at the states and the error bound that it certifies.

    Args:
        equations (Equations): The equations.
        bias (Tensor): Their bias :math:`B`.
        z (Tensor): The states.
        hop (Tensor, optional): :math:`P^m Z`, if already known.
        image (Tensor, optional): :math:`\gamma P^m Z W + B`, if already known; overwritten.

    Shapes:
        - **bias, z, hop, image:** ``(equations, num_nodes, channels)``
    """
    hop = equations.hop(z) if hop is None else hop
    if image is None:
        image = biased_product(bias, hop, equations.weights.tensor, equations.gamma)
    residual = image.sub_(z)
    unit = torch.finfo(z.dtype).eps / 2
    found = certified_norms(equations, bias, z, residual, unit)
    return Measurement(residual, hop, *found.cpu().unbind())  # a single transfer


def certified_norms(
    equations: Equations, bias: Tensor, z: Tensor, residual: Tensor, unit: float
) -> Tensor:
    r"""Returns residual norm, reference norm and error bound of every equation and graph.

    Args:
        equations (Equations): The equations.
        bias (Tensor): Their bias :math:`B`.
        z (Tensor): The states.
        residual (Tensor): The residual at these states, as computed.
        unit (float): Unit roundoff of the precision that the residual was computed in.

    Shapes:
        - **bias, z, residual:** ``(equations, num_nodes, channels)``
        - **output:** ``(3, equations, num_graphs)``, float64
    """
    operator = equations.operator
    rows = [torch.linalg.vector_norm(x, dim=-1) for x in (residual, z, one_if_shared(bias))]
    rows[2] = rows[2].expand_as(rows[0])
    stacked = torch.stack(rows).double()
    plain = node_norm(operator, FROBENIUS, stacked)
    other = operator.norm.kind != "frobenius"
    own = node_norm(operator, operator.norm, stacked) if other else plain
    (plain_r, plain_z, plain_b), (own_r, own_z, own_b) = plain.unbind(), own.unbind()

    # The computed residual contains the rounding of its own evaluation.
    scales, gamma, weights = equations.scales, equations.gamma, equations.weights
    factors = rounding_factors(operator, scales, gamma, equations.channels, weights.frobenius)
    numbers = [factors, equations.contractions]
    numbers_on_device = torch.tensor(numbers, dtype=torch.float64, device=z.device)
    factor, contraction = numbers_on_device.unsqueeze(-1).unbind()
    rounding = unit * (factor * own_z + 2 * (own_z + own_b))
    bound = (own_r + rounding) / (1 - contraction)
    factor_to_frobenius = to_frobenius(operator, operator.norm)
    if factor_to_frobenius is not None:
        bound = bound * factor_to_frobenius
    return torch.stack([plain_r, torch.maximum(plain_b, plain_z), bound])
