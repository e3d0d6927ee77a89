r"""Wide weights on a small graph, without a look at any number on the way.

With :math:`P = V \operatorname{diag}(s) V^{\top}`, once per graph, the rows of :math:`V^{\top} Z`
are independent: :math:`z\,(I - \mu W) = c` with :math:`\mu = \gamma s^m`. The spectrum of
:math:`W = g(F)` lies in :math:`[0, 1]`, half as wide as that of an operator, so that a Chebyshev
expansion in :math:`W` needs few products, and it is known beforehand how many each row needs.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.kernels import launches
from mgnni.solve.planned import SHARE, Pending, at_once, can_plan, certify

if TYPE_CHECKING:
    from mgnni.solve.equation import Equations

SMALL = 1024  # nodes up to which the eigenpairs of a graph cost little


def fits_wide(equations: Equations, solver: str) -> bool:
    """Whether equations can be solved so."""
    operator = equations.operator
    return (
        solver in ("auto", "wide")
        and can_plan(equations)
        and operator.symmetric
        and operator.batch is None
        and operator.num_nodes <= min(SMALL, equations.channels)
        and equations.channels > launches.widest(equations.bias.device)
        and at_once(equations)
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """All that does not depend on the weights."""

    basis: Tensor  # V, columns by falling |s|; shape: (num_nodes, num_nodes)
    table: Tensor  # coefficients, shape: (terms, equations, num_nodes, 1)
    rows: list[int]  # how many rows a term is needed by
    degree: Tensor  # shape: (equations,), 32-bit
    ones: Tensor  # bounds on the eigenvalues of the weights, shape: (equations, 1)


_plans: weakref.WeakKeyDictionary[Any, dict[Any, _Plan]] = weakref.WeakKeyDictionary()


def _plan(equations: Equations, tol: float) -> _Plan:
    key = (equations.scales, equations.gamma, tol)
    known = _plans.setdefault(equations.operator, {})
    if key not in known:
        with torch.inference_mode(False):
            known[key] = _made(equations, tol)
    return known[key]


def _made(equations: Equations, tol: float) -> _Plan:
    (block,) = equations.operator.spectrum.blocks
    s, vectors = block.eigenvalues[0], block.eigenvectors[0]
    order = s.abs().argsort(descending=True)
    s = s[order].cpu()
    basis = torch.empty_like(vectors)
    basis[block.nodes[0]] = vectors[:, order]
    mu = torch.stack([equations.gamma * s**m for m in equations.scales])
    table, degree = expansion(mu, tol)
    needed = (degree >= torch.arange(table.size(0)).view(-1, 1, 1)).any(1)
    rows = [int(one.nonzero().max()) + 1 if bool(one.any()) else 0 for one in needed]
    device = basis.device
    return _Plan(
        basis=basis,
        table=table.float().unsqueeze(-1).to(device),
        rows=rows,
        degree=degree.amax(1).int().to(device),
        ones=torch.full((len(mu), 1), 1 + 1e-6, dtype=torch.float64, device=device),
    )


def expansion(mu: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    r"""Expand :math:`1 / (1 - \mu x)` in Chebyshev polynomials of :math:`2 x - 1`, on [0, 1].

    Returns:
        The coefficients, shape ``(terms, *mu.shape)``, zero past the degree at which what is left
        out leaves a residual of ``tol`` at most; and that degree.
    """
    middle = 1 - mu / 2
    a = mu / 2 / middle
    square = (1 - a * a).sqrt()
    rho, front = a / (1 + square), 2 / (middle * square)
    size = rho.abs().clamp(min=torch.finfo(rho.dtype).tiny)
    target = tol * (1 - size) / (front.abs() * (1 + mu.abs()))
    degree = (torch.log(target) / torch.log(size) - 1).ceil().clamp(min=0)
    k = torch.arange(int(degree.max()) + 1).view(-1, *[1] * mu.dim())
    table = front * rho**k
    table[0] /= 2
    return torch.where(k > degree, torch.zeros_like(table), table), degree.long()


def solve_planned_wide(equations: Equations, tol: float) -> tuple[Tensor, Tensor, Pending]:
    """Return the states, :math:`P^m Z` at them, and the records to come."""
    plan, weight = _plan(equations, SHARE * tol), equations.weights.tensor
    count = len(equations)
    bias = (equations.bias[:1] if equations.shared_bias else equations.bias).contiguous()
    before = (plan.basis.mT @ bias).expand(count, -1, -1).contiguous()
    total = plan.table[0] * before
    term = before
    for k, rows in enumerate(plan.rows[1:], 1):
        term, before = term[:, :rows], before[:, :rows]
        if k == 1:  # T_1(y) = y, y = 2 x - 1
            new = torch.baddbmm(term, term, weight, beta=-1, alpha=2)
        else:  # T_k(y) = 2 y T_{k-1}(y) - T_{k-2}(y)
            new = torch.baddbmm(before.add(term, alpha=2), term, weight, beta=-1, alpha=4)
        term, before = new, term
        total[:, :rows].addcmul_(term, plan.table[k, :, :rows])
    z = plan.basis @ total
    return certify(equations, z, bias, (plan.ones, plan.degree), tol, "wide")
