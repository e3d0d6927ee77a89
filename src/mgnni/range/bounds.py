r"""Proven bounds on the influence of a node on another, and on the θ-effective range.

A perturbation :math:`\Delta b_p` of the bias of node :math:`p` changes the solution of
:math:`Z = \gamma P^m Z W + B` at node :math:`q` by
:math:`\Delta z_q = \sum_i \gamma^i (P^{mi})_{qp}\, \Delta b_p W^i`. If :math:`q` is :math:`d` hops
from :math:`p`, the terms with :math:`mi < d` vanish. Everything here follows from this sum; the
proofs are in ``docs/math.md``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import check_int, check_number
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma, check_scale
from mgnni.range.printed import check_threshold
from mgnni.solve.equation import step_bounds
from mgnni.solve.expansion import resolvent

ROUNDING = 4 * torch.finfo(torch.float64).eps  # relative, per hop


def contraction(
    propagation: Propagation, weight: Tensor | float, gamma: float = 0.8, scale: int = 1
) -> float:
    r"""Returns :math:`a = \gamma \|W\|_2 \|P\|^m`, by which one step of the equation contracts.

    Args:
        propagation (Propagation): The operator :math:`P`, with its proven norm bound.
        weight (Tensor or float): The weight :math:`W`, or its spectral norm. For :math:`W = g(F)`
            this is :math:`\lambda_{\max}`, at most one.
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)

    Shapes:
        - **weight:** ``(channels, channels)``
    """
    check_scale(scale)
    if isinstance(weight, Tensor):
        norm = float(torch.linalg.matrix_norm(weight.detach().double(), 2))
    else:
        norm = check_number("weight", weight, "[0, inf)", "a norm is never negative; use abs")
    return check_gamma(gamma) * norm * step_bounds(propagation, (scale,))[0]


def distance_bound(contraction: float, distance: Tensor, scale: int = 1) -> Tensor:
    r"""Returns :math:`a^{\lceil d/m \rceil} / (1 - a)`, the sound form of Theorems 1 and 3.

    It bounds :math:`\|\Delta z_q\| / \|\Delta b_p\|` for any weight and any graph with
    :math:`\|P\|_2 \le 1` (normalisations ``"sym"`` and ``"dir"``), where :math:`a` is
    :func:`contraction`. For the other norms it has to be multiplied by :func:`node_factors`.
    It does not promise that any node is influenced this much.

    Args:
        contraction (float): The constant :math:`a`, below one.
        distance (Tensor): Hops :math:`d` from :math:`p` to :math:`q`; negative for "no path".
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)

    Shapes:
        - **distance, output:** any shape
    """
    rate = check_contraction(contraction)
    steps = torch.ceil(distance.double() / check_int("scale", scale))
    return torch.where(distance < 0, 0.0, rate**steps / (1 - rate))


def symmetric_bound(contraction: float, distance: Tensor, scale: int = 1) -> Tensor:
    r"""Returns the bound for undirected graphs, :math:`\sum_{k \ge d} c_k`.

    Here :math:`(1 - a s^m)^{-1} = \sum_k c_k T_k(s)`. The matrix :math:`T_k(P)` has norm at most
    one and no entries between nodes more than :math:`k` hops apart, so only the terms with
    :math:`k \ge d` contribute. All :math:`c_k` are non-negative. The bound assumes
    :math:`P = P^\top`, and is never larger than :func:`distance_bound`. It decays by the factor
    :math:`\rho = e^{-\kappa}` per hop with :math:`\cosh \kappa = a^{-1/m}`, hence
    :math:`\kappa \ge \sqrt{2 \ln(1/a) / m}`: **on an undirected graph the range grows at most like
    the square root of the scale.** On the infinite chain without self-loops the influence is
    :math:`c_d / 2`, so the decay rate cannot be improved.

    Args:
        contraction (float): The constant :math:`a`, below one.
        distance (Tensor): Hops :math:`d` from :math:`p` to :math:`q`; negative for "no path".
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)

    Shapes:
        - **distance, output:** any shape
    """
    rate = check_contraction(contraction)
    mu = torch.tensor([rate], dtype=torch.float64)
    front, rho = (part.squeeze(0) for part in resolvent(mu, check_int("scale", scale)))
    hops, place = torch.unique(distance.clamp(min=0), return_inverse=True)
    terms = front / (1 - rho) * rho ** hops.unsqueeze(-1)
    # Rounding must not turn a bound into less than it is.
    tail = terms.real.sum(-1) + ROUNDING * (1 + hops) * terms.abs().sum(-1)
    bound = torch.minimum(tail, distance_bound(rate, hops, scale))
    # The formula counts the coefficient of T_0 twice; all of them sum to 1 / (1 - a).
    bound = torch.where(hops == 0, 1 / (1 - rate), bound)
    return torch.where(distance < 0, 0.0, bound[place])


def node_factors(propagation: Propagation, node: int) -> Tensor:
    r"""Returns bounds on :math:`|(P^k)_{qp}| / \|P\|^k` for all :math:`k`, for a given :math:`p`.

    They are one in the Frobenius norm, :math:`w_q / w_p` in the ``max`` norm and
    :math:`w_p / w_q` in the ``sum`` norm of the operator, where :math:`w` are its weights.

    Args:
        propagation (Propagation): The operator.
        node (int): The node :math:`p`.

    Shapes:
        - **output:** ``(num_nodes,)``, float64, one number for each :math:`q`
    """
    norm = propagation.norm
    if norm.kind == "frobenius" or norm.weight is None:
        return torch.ones(propagation.num_nodes, dtype=torch.float64)
    weight = norm.weight.double().cpu()
    return weight / weight[node] if norm.kind == "max" else weight[node] / weight


def sound_bound(
    propagation: Propagation,
    node: int,
    distance: Tensor,
    weight: Tensor | float = 1.0,
    gamma: float = 0.8,
    scale: int = 1,
) -> Tensor:
    r"""Returns a proven bound on :math:`\|\Delta z_q\| / \|\Delta b_p\|` for every node :math:`q`.

    This is :func:`symmetric_bound` on undirected graphs, and otherwise :func:`distance_bound`
    times :func:`node_factors`. It holds for the exact solution of the equation with any weight of
    the given norm. The bias of node :math:`p` may change in any way; no other bias may.

    Args:
        propagation (Propagation): The operator :math:`P`.
        node (int): The perturbed node :math:`p`.
        distance (Tensor): Hops from :math:`p` to each node, negative for "no path", see
            :func:`mgnni.range.hops.hops_from`.
        weight (Tensor or float, optional): The weight :math:`W`, or its spectral norm.
            (default: :obj:`1.0`)
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)

    Shapes:
        - **distance, output:** ``(num_nodes,)``
        - **weight:** ``(channels, channels)``
    """
    rate = contraction(propagation, weight, gamma, scale)
    if propagation.symmetric and propagation.norm.kind == "frobenius":
        return symmetric_bound(rate, distance, scale)
    return distance_bound(rate, distance, scale) * node_factors(propagation, node)


def sound_range(
    theta: float, contraction: float, scale: int = 1, *, symmetric: bool = False
) -> int:
    r"""Returns a number of hops beyond which no influence exceeds :math:`\theta`.

    The θ-effective range is the largest distance of two nodes :math:`p`, :math:`q` such that a
    perturbation of size one of :math:`b_p` changes :math:`z_q` by more than :math:`\theta`. It is
    at most the returned number for every graph with :math:`\|P\|_2 \le 1`. For a perturbation of
    size :math:`\delta`, pass :math:`\theta / \delta`. A graph may have a much smaller range.

    Args:
        theta (float): The threshold :math:`\theta > 0`.
        contraction (float): The constant :math:`a`, see :func:`contraction`.
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
        symmetric (bool, optional): Whether the graph is undirected, so that the smaller
            :func:`symmetric_bound` holds. (default: :obj:`False`)
    """
    check_threshold(theta)
    bound = symmetric_bound if symmetric else distance_bound

    def exceeds(hops: int) -> bool:
        distance = torch.tensor([hops], dtype=torch.float64)  # may be more than an int64 holds
        return float(bound(contraction, distance, scale)) > theta

    if not exceeds(0):
        return 0
    low, high = 0, 1
    while exceeds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return low


def walks(propagation: Propagation, node: int, power: int) -> Tensor:
    r"""Returns the column :math:`(P^k)_{:p}`, in float64.

    Args:
        propagation (Propagation): The operator :math:`P`.
        node (int): The node :math:`p`.
        power (int): The power :math:`k`.

    Shapes:
        - **output:** ``(num_nodes,)``
    """
    start = torch.zeros(propagation.num_nodes, 1, dtype=torch.float64, device=propagation.device)
    start[node] = 1.0
    return propagation.double().apply(start, power).squeeze(1)


def check_contraction(value: float) -> float:
    """Returns ``value`` if it lies in [0, 1); else raises."""
    hint = "lower gamma, or choose a normalization with norm bound 1"
    return check_number("contraction", value, "[0, 1)", hint)
