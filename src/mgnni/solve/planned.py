r"""Solving on an accelerator without a look at any number on the way.

For :math:`W = g(F)` it is known beforehand that :math:`W` is symmetric, positive semidefinite and
:math:`\|W\|_F \le 1`. So the number of terms that suffices is known too, and nothing that the host
does depends on what the device computes: eigenpairs, coefficients, the sweep, the residual and the
certificate are launched one after another, and read when somebody asks. Columns whose eigenvalues
need fewer terms leave the sweep early, which the device decides for itself.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.kernels import launches
from mgnni.kernels.nvrtc import why_not
from mgnni.solve.certify import constants, rounding_factors, to_frobenius
from mgnni.solve.result import SolveStats, Status

if TYPE_CHECKING:
    from mgnni.solve.equation import Equations
    from mgnni.solve.operator import Operator

LARGEST = 2**25  # numbers in the states of all equations; past them launches cost nothing
MOST_ENTRIES = 2**24  # of the operator
SHARE = 0.5  # of the tolerance, to which the series are cut off; rounding takes the rest


def can_plan(equations: Equations) -> bool:
    """Whether it is known of equations beforehand how far to go, and where they are has kernels."""
    bias, operator = equations.bias, equations.operator
    return (
        bias.device.type == "cuda"
        and bias.dtype is torch.float32
        and equations.weights.normed
        and 0 < bias.numel() <= LARGEST
        and why_not() is None
        and equations.gamma * max(equations.step_bounds) < 0.999
        and 0 < operator.pattern.nnz <= MOST_ENTRIES
        and launches.has_room(
            operator.pattern.rows,
            len(equations) * launches.padded(equations.channels),
            bias.device,
        )
    )


def fits(equations: Equations, solver: str) -> bool:
    """Whether equations can be solved so; if not, they are solved as everywhere else."""
    sweeps = "chebyshev" if equations.operator.symmetric else "series"
    return (
        solver in ("auto", sweeps)
        and can_plan(equations)
        and max(equations.scales) <= launches.MOST_ROOTS
        and equations.channels <= launches.widest(equations.bias.device)
    )


@dataclass(eq=False)
class Pending:
    """Records of solves that nobody has asked for yet; they are still on the device.

    Attributes:
        numbers: residual norm, reference, error bound, contraction constant and iterations;
            shape ``(5, equations, graphs)``, float64.
        scales: of the equations.
        norm: the kind of norm in which they contract.
        tol: the tolerance.
        solver: the solver.
        digits: residuals up to this are one of last digits only.
    """

    numbers: Tensor
    scales: tuple[int, ...]
    norm: str
    tol: float
    solver: str
    digits: float

    def records(self, numbers: Tensor | None = None) -> tuple[SolveStats, ...]:
        """Return one record an equation; ``numbers`` are those on the host, if they are there."""
        numbers = self.numbers.cpu() if numbers is None else numbers
        return tuple(self._record(i, one) for i, one in enumerate(numbers.unbind(1)))

    def _record(self, index: int, numbers: Tensor) -> SolveStats:
        residual, reference, bound, contraction, steps = numbers.unbind()
        over = torch.where(residual == 0, residual, residual / reference)
        small = (over <= self.tol) | (residual <= self.digits)
        finite = bool(residual.isfinite().all())
        status = Status.STAGNATED if finite else Status.NOT_FINITE
        return SolveStats(
            residual=float(residual.max()),
            relative_residual=float(over.max()),
            iterations=int(steps.max()) if finite else 0,
            status=Status.CONVERGED if bool(small.all()) else status,
            error_bound=float(bound.max()),
            relative_error_bound=float(torch.where(bound == 0, bound, bound / reference).max()),
            contraction=float(contraction.max()),
            norm=self.norm,
            tol=self.tol,
            solver=self.solver,
            scale=self.scales[index],
            graph_relative_residual=over,
            graph_error_bound=bound,
            graph_iterations=steps.nan_to_num().long(),
        )


@lru_cache(maxsize=64)
def _terms(scales: tuple[int, ...], gamma: float, bound: float, tol: float, chebyshev: bool) -> int:
    """How many terms suffice for any eigenvalue up to one."""
    most = 0
    for m in set(scales):
        rate = gamma * bound**m
        if rate <= 0:
            continue
        if not chebyshev:
            most = max(most, m * math.ceil(math.log(tol) / math.log(rate)))
            continue
        slowest, tail = 0.0, 0.0
        for r in range(m):
            root = rate ** (1 / m) * complex(
                math.cos(2 * math.pi * r / m), math.sin(2 * math.pi * r / m)
            )
            square = (1 - root * root) ** 0.5
            rho = abs(root / (1 + square))
            slowest, tail = max(slowest, rho), tail + abs(2 / (m * square)) / (1 - rho)
        most = max(most, math.ceil(math.log(tol / 2 / tail) / math.log(slowest)))
    return most + max(scales) + 1  # a little more, as the norm of W is one up to rounding


@lru_cache(maxsize=64)
def _on_device(scales: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(scales, dtype=torch.int32, device=device)


@lru_cache(maxsize=64)
def _hops(scales: tuple[int, ...], wide: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The polynomials that are the powers :math:`P^m` themselves."""
    scale = torch.tensor(scales).repeat_interleave(wide)
    coefficient = (torch.arange(max(scales) + 1).unsqueeze(1) == scale).float()
    return coefficient.to(device), scale[:: launches.COLUMNS].int().to(device)


