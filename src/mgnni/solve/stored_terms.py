r"""Equilibria from stored terms :math:`T_k(P) X`, with a bound on their error.

If the bias is linear in the features, :math:`B = X V`, then every equilibrium is

.. math::  Z_m = \sum_k T_k(P) X\, V A_{km}, \qquad
           (I - \gamma s^m W)^{-1} = \sum_k A_{km} T_k(s),

with Chebyshev polynomials of a symmetric operator, or powers of any other. The terms do not depend
on what is learned, so they are computed once, and :math:`Z` can be evaluated for some rows alone.
For a positive semidefinite :math:`W`, :math:`A_{km}` is a non-decreasing function of it, so that
:math:`\|A_{km}\|_2` and the sum of all coefficients that were left out follow from its largest
eigenvalue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.solve.result import Records


def matrix_coefficients(
    weight: Tensor, gamma: float, scale: int, terms: Sequence[int], chebyshev: bool
) -> Tensor:
    r"""Returns the coefficients :math:`A_{km}` of some terms, differentiable in the weight.

    For Chebyshev polynomials they are a discrete cosine transform of
    :math:`(I - \gamma s_j^m W)^{-1}` at Chebyshev nodes :math:`s_j`; for powers they are
    :math:`(\gamma W)^{k / m}` where :math:`m` divides :math:`k`, and zero elsewhere.

    Args:
        weight (Tensor): The weight :math:`W`, with :math:`\gamma \|W\|_2 < 1`; float64.
        gamma (float): The factor :math:`\gamma`.
        scale (int): The scale :math:`m`.
        terms (Sequence[int]): The indices :math:`k`, rising.
        chebyshev (bool): Whether terms are Chebyshev polynomials, else powers.

    Shapes:
        - **weight:** ``(channels, channels)``
        - **output:** ``(terms, channels, channels)``
    """
    eye = torch.eye(weight.size(-1), dtype=weight.dtype, device=weight.device)
    index = torch.tensor(tuple(terms), device=weight.device)
    if chebyshev:
        # So many nodes that what the transform folds back is far smaller than what is left out.
        nodes = 2 * (max(terms) + 1) + 16
        angle = (torch.arange(nodes, device=weight.device).to(weight) + 0.5) * (math.pi / nodes)
        step = gamma * angle.cos().pow(scale).view(-1, 1, 1)
        resolvents = torch.linalg.inv(eye - step * weight)
        table = torch.cos(index.to(weight).unsqueeze(1) * angle) * (2 / nodes)
        table = torch.where(index.unsqueeze(1) == 0, table / 2, table)
        found: Tensor = torch.tensordot(table, resolvents, 1)
        return found
    powers = [eye]
    for _ in range(max(terms) // scale):
        powers.append(gamma * powers[-1] @ weight)
    zero = torch.zeros_like(eye)
    return torch.stack([zero if k % scale else powers[k // scale] for k in terms])


@dataclass(frozen=True)
class StoredTerms:
    r"""What is known about stored terms :math:`T_k(P) X`.

    Args:
        scales (tuple[int, ...]): The scales that the terms suffice for.
        gamma (float): The largest factor :math:`\gamma` that they suffice for.
        tol (float): The tolerance of the residual, relative to the bias.
        chebyshev (bool): Whether they are Chebyshev polynomials, else powers.
        index (tuple[int, ...]): The stored :math:`k`, rising.
        defects (tuple[float, ...]): For every :math:`k` up to the last, also those not stored: a
            bound on the rounding of its recurrence, in the Frobenius norm.
        roundings (tuple[float, ...]): For every stored term, what rounding to the stored precision
            has changed, in the Frobenius norm.
        norms (tuple[float, ...]): Frobenius norms of the stored terms.
    """

    scales: tuple[int, ...]
    gamma: float
    tol: float
    chebyshev: bool
    index: tuple[int, ...]
    defects: tuple[float, ...] = ()
    roundings: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()

    @classmethod
    def needed(
        cls, scales: tuple[int, ...], gamma: float, tol: float, chebyshev: bool
    ) -> StoredTerms:
        """Returns the terms that suffice for every weight of norm at most one.

        Half of the tolerance is for truncation, and the other half for rounding.
        """
        found: set[int] = set()
        for scale in scales:
            step = scale if not chebyshev else 2 if scale % 2 == 0 else 1  # even functions
            last = _last_term(scale, gamma, tol, chebyshev)
            found |= set(range(0, last + 1, step))
        return cls(scales, gamma, tol, chebyshev, tuple(sorted(found)))

    def errors(self) -> list[float]:
        """Returns a bound on the error of every stored term, in the Frobenius norm.

        An error made in one step of the recurrence is multiplied by Chebyshev polynomials of the
        second kind later, at most by the number of steps, or by powers, at most by one.
        """
        found = []
        for k, rounding in zip(self.index, self.roundings, strict=True):
            steps = ((k - j + 1 if self.chebyshev else 1, d) for j, d in enumerate(self.defects))
            found.append(rounding + sum(max(n, 0) * d for n, d in steps if n > 0))
        return found

    def certify(
        self, weight: Tensor, map_norm: float, bias_norm: float, gamma: float, unit: float
    ) -> Records:
        r"""Bounds the error of states that are evaluated from these terms.

        The bound is the sum of what was truncated, the errors of the stored terms, and the
        rounding of the evaluation. The residual is at most :math:`1 + L` times as large.

        Args:
            weight (Tensor): The weight of every scale, positive semidefinite.
            map_norm (float): Spectral norm of the map :math:`V`.
            bias_norm (float): Frobenius norm of the bias :math:`X V`.
            gamma (float): The factor :math:`\gamma`.
            unit (float): Unit roundoff of the evaluation.

        Shapes:
            - **weight:** ``(scales, channels, channels)``
        """
        rows = []
        largest = torch.linalg.eigvalsh(weight.detach().double()).amax(-1).clamp(min=0)
        errors = torch.tensor(self.errors(), dtype=torch.float64)
        norms = torch.tensor(self.norms, dtype=torch.float64)
        # The evaluation is one dense product, whose rounding errors are taken as independent.
        width = math.sqrt(len(self.index) * weight.size(-1))
        for scale, value in zip(self.scales, largest.cpu(), strict=True):
            rate = float(gamma * value)
            if not rate < 1:
                rows.append((math.inf, bias_norm, math.inf, rate))
                continue
            column = value.view(1, 1)
            size = matrix_coefficients(column, gamma, scale, self.index, self.chebyshev).flatten()
            # All coefficients sum to the value at s = 1; they are not negative.
            rest = max(1 / (1 - rate) - float(size.sum()), 0.0) + 1e-14 / (1 - rate)
            stored = map_norm * float((size * errors).sum())
            rounding = unit * (width + 4) * map_norm * float((size * norms).sum())
            error = 2 * rest * bias_norm + stored + rounding
            rows.append(((1 + rate) * error, bias_norm, error, rate))
        table = torch.tensor(rows, dtype=torch.float64).T
        numbers = torch.cat([table, torch.full((1, len(rows)), float(max(self.index)))])
        name = "chebyshev" if self.chebyshev else "series"
        return Records(numbers.double().unsqueeze(-1), self.scales, "frobenius", self.tol, name)


def _last_term(scale: int, gamma: float, tol: float, chebyshev: bool) -> int:
    """Returns the last term that is needed for a weight of norm one."""
    allowed = tol / (4 * (1 + gamma))  # of what is left out, which is counted twice
    if not chebyshev:
        power = math.log(allowed * (1 - gamma)) / math.log(gamma) if gamma else 0.0
        return scale * math.ceil(max(power, 0.0))
    one, count = torch.ones(1, 1, dtype=torch.float64), 32
    while True:
        sizes = matrix_coefficients(one, gamma, scale, range(count), True).flatten()
        left = 1 / (1 - gamma) - sizes.cumsum(0)
        if float(left[-1]) <= allowed:
            return int((left <= allowed).nonzero()[0])
        count *= 2
