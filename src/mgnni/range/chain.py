r"""Closed forms of the influence along chains.

Inside a chain, :math:`P = s I + (1 - s) C` with the share :math:`s` of the self-loop in the degree,
and :math:`C` a shift (directed) or the mean of both neighbours (undirected). By partial fractions,

.. math::  (I - a P^m)^{-1} = \frac1m \sum_{b^m = a} (I - b P)^{-1}, \qquad
           (I - b P)^{-1} = \frac{1}{1 - bs} (I - \beta C)^{-1}, \qquad
           \beta = \frac{b (1 - s)}{1 - bs}.

On an infinite chain, the entries of the last inverse at distance :math:`d` are :math:`\beta^d`
(directed) and :math:`\rho^d / \sqrt{1 - \beta^2}` with
:math:`\rho = \beta / (1 + \sqrt{1 - \beta^2})` (undirected). Chains with two ends have closed forms
as well; the proofs are in ``docs/math.md``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_choice, check_int, check_number
from mgnni.implicit.check import check_scale
from mgnni.range.bounds import check_contraction

DIRECTED = ("dir", "out")  # normalisations of a directed chain


def decay_rate(
    contraction: float, scale: int = 1, *, directed: bool = False, loop: float = 1.0
) -> float:
    r"""Returns the factor by which the influence shrinks per hop, far from the ends of a chain.

    With :math:`b = a^{1/m}` it is :math:`\beta` on a directed chain, that is,
    :math:`1 / (2 a^{-1/m} - 1)` with a self-loop of weight one, and :math:`e^{-\kappa}` with
    :math:`\cosh \kappa = 1/\beta` on an undirected chain, that is,
    :math:`\cosh \kappa = (3 a^{-1/m} - 1) / 2`. The number of hops that the influence takes to
    shrink by a given factor grows like :math:`m` on a directed chain, but like :math:`\sqrt m` on
    an undirected one.

    Args:
        contraction (float): The constant :math:`a = \gamma \lambda`, with an eigenvalue
            :math:`\lambda` of the weight.
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
        directed (bool, optional): Whether edges have one direction. (default: :obj:`False`)
        loop (float, optional): Weight of the self-loop of each node, ``0`` for none.
            (default: :obj:`1.0`)
    """
    beta = _beta(_roots(contraction, scale)[:1], _share(loop, directed))
    return float((beta if directed else _rho(beta)).real)


def line_influence(
    contraction: float,
    distance: Tensor,
    scale: int = 1,
    *,
    directed: bool = False,
    loop: float = 1.0,
) -> Tensor:
    r"""Returns :math:`((I - a P^m)^{-1})_{qp}` on a chain without ends.

    Args:
        contraction (float): The constant :math:`a = \gamma \lambda`.
        distance (Tensor): Hops from :math:`p` to :math:`q`; negative against the direction of a
            directed chain, where the influence is zero.
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
        directed (bool, optional): Whether edges have one direction. (default: :obj:`False`)
        loop (float, optional): Weight of the self-loop of each node. (default: :obj:`1.0`)

    Shapes:
        - **distance, output:** any shape
    """
    share = _share(loop, directed)
    root = _roots(contraction, scale)
    beta = _beta(root, share)
    hops = distance.double().abs().unsqueeze(-1)
    powers = _power(beta if directed else _rho(beta), hops)
    front = 1 if directed else 1 / torch.sqrt(1 - beta * beta)
    found = (front / (1 - root * share) * powers).mean(-1).real
    return torch.where(distance < 0, 0.0, found) if directed else found


def chain_influence(
    contraction: float,
    length: int,
    node: int = 0,
    scale: int = 1,
    *,
    directed: bool = False,
    loop: float = 1.0,
    normalization: str = "dir",
) -> Tensor:
    r"""Returns :math:`((I - a P^m)^{-1})_{qp}` for all nodes :math:`q` of a chain with two ends.

    This is the norm of :math:`\partial z_q / \partial b_p` if :math:`\lambda` is the largest
    eigenvalue of the weight. With ``loop=1``, the operator is that of
    :meth:`mgnni.Propagation.from_edge_index` for the edges :math:`i \to i + 1`.

    Args:
        contraction (float): The constant :math:`a = \gamma \lambda`.
        length (int): Number of nodes, at least 2.
        node (int, optional): The node :math:`p`. (default: :obj:`0`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
        directed (bool, optional): Whether edges only lead to the next node.
            (default: :obj:`False`)
        loop (float, optional): Weight of the self-loop of each node. (default: :obj:`1.0`)
        normalization (str, optional): ``"dir"`` or ``"out"``, for a directed chain; undirected
            ones are normalised symmetrically. (default: ``"dir"``)

    Shapes:
        - **output:** ``(length,)``, float64
    """
    check_int("length", length, least=2)
    if not (isinstance(node, int) and 0 <= node < length):
        raise ArgumentError(f"'node' must lie between 0 and {length - 1} (got {node!r})")
    check_choice("normalization", normalization, DIRECTED)
    _share(loop, directed)
    root = _roots(contraction, scale).unsqueeze(1)  # one row per root
    if contraction == 0:
        found = torch.zeros(length, dtype=torch.float64)
        found[node] = 1.0
        return found
    if directed:
        return _directed(root, length, node, loop, normalization).mean(0).real
    return _undirected(root, length, node, loop).mean(0).real


def _directed(root: Tensor, length: int, node: int, loop: float, normalization: str) -> Tensor:
    r"""A product along the chain: :math:`\prod (b t_i) / \prod (1 - b s_i)`."""
    out_degree = torch.full((length,), 1.0 + loop, dtype=torch.float64)
    out_degree[-1] = loop
    in_degree = out_degree.flip(0) if normalization == "dir" else out_degree
    left, right = (torch.where(d > 0, d, torch.inf).rsqrt() for d in (out_degree, in_degree))
    step = root * (left[:-1] * right[1:])
    stay = 1 - root * (loop * left * right)
    after = (step[:, node:] / stay[:, node + 1 :]).cumprod(1)
    found = torch.zeros(root.size(0), length, dtype=torch.complex128)
    found[:, node] = 1 / stay[:, node]
    found[:, node + 1 :] = after / stay[:, node : node + 1]
    return found


def _undirected(root: Tensor, length: int, node: int, loop: float) -> Tensor:
    r"""Two solutions of the recurrence, one for each end: a tridiagonal inverse.

    :math:`(I - bP)^{-1} = D^{1/2} (D - bA)^{-1} D^{1/2}`, where :math:`D - bA` is tridiagonal with
    constant entries except at the ends.
    """
    degree = torch.full((length,), 2.0 + loop, dtype=torch.float64)
    degree[0] = degree[-1] = 1.0 + loop
    rho = _rho(_beta(root, loop / (2 + loop)))
    mirror = rho * (1 - root * rho) / (root - rho)  # the reflection at an end
    place = torch.arange(length, dtype=torch.float64)
    low, high = torch.clamp(place, max=node), torch.clamp(place, min=node)
    last = length - 1
    ends = (1 + mirror * _power(rho, 2 * low)) * (1 + mirror * _power(rho, 2 * (last - high)))
    wronskian = (1 / rho - rho) * (1 - mirror**2 * _power(rho, torch.tensor(2.0 * last)))
    inverse = _power(rho, high - low) * ends / wronskian / root
    return inverse * torch.sqrt(degree * degree[node])


def _roots(contraction: float, scale: int) -> Tensor:
    """The complex roots :math:`b^m = a`, the positive one first."""
    check_contraction(contraction)
    angle = 2 * torch.pi * torch.arange(check_scale(scale), dtype=torch.float64) / scale
    size = torch.full_like(angle, contraction ** (1 / scale))
    return torch.polar(size, angle)


def _share(loop: float, directed: bool) -> float:
    """The share of the self-loop in the degree of a node that is not at an end."""
    check_number("loop", loop, "[0, inf)", "0 is no loop")
    return loop / (loop + (1 if directed else 2))


def _beta(root: Tensor, share: float) -> Tensor:
    return root * (1 - share) / (1 - root * share)


def _rho(beta: Tensor) -> Tensor:
    return beta / (1 + torch.sqrt(1 - beta * beta))


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """A complex power, with ``0 ** 0 = 1`` and ``0 ** k = 0``."""
    return torch.where(exponent == 0, torch.ones_like(base), base**exponent)
