"""Neumann's series, decoupled by the eigenvectors of the weight; for any operator."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.polynomials import Polynomials, Tail


def neumann(equations: Equations, tol: float, max_iter: int) -> tuple[Polynomials, bool]:
    r"""Return :math:`y_j = \sum_i \mu_j^i P^{m i} c_j`, cut off; :math:`\mu_j = \gamma\lambda_j`.

    In the norm of the operator the tail after :math:`k` terms is at most
    :math:`\ell^{k+1} / (1 - \ell)\,\|c_j\|` with :math:`\ell = |\mu_j| \|P\|^m`, and the residual
    at most :math:`\ell^{k+1} \|c_j\|`. Slow columns are few, because
    :math:`\sum_j \lambda_j^2 \le 1` for the weights of MGNNI.

    Returns:
        The polynomials, and whether ``max_iter`` terms were too few for some column.
    """
    values = (
        equations.gamma * equations.weights.decoupling.eigenvalues
    )  # mu, shape: (equations, channels)
    scale = torch.tensor(equations.scales).unsqueeze(1).expand_as(values)
    rate = values.abs() * equations.operator.norm_bound ** scale.double()
    tiny = torch.finfo(torch.float64).tiny
    needed = torch.log(torch.tensor(tol, dtype=torch.float64)) / torch.log(rate.clamp(min=tiny))
    terms = torch.ceil(needed).clamp(min=0).nan_to_num(posinf=max_iter + 1.0)
    short = bool((terms > max_iter).any())
    terms = terms.clamp(max=max_iter).long()

    mu, scale = values.flatten(), scale.flatten()

    def coefficient(hop: Tensor) -> Tensor:
        power = mu ** (hop // scale)
        return torch.where(hop % scale == 0, power, torch.zeros_like(power))

    degree = terms.flatten() * scale
    # The terms go on for good only if the operator does not expand, and not without end.
    tail = Tail(mu / (1 - mu), tol) if equations.operator.norm_bound <= 1 and not short else None
    return Polynomials(coefficient, degree, chebyshev=False, bound=1.0, tail=tail), short
