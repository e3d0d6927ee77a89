r"""The normalisations of the adjacency, each with the contraction bound that it proves.

``A[s, t]`` is the weight of the edge from ``s`` to ``t``. With out-degrees
:math:`d_s = \sum_t A_{st}` and in-degrees :math:`e_t = \sum_s A_{st}`:

==========  ==============================  ==================================================
name        :math:`S`                       what is proven
==========  ==============================  ==================================================
``sym``     :math:`D^{-1/2} A D^{-1/2}`     :math:`\|S\|_2 \le 1`, the graph being undirected
``dir``     :math:`D^{-1/2} A E^{-1/2}`     :math:`\|S\|_2 \le 1` (Schur test)
``out``     :math:`D^{-1/2} A D^{-1/2}`     ``S`` contracts in :math:`\max_i d_i^{-1/2}\|z_i\|`
``row``     :math:`D^{-1} A`                ``S`` contracts in :math:`\max_i \|z_i\|`
``none``    :math:`A`                       from the largest absolute row and column sums
==========  ==============================  ==================================================

The transpose of a map that contracts in :math:`\max_i \|z_i\| / w_i` contracts, by the same
factor, in :math:`\sum_i w_i \|z_i\|`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import ArgumentError

NORMALIZATIONS = ("sym", "dir", "out", "row", "none")


@dataclass(frozen=True, eq=False)
class NodeNorm:
    r"""The norm of node states in which an operator is known to contract.

    ``"frobenius"`` is :math:`(\sum_i \|z_i\|^2)^{1/2}`, ``"max"`` is
    :math:`\max_i \|z_i\| / w_i` and ``"sum"`` is :math:`\sum_i w_i \|z_i\|`.
    """

    kind: str
    weight: Tensor | None = None  # w, shape: (num_nodes,), positive

    def dual(self) -> NodeNorm:
        """The norm in which the transpose contracts by the same factor."""
        kind = {"frobenius": "frobenius", "max": "sum", "sum": "max"}[self.kind]
        return NodeNorm(kind, self.weight)


@dataclass(frozen=True, eq=False)
class Bound:
    """A proven bound on the norm of the operator ``x -> S x``, and the reason it holds."""

    value: float
    norm: NodeNorm
    reason: str


def _inverse_power(degree: Tensor, exponent: float) -> Tensor:
    """Return ``degree ** -exponent``, zero where the degree is zero; safe to differentiate."""
    positive = degree > 0
    safe = torch.where(positive, degree, torch.ones_like(degree))
    return torch.where(positive, safe.pow(-exponent), torch.zeros_like(degree))


def _sums(index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    return weight.new_zeros(num_nodes).index_add(0, index, weight)


def normalize(
    kind: str,
    source: Tensor,  # shape: (nnz,)
    target: Tensor,  # shape: (nnz,)
    weight: Tensor,  # shape: (nnz,), float64
    num_nodes: int,
) -> Tensor:
    """Return the entries of ``S`` at ``(source, target)``; differentiable in ``weight``."""
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
    """Return what is proven about the operator ``x -> S x``."""
    frobenius = NodeNorm("frobenius")
    if norm_bound is not None:
        if not isinstance(norm_bound, (int, float)) or not 0 <= norm_bound < float("inf"):
            raise ArgumentError(
                f"'norm_bound' must be finite and non-negative (got {norm_bound!r}); leave it out, "
                "and a bound is proven"
            )
        return Bound(float(norm_bound), frobenius, "||S||_2 bounded by the caller, not checked")
    if weight.numel() == 0:
        return Bound(0.0, frobenius, "no edges, so S = 0")
    if kind == "none":
        row = float(_sums(source, weight.abs(), num_nodes).max())
        column = float(_sums(target, weight.abs(), num_nodes).max())
        if symmetric:  # the three bounds below are one, up to the order of the sums
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
