r"""The influence of nodes on one another in a linear equilibrium, exactly and without autograd.

With :math:`W = Q \Lambda Q^\top`, the solution of :math:`Z = \gamma P^m Z W + B` has
:math:`\partial z_q / \partial b_p = Q \operatorname{diag}(R_j[q, p])\, Q^\top` and
:math:`R_j = (I - \gamma \lambda_j P^m)^{-1}`. All :math:`R_j`, for all scales and all
:math:`\gamma`, are polynomials in the same operator, :math:`R_j = \sum_k a_{kj} t_k(P)`. So one
sweep of products :math:`t_k(P^\top) e_q`, one column per node :math:`q`, serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma, check_options, check_scale
from mgnni.range.bounds import check_contraction
from mgnni.range.hops import check_nodes
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.expansion import Expansion, chebyshev, neumann, recurrence
from mgnni.solve.weights import Weights

NORMS = ("spectral", "frobenius")
TERMS = 16  # products that are combined by one matrix product
NUMBERS = 2**26  # float64 numbers in memory at a time
MANY = 2**31  # no limit on the number of terms
NOISE = 1e-16  # relative singular values that are left out


@dataclass(frozen=True)
class Resolvent:
    r"""The matrix :math:`(I - \mu P^m)^{-1}`.

    Args:
        mu (float): The factor :math:`\mu = \gamma \lambda`, below one in size.
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
    """

    mu: float
    scale: int = 1


def resolvent_rows(
    propagation: Propagation,
    resolvents: Sequence[Resolvent],
    nodes: Tensor,
    tol: float = 1e-12,
) -> Tensor:
    r"""Returns rows :math:`q` of several matrices :math:`(I - \mu P^m)^{-1}`, in float64.

    The expansions are cut off where the remaining terms are proven to be at most about ``tol``,
    in the norm of the operator. So is the error of each entry, for ``"sym"`` and ``"dir"``.

    Args:
        propagation (Propagation): The operator :math:`P`.
        resolvents (Sequence[Resolvent]): The matrices.
        nodes (Tensor): The nodes :math:`q`.
        tol (float, optional): Where expansions are cut off. (default: :obj:`1e-12`)

    Shapes:
        - **nodes:** ``(count,)``
        - **output:** ``(resolvents, count, num_nodes)``
    """
    parts = [rows for _, rows in resolvent_blocks(propagation, resolvents, nodes, tol)]
    if not parts:
        return torch.empty(len(resolvents), 0, propagation.num_nodes, dtype=torch.float64)
    return torch.cat(parts, dim=1)


def resolvent_blocks(
    propagation: Propagation,
    resolvents: Sequence[Resolvent],
    nodes: Tensor,
    tol: float = 1e-12,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the rows of :func:`resolvent_rows` in blocks that fit into memory.

    Args:
        propagation (Propagation): The operator.
        resolvents (Sequence[Resolvent]): The matrices.
        nodes (Tensor): The nodes.
        tol (float, optional): Where expansions are cut off. (default: :obj:`1e-12`)

    Yields:
        Some of the nodes, and their rows, shape ``(resolvents, count, num_nodes)``.
    """
    nodes = check_nodes(nodes, propagation.num_nodes)
    if len(resolvents):
        yield from _sweeps(propagation, *_coefficients(propagation, resolvents, tol), nodes)


def linear_influence(
    propagation: Propagation,
    weight: Tensor | float = 1.0,
    gamma: float = 0.8,
    scale: int = 1,
    nodes: Tensor | None = None,
    *,
    norm: str = "spectral",
    tol: float = 1e-12,
) -> Tensor:
    r"""Returns :math:`\|\partial z_q / \partial b_p\|` of :math:`Z = \gamma P^m Z W + B`.

    Args:
        propagation (Propagation): The operator :math:`P`.
        weight (Tensor or float, optional): The symmetric weight :math:`W`, or its eigenvalue if
            it is a multiple of the identity. (default: :obj:`1.0`)
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
        nodes (Tensor, optional): The influenced nodes :math:`q`; all nodes if :obj:`None`.
            (default: :obj:`None`)
        norm (str, optional): ``"spectral"``, the largest change of :math:`z_q` for a change of
            :math:`b_p` of size one, or ``"frobenius"``, that is,
            :math:`(\sum_j R_j[q, p]^2)^{1/2}`. (default: ``"spectral"``)
        tol (float, optional): Accuracy of the entries, see :func:`resolvent_rows`.
            (default: :obj:`1e-12`)

    Shapes:
        - **weight:** ``(channels, channels)``
        - **nodes:** ``(count,)``
        - **output:** ``(count, num_nodes)``, float64; row :math:`q`, column :math:`p`
    """
    nodes = torch.arange(propagation.num_nodes) if nodes is None else nodes
    found = list(influence_blocks(propagation, weight, gamma, scale, nodes, norm=norm, tol=tol))
    if not found:
        return torch.empty(0, propagation.num_nodes, dtype=torch.float64)
    return torch.cat([rows for _, rows in found])