_norms: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _norm_of(operator: Operator) -> dict[str, Any]:
    """What the certificate needs of an operator, made once."""
    if operator not in _norms:
        weight = operator.norm.weight
        _norms[operator] = {
            "batch": operator.batch,
            "num_graphs": max(operator.num_graphs, 1),
            "weight": None if weight is None else weight.double().contiguous(),
            "largest": operator.norm.kind == "max",
            "turned": to_frobenius(operator),
        }
    return _norms[operator]


def solve_planned(equations: Equations, tol: float) -> tuple[Tensor, Tensor, Pending]:
    """Return the states, :math:`P^m Z` at them, and the records to come."""
    operator, scales, gamma = equations.operator, equations.scales, equations.gamma
    count, (nodes, h) = len(equations), equations.bias.shape[1:]
    wide = launches.padded(h)
    pattern = operator.pattern
    chebyshev = operator.symmetric
    bound = operator.norm_bound if chebyshev else 1.0

    shared = equations.shared_bias
    bias = (equations.bias[:1] if shared else equations.bias).contiguous()
    eigenvalues, vectors = equations.weights.planned_pairs
    key = (gamma, operator.norm_bound, SHARE * tol)
    known, name = equations.weights.polynomials, ("planned", *key, scales, chebyshev)
    if name not in known:  # the adjoint equations have the same
        known[name] = launches.table(
            eigenvalues,
            _on_device(scales, bias.device),
            _terms(scales, *key, chebyshev),
            chebyshev=chebyshev,
            gamma=gamma,
            bound=operator.norm_bound,
            tol=SHARE * tol,
        )
    table: launches.Table = known[name]
    # Columns stand by the rank of their eigenvalues, those of all equations side by side: slow
    # ones share a group, and the others leave early.
    if shared:
        columns = bias[0] @ vectors.permute(1, 2, 0).reshape(h, wide * count)
    else:
        columns = torch.bmm(bias, vectors).permute(1, 2, 0).reshape(nodes, wide * count)
    total = launches.sweep(
        pattern.rows,
        pattern.col,
        operator.values.detach(),
        columns,
        table.coefficient,
        table.degree,
        chebyshev=chebyshev,
        bound=bound or 1.0,
    )
    z = torch.bmm(total.view(nodes, wide, count).permute(2, 0, 1), vectors.mT)

    solver = "chebyshev" if chebyshev else "series"
    return certify(equations, z, bias, (eigenvalues, table.needed), tol, solver)


def certify(
    equations: Equations,
    z: Tensor,
    bias: Tensor,  # one, or as many as equations
    known: tuple[Tensor, Tensor],  # eigenvalues of the weights, the largest first; iterations
    tol: float,
    name: str,
) -> tuple[Tensor, Tensor, Pending]:
    """Measure the residual at ``z``; return the states, :math:`P^m Z`, and the records to come."""
    operator, scales, gamma = equations.operator, equations.scales, equations.gamma
    count, nodes, h = z.shape
    wide = launches.padded(h)
    pattern, values = operator.pattern, operator.values.detach()
    side = torch.nn.functional.pad(z, (0, wide - h)) if wide > h else z
    columns = side.permute(1, 0, 2).reshape(nodes, -1)
    powers = _hops(scales, wide, z.device)
    hop = launches.sweep(pattern.rows, pattern.col, values, columns, *powers)
    hop = hop.view(nodes, count, wide).permute(1, 0, 2)[..., :h]
    weight = equations.weights.tensor
    residual = torch.baddbmm(bias.expand(count, nodes, h), hop, weight, alpha=gamma).sub_(z)
    numbers = launches.certificates(
        residual,
        z,
        bias,
        *known,
        steps=constants(tuple(gamma * one for one in equations.step_bounds), z.device),
        factors=constants(tuple(rounding_factors(equations)), z.device),
        **_norm_of(operator),
    )
    info = torch.finfo(bias.dtype)
    digits = 4 * info.smallest_normal * info.eps * (nodes * h) ** 0.5
    return z, hop, Pending(numbers, scales, operator.norm.kind, tol, name, digits)
