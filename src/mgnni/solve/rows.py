r"""Wide weights on small graphs: an expansion in the weight, row by row.

With :math:`P = V \operatorname{diag}(s) V^{\top}`, computed once per graph, the rows of
:math:`V^{\top} Z` are independent: :math:`z\,(I - \mu W) = c` with :math:`\mu = \gamma s^m`, one
number per row. Few eigenvalues of :math:`W` are large. The solution on their eigenvectors is known,
and on the rest, where :math:`W` is tiny, a Chebyshev expansion needs one or two products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.equation import one_if_shared
from mgnni.solve.expansion import interval_expansion
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.products import product


class Wide(Method):
    """Solves every row in the eigenbasis of the operator, with the outliers of W separated."""

    name = "wide"
    needs_symmetric_operator = needs_symmetric_weight = True

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Expands as far as the remaining eigenvalues of the weight need."""
        equations = self.equations
        spectrum = equations.operator.spectrum
        s = torch.cat([block.eigenvalues.flatten() for block in spectrum.blocks])
        order = s.abs().argsort(descending=True)  # rows that need more products come first
        back = torch.argsort(order)
        s = s[order]
        s_cpu = s.cpu()
        z = torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)
        shared = len(one_if_shared(bias)) == 1
        rows = z.new_empty(0)
        degrees, truncated = [], False
        for index in range(len(equations)):
            if index == 0 or not shared:
                rows = spectrum.coordinates(bias[index])[order]
            change, degree = self._solve_rows(index, rows, s, s_cpu, tol, max_iter)
            truncated |= degree > max_iter
            degrees.append(min(degree, max_iter))
            torch.add(bias[index], spectrum.states(change[back]), out=z[index])
        steps = torch.tensor(degrees).unsqueeze(1).expand(-1, equations.operator.num_graphs)
        return Proposal(z, steps, truncated)

    def _solve_rows(
        self, index: int, c: Tensor, s: Tensor, s_cpu: Tensor, tol: float, max_iter: int
    ) -> tuple[Tensor, int]:
        r"""Solves :math:`z - \mu z W = c` for every row; returns :math:`z - c` and the degree.

        The change relative to the bias is smaller than the states, and so is its rounding.

        With :math:`z = a X + y`, :math:`y X^{\top} = 0`, and :math:`X, \theta, E` of the outliers,

        .. math::
            a (1 - \mu\theta) = c X^{\top} + \mu\, y E^{\top}, \qquad
            y - \mu\,(y W - y E^{\top} X + a E) = c - c X^{\top} X.

        Inserting :math:`a` into the second equation leaves :math:`y`, under an operator whose
        eigenvalues lie close to the interval of the remaining eigenvalues of :math:`W`.
        """
        equations = self.equations
        weight, found = equations.weights.tensor[index], equations.weights.outliers
        x, e = found.vectors[index], found.rest[index]
        mu, mu_cpu = (equations.gamma * one ** equations.scales[index] for one in (s, s_cpu))
        mu = mu.unsqueeze(1)
        below = (1 / (1 - mu * found.values[index])).to(c)
        inner = c @ x.T
        ratio = mu.to(c) * below  # shape: (rows, kept)
        both = torch.cat([x, e])
        coupled = ratio * inner
        d = torch.addmm(c, torch.cat([-inner, coupled], 1), both)

        low, high = self._interval(index)
        table, degree = interval_expansion(mu_cpu, low, high, tol, max_iter)
        table[0] -= 1  # the expansion of y - d
        table = table.to(c)
        middle, half = (low + high) / 2, (high - low) / 2
        y = table[0].unsqueeze(1) * d
        term, before = d, d
        for k in range(1, table.size(0)):
            count = int((degree >= k).sum())
            term, before = term[:count], before[:count]
            new = product(term, weight)
            # As term X^T = 0, new X^T is term E^T. But rounding leaves a part along X, which would
            # grow, because the interval does not include theta; this removes it.
            leaks = torch.cat([-new @ x.T, ratio[:count] * (term @ e.T)], 1)
            new = torch.addmm(new, leaks, both)
            new = new.sub_(term, alpha=middle).div_(half)
            if k > 1:  # T_k(x) = 2 x T_{k-1}(x) - T_{k-2}(x)
                new = new.mul_(2).sub_(before)
            term, before = new, term
            y[:count].addcmul_(term, table[k, :count].unsqueeze(1))
        leak = (y + d) @ e.T
        inner = (mu * found.values[index]).to(c) * below * inner + ratio * leak  # a - c X^T
        return torch.addmm(y, torch.cat([inner, coupled], 1), both), int(degree[0])

    def _interval(self, index: int) -> tuple[float, float]:
        """Interval that holds the other eigenvalues of W, at most as wide as its norm allows."""
        equations, found = self.equations, self.equations.weights.outliers
        low, high = found.interval[index]
        step = equations.gamma * equations.step_bounds[index]
        wider = step * found.leak(index, step)
        limit = equations.contractions[index] / step if step else float("inf")
        return max(low - wider, -limit), min(high + wider, limit)
