r"""Normalisations of the adjacency matrix, each with the contraction bound that it implies.

``A[s, t]`` is the weight of the edge from ``s`` to ``t``. With out-degrees
:math:`d_s = \sum_t A_{st}` and in-degrees :math:`e_t = \sum_s A_{st}`:

==========  ==============================  ==================================================
name        :math:`S`                       proven bound
==========  ==============================  ==================================================
``sym``     :math:`D^{-1/2} A D^{-1/2}`     :math:`\|S\|_2 \le 1`, for undirected graphs
``dir``     :math:`D^{-1/2} A E^{-1/2}`     :math:`\|S\|_2 \le 1` (Schur test)
``out``     :math:`D^{-1/2} A D^{-1/2}`     ``S`` contracts in :math:`\max_i d_i^{-1/2}\|z_i\|`
``row``     :math:`D^{-1} A`                ``S`` contracts in :math:`\max_i \|z_i\|`
``none``    :math:`A`                       from the largest absolute row and column sums
==========  ==============================  ==================================================

If a map contracts in :math:`\max_i \|z_i\| / w_i`, its transpose contracts by the same factor in
:math:`\sum_i w_i \|z_i\|`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mgnni.errors import check_number

NORMALIZATIONS = ("sym", "dir", "out", "row", "none")
DUAL = {"frobenius": "frobenius", "max": "sum", "sum": "max"}  # norms in which transposes contract


@dataclass(frozen=True, eq=False)
class NodeNorm:
    r"""The norm of node states in which an operator contracts.

    ``"frobenius"`` is :math:`(\sum_i \|z_i\|^2)^{1/2}`, ``"max"`` is
    :math:`\max_i \|z_i\| / w_i` and ``"sum"`` is :math:`\sum_i w_i \|z_i\|`.

    Args:
        kind (str): The norm (``"frobenius"``, ``"max"`` or ``"sum"``).
        weight (Tensor, optional): Positive weights :math:`w`, shape ``(num_nodes,)``; ones if
            :obj:`None`. Norms of operators always have weights, except for ``"frobenius"``.
            (default: :obj:`None`)
    """

    kind: str
    weight: Tensor | None = None

    def dual(self) -> NodeNorm:
        """Return the norm in which the transpose contracts by the same factor."""
        return NodeNorm(DUAL[self.kind], self.weight)

    def to(self, device: torch.device) -> NodeNorm:
        """Return the norm with its weights on a device."""
        return replace(self, weight=None if self.weight is None else self.weight.to(device))


@dataclass(frozen=True, eq=False)
class Bound:
    """A proven bound on the norm of an operator.

    Args:
        value (float): The bound.
        norm (NodeNorm): The norm of node states that induces the operator norm.
        reason (str): Why the bound holds, in one line.
    """

    value: float
    norm: NodeNorm
    reason: str

    def transposed(self) -> Bound:
        """Return the bound on the transposed operator."""
        return Bound(self.value, self.norm.dual(), self.reason)


def _inverse_power(degree: Tensor, exponent: float) -> Tensor:
    """Return ``degree ** -exponent``, or zero for a zero degree, with finite gradients."""
    positive = degree > 0
    safe = torch.where(positive, degree, torch.ones_like(degree))
    return torch.where(positive, safe.pow(-exponent), torch.zeros_like(degree))


def _sums(index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    return weight.new_zeros(num_nodes).index_add(0, index, weight)


def normalize(kind: str, source: Tensor, target: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    r"""Return the entries of :math:`S`, differentiable in ``weight``.

    Args:
        kind (str): One of :obj:`NORMALIZATIONS`.
        source (Tensor): Source node of each entry.
        target (Tensor): Target node of each entry.
        weight (Tensor): Entries of :math:`A`, in float64.
        num_nodes (int): Number of nodes.

    Shapes:
        - **input:** three tensors of shape :math:`(\mathrm{nnz})`
        - **output:** :math:`(\mathrm{nnz})`
    """
    if kind == "none":
        return weight
    out = _sums(source, weight, num_nodes)
    if kind == "row":
        return weight * _inverse_power(out, 1.0)[source]
    left = _inverse_power(out, 0.5)
    right = _inverse_power(_sums(target, weight, num_nodes), 0.5) if kind == "dir" else left
    return weight * left[source] * right[target]


def prove(
    kind: str,
    symmetric: bool,
    source: Tensor,
    target: Tensor,
    weight: Tensor,
    num_nodes: int,
    norm_bound: float | None,
) -> Bound:
    r"""Return the bound on the operator :math:`X \mapsto S X`.

    Args:
        kind (str): The normalisation.
        symmetric (bool): Whether :math:`S` is symmetric.
        source (Tensor): Source node of each entry.
        target (Tensor): Target node of each entry.
        weight (Tensor): Entries of :math:`A`, in float64.
        num_nodes (int): Number of nodes.
        norm_bound (float, optional): A bound on :math:`\|S\|_2` given by the user, which is
            returned unchecked.

    Shapes:
        - **source, target, weight:** ``(nnz,)``
    """
    frobenius = NodeNorm("frobenius")
    if norm_bound is not None:
        check_number("norm_bound", norm_bound, "[0, inf)", "leave it out to use the proven bound")
        return Bound(float(norm_bound), frobenius, "||S||_2 bounded by the caller, not checked")
    if weight.numel() == 0:
        return Bound(0.0, frobenius, "no edges, so S = 0")
    if kind == "none":
        row = float(_sums(source, weight.abs(), num_nodes).max())
        column = float(_sums(target, weight.abs(), num_nodes).max())
        if symmetric:  # the three bounds below are equal, up to the order of summation
            return Bound(max(row, column), frobenius, "||S||_2 <= ||S||_inf for a symmetric S")
        ones = torch.ones(num_nodes, dtype=weight.dtype, device=weight.device)
        candidates = [
            Bound((row * column) ** 0.5, frobenius, "||S||_2^2 <= ||S||_1 ||S||_inf"),
            Bound(row, NodeNorm("max", ones), "largest absolute row sum of S"),
            Bound(column, NodeNorm("sum", ones), "largest absolute column sum of S"),
        ]
        return min(candidates, key=lambda bound: bound.value)
    if symmetric and kind != "row":
        return Bound(1.0, frobenius, "S is symmetric and similar to a stochastic matrix")
    if kind == "dir":
        return Bound(1.0, frobenius, "Schur test with the roots of the in- and out-degrees")
    degree = _sums(source, weight, num_nodes)
    ones = torch.ones_like(degree)
    if kind == "row":
        return Bound(1.0, NodeNorm("max", ones), "the rows of S sum to at most one")
    root = torch.where(degree > 0, degree.sqrt(), ones)
    return Bound(1.0, NodeNorm("max", root), "D^{-1/2} S D^{1/2} = D^{-1} A is row-stochastic")
