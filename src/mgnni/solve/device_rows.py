r"""Wide weights on a small graph: an expansion in the weight by CUDA products.

With :math:`P = V \operatorname{diag}(s) V^{\top}`, computed once per graph, the rows of
:math:`V^{\top} Z` are independent: :math:`z\,(I - \mu W) = c` with :math:`\mu = \gamma s^m`. The
spectrum of :math:`W = g(F)` lies in :math:`[0, 1]`, half as wide as that of an operator. So a
Chebyshev expansion in :math:`W` needs few products, and their number is known in advance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.graph.memo import memoize
from mgnni.graph.propagation import Propagation
from mgnni.kernels import launches
from mgnni.solve.device import SHARE, DevicePlan, Launched, fits_one_launch
from mgnni.solve.equation import Equations
from mgnni.solve.expansion import interval_expansion
from mgnni.solve.result import Options

SMALL = 1024  # number of nodes up to which the eigenpairs of a graph are cheap
HIGHEST = 10_000  # degree of an expansion; never reached where the kernels apply


def fits(equations: Equations, options: Options) -> bool:
    """Whether :class:`DeviceRows` can solve equations that have kernels."""
    operator = equations.operator
    return (
        options.solver in ("auto", "wide")
        and operator.symmetric
        and operator.batch is None
        and operator.num_nodes <= min(SMALL, equations.channels)
        and equations.channels > launches.widest(operator.device)
        and fits_one_launch(equations)
    )


@dataclass(frozen=True, eq=False)
class RowExpansion:
    """The expansion of every row; it does not depend on the weights."""

    basis: Tensor  # V, columns by falling |s|; shape: (num_nodes, num_nodes)
    table: Tensor  # coefficients, shape: (terms, equations, num_nodes, 1)
    rows: list[int]  # number of rows that a term is needed by
    degree: Tensor  # shape: (equations,), 32-bit
    ones: Tensor  # bounds on the eigenvalues of the weights, shape: (equations, 1)


@memoize
def _row_expansion(
    operator: Propagation, scales: tuple[int, ...], gamma: float, tol: float
) -> RowExpansion:
    (block,) = operator.spectrum.blocks
    s, vectors = block.eigenvalues[0], block.eigenvectors[0]
    order = s.abs().argsort(descending=True)
    s = s[order].cpu()
    basis = torch.empty_like(vectors)
    basis[block.nodes[0]] = vectors[:, order]
    mu = torch.stack([gamma * s**m for m in scales])
    table, degree = interval_expansion(mu, 0.0, 1.0, tol, HIGHEST)
    needed = (degree >= torch.arange(table.size(0)).view(-1, 1, 1)).any(1)
    rows = [int(one.nonzero().max()) + 1 if bool(one.any()) else 0 for one in needed]
    device = basis.device
    return RowExpansion(
        basis=basis,
        table=table.float().unsqueeze(-1).to(device),
        rows=rows,
        degree=degree.amax(1).int().to(device),
        ones=torch.full((len(mu), 1), 1 + 1e-6, dtype=torch.float64, device=device),
    )


class DeviceRows(DevicePlan):
    """Expansion in the weight, row by row in the eigenbasis of the operator."""

    solver = "wide"
    synchronises = False

    def adjoint(self) -> DeviceRows:
        """Returns itself: operator and weights are symmetric."""
        return self

    @cached_property
    def _expansion(self) -> RowExpansion:
        equations = self.equations
        tol = SHARE * self.options.tol
        return _row_expansion(equations.operator, equations.scales, equations.gamma, tol)

    def _launch(self, bias: Tensor) -> Launched:
        plan, weight = self._expansion, self.equations.weights.tensor
        before = (plan.basis.mT @ bias).expand(len(self.equations), -1, -1).contiguous()
        total = plan.table[0] * before
        term = before
        for k, rows in enumerate(plan.rows[1:], 1):
            term, before = term[:, :rows], before[:, :rows]
            if k == 1:  # T_1(y) = y with y = 2 x - 1
                new = torch.baddbmm(term, term, weight, beta=-1, alpha=2)
            else:  # T_k(y) = 2 y T_{k-1}(y) - T_{k-2}(y)
                new = torch.baddbmm(before.add(term, alpha=2), term, weight, beta=-1, alpha=4)
            term, before = new, term
            total[:, :rows].addcmul_(term, plan.table[k, :, :rows])
        return Launched(plan.basis @ total, plan.ones, plan.degree)
