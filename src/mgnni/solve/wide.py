r"""Weights much wider than graphs are large: node by node in the eigenbasis of the operator.

With :math:`P = V \operatorname{diag}(s) V^{\top}`, once per graph, the rows of :math:`V^{\top} Z`
are independent: :math:`z\,(I - \mu W) = c` with :math:`\mu = \gamma s^m`, one number a row. Few
eigenvalues of :math:`W` are large. On their eigenvectors the solution is known, and on the rest,
where :math:`W` is tiny, a Chebyshev expansion needs one or two products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.chebyshev import expansion
from mgnni.solve.dense import product
from mgnni.solve.equation import Equations


def wide(equations: Equations, tol: float, max_iter: int) -> tuple[Tensor, list[int], bool]:
    """Solve for every row in the eigenbasis of the operator.

    Returns:
        The states, the degree of the expansion of every equation, and whether ``max_iter`` was
        too low for one.
    """
    spectrum = equations.operator.spectrum
    blocks = spectrum.blocks
    s = torch.cat([block.eigenvalues.flatten() for block in blocks])
    order = s.abs().argsort(descending=True)  # rows that need more products stand in front
    back = torch.argsort(order)
    s = s[order]
    on_host = s.cpu()
    z = torch.empty(equations.bias.shape, dtype=equations.bias.dtype, device=equations.bias.device)
    rows = z.new_empty(0)
    degrees, short = [], False
    for index in range(len(equations)):
        if index == 0 or not equations.shared_bias:
            bias = equations.bias[index]
            parts = [block.eigenvectors.mT @ bias[block.nodes] for block in blocks]
            rows = torch.cat([part.flatten(0, 1) for part in parts])[order]
        change, degree = _solve_rows(equations, index, rows, (s, on_host), tol, max_iter)
        short |= degree > max_iter
        degrees.append(min(degree, max_iter))
        pieces = torch.split(change[back], [block.nodes.numel() for block in blocks])
        states = [
            (block.eigenvectors @ piece.view(*block.nodes.shape, -1)).flatten(0, 1)
            for block, piece in zip(blocks, pieces, strict=True)
        ]
        torch.add(equations.bias[index], torch.cat(states)[spectrum.place], out=z[index])
    return z, degrees, short


def _solve_rows(
    equations: Equations,
    index: int,
    c: Tensor,
    spectrum: tuple[Tensor, Tensor],  # where the rows are, and on the CPU
    tol: float,
    max_iter: int,
) -> tuple[Tensor, int]:
    r"""Solve :math:`z - \mu z W = c` for every row; return :math:`z - c`, and the degree needed.

    What is added to the bias is smaller than the states, and so is its rounding.

    With :math:`z = a X + y`, :math:`y X^{\top} = 0`, and the :math:`X, \theta, E` of the outliers,

    .. math::
        a (1 - \mu\theta) = c X^{\top} + \mu\, y E^{\top}, \qquad
        y - \mu\,(y W - y E^{\top} X + a E) = c - c X^{\top} X,

    and with :math:`a` put into the second one :math:`y` is left, under an operator whose
    eigenvalues lie about the interval of the rest.
    """
    weight, found = equations.weights.tensor[index], equations.weights.outliers
    x, e = found.vectors[index], found.rest[index]
    mu, on_host = (equations.gamma * s ** equations.scales[index] for s in spectrum)
    mu = mu.unsqueeze(1)
    below = (1 / (1 - mu * found.values[index])).to(c)
    inner = c @ x.T
    ratio = mu.to(c) * below  # shape: (rows, kept)
    both = torch.cat([x, e])
    coupled = ratio * inner
    d = torch.addmm(c, torch.cat([-inner, coupled], 1), both)

    low, high = found.interval[index]
    table, degree = _coefficients(on_host, low, high, tol, max_iter)
    table[0] -= 1  # y less d
    table = table.to(c)
    middle, half = (low + high) / 2, (high - low) / 2
    y = table[0].unsqueeze(1) * d
    term, before = d, d
    for k in range(1, table.size(0)):
        count = int((degree >= k).sum())
        term, before = term[:count], before[:count]
        leak = term @ e.T
        new = torch.addmm(product(term, weight), torch.cat([-leak, ratio[:count] * leak], 1), both)
        new = new.sub_(term, alpha=middle).div_(half)
        if k > 1:  # T_k(x) = 2 x T_{k-1}(x) - T_{k-2}(x)
            new = new.mul_(2).sub_(before)
        term, before = new, term
        y[:count].addcmul_(term, table[k, :count].unsqueeze(1))
    leak = (y + d) @ e.T
    inner = (mu * found.values[index]).to(c) * below * inner + ratio * leak  # a less c X^T
    return torch.addmm(y, torch.cat([inner, coupled], 1), both), int(degree[0])


def _coefficients(
    mu: Tensor, low: float, high: float, tol: float, max_iter: int
) -> tuple[Tensor, Tensor]:
    r"""Expand :math:`1 / (1 - \mu\lambda)` in Chebyshev polynomials of the interval.

    Args:
        mu: one a row, falling in size.
        low: one end of the interval.
        high: the other end.
        tol: what the coefficients left out may add up to.
        max_iter: degree at most.

    Returns:
        The coefficients, shape ``(terms, rows)``, and the degree needed by each row; both on the
        CPU.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    below = 1 - mu * middle
    front, rho = (part.squeeze(1).real for part in expansion(mu * half / below, 1))
    size, tail = rho.abs(), front.abs() / below.abs()
    tiny = torch.finfo(torch.float64).tiny
    # The residual is at most 1 + |mu| half times the error of y.
    target = tol * (1 - size) / ((1 + (mu * half).abs()) * tail)
    needed = torch.log(target) / torch.log(size.clamp(min=tiny)) - 1
    degree = torch.ceil(needed).clamp(min=0)
    degree = degree.nan_to_num(posinf=max_iter + 1.0).clamp(max=max_iter + 1.0)
    degree = torch.cummax(degree.flip(0), 0).values.flip(0)  # rows stay in order
    k = torch.arange(int(degree[0].clamp(max=max_iter)) + 1).unsqueeze(1)
    table = (front / below) * rho**k
    table[0] /= 2
    return torch.where(k > degree, torch.zeros_like(table), table), degree.long()