def influence_blocks(
    propagation: Propagation,
    weight: Tensor | float,
    gamma: float,
    scale: int,
    nodes: Tensor,
    *,
    norm: str = "spectral",
    tol: float = 1e-12,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the rows of :func:`linear_influence` in blocks that fit into memory.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor or float): The weight, or its eigenvalue.
        gamma (float): The factor.
        scale (int): The scale.
        nodes (Tensor): The influenced nodes.
        norm (str, optional): See :func:`linear_influence`. (default: ``"spectral"``)
        tol (float, optional): See :func:`resolvent_rows`. (default: :obj:`1e-12`)

    Yields:
        Some of the nodes, and their rows, shape ``(count, num_nodes)``.
    """
    check_choice("norm", norm, NORMS)
    check_scale(scale)
    values = _eigenvalues(weight)
    positive = bool((values >= 0).all()) and bool((propagation.values >= 0).all())
    if norm == "spectral" and positive:  # the largest eigenvalue has the largest entries
        values = values.max().unsqueeze(0)
    factor = check_gamma(gamma)
    resolvents = [Resolvent(factor * value, scale) for value in values.tolist()]
    table, polynomials = _coefficients(propagation, resolvents, tol)
    if norm == "frobenius":
        # Any rotation of the columns keeps the sum of squares; few singular values matter.
        left, size, _ = torch.linalg.svd(table, full_matrices=False)
        kept = size > NOISE * size[0]
        table = (left * size)[:, kept]
    for some, rows in _sweeps(
        propagation, table, polynomials, check_nodes(nodes, propagation.num_nodes)
    ):
        if norm == "frobenius":
            yield some, torch.linalg.vector_norm(rows, dim=0)
        else:
            yield some, rows.abs().amax(0)


def _eigenvalues(weight: Tensor | float) -> Tensor:
    if not isinstance(weight, Tensor):
        return torch.tensor([float(weight)], dtype=torch.float64)
    matrix = weight.detach().double().cpu()
    square = matrix.dim() == 2 and matrix.size(0) == matrix.size(1)
    if not square or not torch.allclose(matrix, matrix.mT, rtol=1e-5, atol=1e-7):
        raise ArgumentError(
            f"'weight' must be a symmetric matrix or a number (got shape {tuple(matrix.shape)}); "
            "for other models use mgnni.range.jacobian_influence"
        )
    values: Tensor = torch.linalg.eigvalsh((matrix + matrix.mT) / 2)
    # g(F) is positive semidefinite; a negative eigenvalue of it is rounding.
    size = float(values.abs().max())
    return torch.where(values.abs() < 1e-6 * size, values.clamp(min=0), values)


def _coefficients(
    propagation: Propagation, resolvents: Sequence[Resolvent], tol: float
) -> tuple[Tensor, bool]:
    """Returns the coefficients of all resolvents, and whether they are of Chebyshev type."""
    check_options(tol, None)
    bound = propagation.norm_bound
    for one in resolvents:
        check_contraction(abs(one.mu) * bound**one.scale)
    expand = chebyshev if propagation.symmetric else neumann
    columns = []
    for one in resolvents:
        weights = Weights(torch.full((1, 1, 1), one.mu, dtype=torch.float64))
        equations = Equations(propagation, (one.scale,), 1.0, weights)
        expansion: Expansion = expand(equations, tol, MANY)
        k = torch.arange(int(expansion.degree.max()) + 1).unsqueeze(1)
        columns.append(expansion.coefficient(k).squeeze(1))
    table = torch.zeros(max(map(len, columns)), len(columns), dtype=torch.float64)
    for place, column in enumerate(columns):
        table[: len(column), place] = column
    return table, propagation.symmetric


def _sweeps(
    propagation: Propagation, table: Tensor, polynomials: bool, nodes: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields nodes and their rows, shape ``(columns, count, num_nodes)``, block by block."""
    operator = propagation.double().to("cpu").adjoint()
    per_node = operator.num_nodes * (table.size(1) + TERMS + 4)
    size = max(min(NUMBERS // max(per_node, 1), 2 * PANEL), 1)
    for some in torch.split(nodes, size):
        if some.numel():
            yield some, _sweep(operator, table, polynomials, some)


def _sweep(operator: Propagation, table: Tensor, polynomials: bool, nodes: Tensor) -> Tensor:
    """Returns the sum of all terms, starting from the unit vectors of some nodes."""
    count, width = operator.num_nodes, nodes.numel()
    total = torch.zeros(table.size(1), count * width, dtype=torch.float64)
    kept = torch.empty(TERMS, count, width, dtype=torch.float64)  # the last terms, in a ring
    kept[0].zero_()
    kept[0, nodes.cpu(), torch.arange(width)] = 1.0
    bound = operator.norm_bound or 1.0
    for k in range(table.size(0)):
        place = k % TERMS
        if k:
            first, second = recurrence(k, polynomials, bound)
            if second:
                kept[place] = kept[(k - 2) % TERMS]
            operator.multiply_into(kept[place], kept[(k - 1) % TERMS], first, second)
        if place == TERMS - 1 or k == table.size(0) - 1:
            some = table[k - place : k + 1]
            used = some.ne(0).any(1)  # in powers of P^m, many terms have no coefficient
            chosen = kept[: place + 1] if bool(used.all()) else kept[: place + 1][used]
            total.addmm_(some[used].mT, chosen.reshape(len(chosen), count * width))
    return total.view(-1, count, width).transpose(1, 2)
