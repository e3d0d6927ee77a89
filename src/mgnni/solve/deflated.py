r"""Wide weights on any graph: an iteration that is exact on the few large eigenvalues of W.

With the outliers :math:`W \approx X^{\top} \operatorname{diag}(\theta) X`, the map
:math:`M z = z - \gamma P^m z X^{\top} \operatorname{diag}(\theta) X` is close to
:math:`A z = z - \gamma P^m z W`, and easy to invert: it changes only the coordinates
:math:`z X^{\top}`, which are decoupled. The iteration

.. math::  z_{k+1} = z_k + M^{-1} (b - A z_k)

reduces the residual about by the factor :math:`\gamma \|P\|^m \rho` in every step, where
:math:`\rho` is the largest of the other eigenvalues. A step takes one product with :math:`W`.

If :math:`\gamma \|P\|^m |\theta|` is close to one, errors of the vectors :math:`X` count, and the
iteration is slower or diverges; :func:`deflated_rate` includes this.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from mgnni.solve.certify import frobenius, spread
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.products import biased_product
from mgnni.solve.sweep import Chebyshev, Series
from mgnni.solve.weights import Weights

INNER = 1e-3, 0.05  # least and largest tolerance of the decoupled equations


class Deflated(Method):
    """Iterates with the outliers of W solved separately."""

    name = "deflated"
    needs_symmetric_weight = True

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Iterates until the recursive residual of every graph meets the tolerance."""
        equations, operator = self.equations, self.equations.operator
        weight, x = equations.weights.tensor, equations.weights.outliers.vectors
        inner = min(max(deflated_rate(equations), INNER[0]), INNER[1])
        z, r = torch.zeros(bias.shape, dtype=bias.dtype, device=bias.device), bias
        size = frobenius(operator, bias)
        steps = torch.zeros(size.shape, dtype=torch.long, device=size.device)
        running = torch.ones_like(steps, dtype=torch.bool)
        for count in range(max_iter + 1):
            running &= frobenius(operator, r) > tol * torch.maximum(size, frobenius(operator, z))
            if count == max_iter or not bool(running.any()):
                break
            if not bool(running.all()):  # those that have finished do not move
                r = r * spread(operator, running).to(r.dtype)
            part = torch.bmm(r, x.mT)
            solved = self._decoupled.propose(part, inner, self._decoupled.budget(max_iter)).z
            step = torch.baddbmm(r, solved - part, x)
            z += step
            r = biased_product(r - step, equations.hop(step), weight, equations.gamma)
            steps += running
        return Proposal(z, steps.cpu(), bool(running.any()))

    @cached_property
    def _decoupled(self) -> Series:
        kind = Chebyshev if self.equations.operator.symmetric else Series
        return kind(decoupled(self.equations), self.expansions)


def decoupled(equations: Equations) -> Equations:
    """Returns the equations of the coordinates on the outliers, whose weights are diagonal.

    Args:
        equations (Equations): Equations with symmetric weights.
    """
    found = equations.weights
    weights = Weights(found.outliers.values.to(found.tensor.dtype).diag_embed())
    return replace(equations, weights=weights)


def deflated_rate(equations: Equations) -> float:
    r"""Returns the factor by which a step of :class:`Deflated` should reduce the residual.

    With :math:`c = \gamma \|P\|^m` it is the larger root of :math:`x^2 = c\rho\,x + c^2 \kappa`,
    where :math:`\kappa` is :meth:`~mgnni.solve.weights.Outliers.leak`. It can exceed one.

    Args:
        equations (Equations): Equations with symmetric weights.
    """
    found = equations.weights.outliers
    ends = found.interval
    sizes = [max(map(abs, interval)) for interval in ends]
    steps = [equations.gamma * bound for bound in equations.step_bounds]
    rates = []
    for index, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        leak = found.leak(index, step)
        rates.append(step * (size + math.sqrt(size**2 + 4 * leak)) / 2)
    return max(rates)
