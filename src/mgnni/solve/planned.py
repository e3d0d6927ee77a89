r"""Solving on an accelerator with hardly a look at any number on the way.

For :math:`W = g(F)` it is known beforehand that :math:`W` is symmetric, positive semidefinite and
:math:`\|W\|_F \le 1`. So the number of terms that suffices is known too, and nothing that the host
does depends on what the device computes: eigenpairs, coefficients, the sweep, the residual and the
certificate are launched one after another, and read when somebody asks. Columns whose eigenvalues
need fewer terms leave the sweep early, which the device decides for itself. Only large
equations and wide weights are looked at, once.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mgnni.kernels import launches
from mgnni.kernels.nvrtc import why_not
from mgnni.solve.certify import rounding_factors, to_frobenius
from mgnni.solve.planned_large import by_degree, sweep_by_terms
from mgnni.solve.result import SolveStats, Status
from mgnni.solve.weights import WIDE

if TYPE_CHECKING:
    from mgnni.solve.equation import Equations

LARGEST = 2**25  # numbers in the states of all equations, past which launches cost nothing
MOST_ENTRIES = 2**24  # of the operator, likewise
SHARE = 0.5  # of the tolerance, to which the series are cut off; rounding takes the rest


def can_plan(equations: Equations) -> bool:
    """Whether it is known of equations beforehand how far to go, and where they are has kernels."""
    bias = equations.bias
    return (
        bias.device.type == "cuda"
        and bias.dtype is torch.float32
        and equations.weights.normed
        and bias.numel() > 0
        and why_not() is None
        and equations.gamma * max(equations.step_bounds) < 0.999
        and equations.operator.pattern.nnz > 0
    )


def at_once(equations: Equations) -> bool:
    """Whether equations are small enough for a whole sweep in one launch."""
    bias, pattern = equations.bias, equations.operator.pattern
    width = len(equations) * launches.padded(equations.channels)
    return (
        bias.numel() <= LARGEST
        and pattern.nnz <= MOST_ENTRIES
        and launches.has_room(pattern.rows, width, bias.device)
    )


def unseen(equations: Equations) -> bool:
    """Whether equations that can be planned are solved without a look at any number.

    Others are looked at once: larger ones at how far each column goes, so that no more is moved
    than has to be, and wide weights by whoever finds their eigenpairs.
    """
    return at_once(equations) and equations.channels <= launches.widest(equations.bias.device)


def fits(equations: Equations, solver: str) -> bool:
    """Whether equations can be solved so; if not, they are solved as everywhere else."""
    sweeps = "chebyshev" if equations.operator.symmetric else "series"
    return (
        solver in ("auto", sweeps)
        and can_plan(equations)
        and max(equations.scales) <= launches.MOST_ROOTS
        and equations.channels <= WIDE
        and (at_once(equations) or equations.operator.pattern.lines.usable)
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
        residual, reference, bound, contraction, steps = (
            self.numbers.cpu() if numbers is None else numbers
        )
        over = torch.where(residual == 0, residual, residual / reference)
        relative = torch.where(bound == 0, bound, bound / reference)
        met = ((over <= self.tol) | (residual <= self.digits)).all(-1).tolist()
        found = [residual, over, bound, relative, contraction, steps]
        worst = torch.stack(found).amax(-1).T.tolist()
        counts = steps.nan_to_num().long()
        return tuple(
            SolveStats(
                residual=one[0],
                relative_residual=one[1],
                iterations=int(one[5]) if math.isfinite(one[0]) else 0,
                status=_status(met[i], one[0]),
                error_bound=one[2],
                relative_error_bound=one[3],
                contraction=one[4],
                norm=self.norm,
                tol=self.tol,
                solver=self.solver,
                scale=self.scales[i],
                graph_relative_residual=over[i],
                graph_error_bound=bound[i],
                graph_iterations=counts[i],
            )
            for i, one in enumerate(worst)
        )


def _status(met: bool, residual: float) -> Status:
    if met:
        return Status.CONVERGED
    return Status.STAGNATED if math.isfinite(residual) else Status.NOT_FINITE


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


@cache  # as a recorded pass reads it, it is never let go
def _on_device(scales: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(scales, dtype=torch.int32, device=device)


@cache
def _hops(scales: tuple[int, ...], wide: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The polynomials that are the powers :math:`P^m` themselves."""
    scale = torch.tensor(scales).repeat_interleave(wide)
    coefficient = (torch.arange(max(scales) + 1).unsqueeze(1) == scale).float()
    return coefficient.to(device), scale[:: launches.COLUMNS].int().to(device)


_norms: weakref.WeakKeyDictionary[Any, dict[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()


def _norm_of(equations: Equations) -> dict[str, Any]:
    """What the certificate needs of equations over an operator, made once, kept as long as it."""
    operator, gamma = equations.operator, equations.gamma
    known = _norms.setdefault(operator, {})
    factors = rounding_factors(equations)
    key = (equations.scales, gamma, *factors)
    if key not in known:
        weight, device = operator.norm.weight, equations.bias.device
        steps = [gamma * one for one in equations.step_bounds]
        with torch.inference_mode(False):
            numbers = torch.tensor([steps, factors], dtype=torch.float64, device=device)
        known[key] = {
            "batch": operator.batch,
            "num_graphs": max(operator.num_graphs, 1),
            "weight": None if weight is None else weight.double().contiguous(),
            "largest": operator.norm.kind == "max",
            "turned": to_frobenius(operator),
            "steps": numbers[0],
            "factors": numbers[1],
        }
    return known[key]


def _apart(equations: Equations) -> bool:
    """Whether every equation has a scale, and a width in whole loads, for a product of its own."""
    return len(set(equations.scales)) == len(equations) and equations.channels % 4 == 0


def _swept_hop(equations: Equations, z: Tensor) -> Tensor:
    """As :meth:`Equations.hop`, for all equations in one launch."""
    count, nodes, h = z.shape
    wide = launches.padded(h)
    pattern, values = equations.operator.pattern, equations.operator.values.detach()
    side = torch.nn.functional.pad(z, (0, wide - h)) if wide > h else z
    columns = side.permute(1, 0, 2).reshape(nodes, -1)
    powers = _hops(equations.scales, wide, z.device)
    hop = launches.sweep(pattern.rows, pattern.col, values, columns, *powers)
    return hop.view(nodes, count, wide).permute(1, 0, 2)[..., :h]


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
    if unseen(equations) or not pattern.lines.usable:
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
    else:
        order = known.get((name, "by degree"))
        if order is None:
            order = known[name, "by degree"] = by_degree(table)
        z = sweep_by_terms(equations, bias, vectors, order, bound or 1.0)

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
    swept = at_once(equations) and not (_apart(equations) and operator.pattern.lines.usable)
    hop = _swept_hop(equations, z) if swept else equations.hop(z)
    weight = equations.weights.tensor
    residual = torch.baddbmm(bias.expand(count, nodes, h), hop, weight, alpha=gamma).sub_(z)
    numbers = launches.certificates(residual, z, bias, *known, **_norm_of(equations))
    info = torch.finfo(bias.dtype)
    digits = 4 * info.smallest_normal * info.eps * (nodes * h) ** 0.5
    return z, hop, Pending(numbers, scales, operator.norm.kind, tol, name, digits)
