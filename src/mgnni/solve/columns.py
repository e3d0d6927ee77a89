r"""Solves with little memory: one equation after another, a few columns at a time.

With :math:`W = Q \Lambda Q^{\top}`, the columns of :math:`Z Q` do not depend on each other. So they
are solved, and their residual is measured, in panels of :data:`COLUMNS` columns, and the memory
besides bias, states and one residual does not grow with the number of channels or scales. The
result is the same as that of :mod:`mgnni.solve.sweep`, up to rounding.

A bias of unusual size, such as the gradient of a mean over many nodes, is multiplied by a power of
two where it is read, because a scaled copy would be as large as the states.

With ``memory="half"`` the vectors of a sweep are stored as float16, and sums are accumulated in
float32. A sweep then leaves a residual of about a thousandth, which further sweeps reduce. The
residual is measured in full precision at the returned states, so that the certificate includes the
rounding of what was stored.

The loop of corrections is not that of :mod:`mgnni.solve.refine`. There is one equation on one graph
at a time, the states are corrected in place, and a residual is freed before the next one is
measured, so a correction cannot be taken back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.graph.half import multiply_half_into
from mgnni.graph.propagation import Propagation
from mgnni.solve.certify import certified_norms
from mgnni.solve.equation import Equations
from mgnni.solve.expansion import Expansion
from mgnni.solve.fixed_point import sufficient_steps
from mgnni.solve.plan import Plan, full_precision
from mgnni.solve.refine import GAIN, NEAR, ROUNDS, SHARE, units_of
from mgnni.solve.result import Options, Solution
from mgnni.solve.scratch import scratch
from mgnni.solve.sweep import SMALL, Series, add_terms_of, evaluate, shaped
from mgnni.solve.weights import Weights

COLUMNS = 8  # per panel: rows of 32 bytes, the least that a GPU reads at a time
ROWS = 2**20  # rows that are converted to float64 at a time
STORED = torch.float16  # of the vectors of a sweep with memory="half"
COARSE = 0.01  # relative residual that a sweep with stored float16 vectors aims at


class Found(NamedTuple):
    """What was measured at the states of one equation."""

    numbers: Tensor  # shape: (3,), residual, reference and error bound, float64, on the CPU
    residual: Tensor  # shape: (num_nodes, channels)

    @property
    def relative(self) -> float:
        """Residual over reference; zero if both vanish."""
        residual, reference = self.numbers[:2].tolist()
        return 0.0 if residual == 0 else float(residual / reference) if reference else torch.inf


class ColumnPlan(Plan):
    """Solves in panels of columns, and corrects until the residual meets the tolerance.

    Args:
        equations (Equations): The equations of one graph; all weights symmetric.
        options (Options): How to solve them.
        method (type[Series]): The expansion, of the Neumann series or of Chebyshev polynomials.
    """

    synchronises = True

    def __init__(self, equations: Equations, options: Options, method: type[Series]) -> None:
        super().__init__(equations, options)
        self.method = method

    def adjoint(self) -> ColumnPlan:
        """Returns the plan for the adjoint equations; itself if the operator is symmetric."""
        adjoint = self.equations.adjoint()
        if adjoint is self.equations:
            return self
        return ColumnPlan(adjoint, self.options, self.method)

    @torch.no_grad()
    def solve(self, bias: Tensor, start: Tensor | None = None, deferred: bool = False) -> Solution:
        """Solves the equations; see :meth:`Plan.solve`. Returns no :math:`P^m Z`."""
        empty = self.empty(bias, self.method.name)
        if empty is not None:
            return empty
        z = torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)
        numbers = []
        with full_precision(bias.device):
            for index in range(len(bias)):
                solver = _OneEquation(self.equations[index], self.options, self.method)
                begin = None if start is None else start[index]
                numbers.append(solver.solve(bias[index], z[index], begin))
        contractions = torch.tensor(self.equations.contractions, dtype=torch.float64)
        table = torch.stack([one[0] for one in numbers], 1)  # shape: (4, equations)
        table = torch.cat([table[:3], contractions.unsqueeze(0), table[3:]]).unsqueeze(-1)
        exhausted = tuple(one[1] for one in numbers)
        return Solution(z, z.new_empty(0), self.records(z, table, self.method.name, exhausted))


class _OneEquation:
    """Solves one equation in panels of columns."""

    def __init__(self, equation: Equations, options: Options, method: type[Series]) -> None:
        self.options = options
        weights = replace(equation.weights, exact=True)  # eigenvectors orthogonal to rounding
        self.equation = replace(equation, weights=weights)
        self.method = method(self.equation)
        self.scale, self.operator = equation.scales[0], equation.operator
        pairs = self.equation.weights.eigenpairs
        exact = Weights(weights.tensor.double(), weights.psd_norm, exact=True).eigenpairs
        self.values, self.exact_vectors = pairs.values[0], exact.vectors[0]
        self.vectors = self.exact_vectors.to(weights.tensor.dtype)
        self.half = options.memory == "half" and weights.tensor.dtype is torch.float32
        self.factor = 1.0  # of the bias, a power of two

    def solve(self, bias: Tensor, z: Tensor, start: Tensor | None) -> tuple[Tensor, bool]:
        """Writes the states into ``z``; returns three norms and the iterations, and exhaustion."""
        units = units_of(self.operator, bias.unsqueeze(0))
        least = 16 * torch.finfo(bias.dtype).tiny  # whose inverse is finite
        unit = 1.0 if units is None else min(max(float(units), least), 1 / least)
        self.factor = 1 / unit
        found, steps, exhausted = self._refine(bias, z, start)
        numbers = found.numbers * unit
        if unit != 1:
            z.mul_(unit)
            if not bool(z.sum().isfinite()):
                numbers[0] = torch.nan
        return torch.cat([numbers, torch.tensor([float(steps)]).double()]), exhausted

    def _refine(self, bias: Tensor, z: Tensor, start: Tensor | None) -> tuple[Found, int, bool]:
        tol, worst = self.options.tol, self.equation.contractions[0]
        sufficient = sufficient_steps(worst, tol, self.operator.num_nodes)
        budget = self.options.max_iter or self.method.budget(sufficient)
        steps, exhausted, double = 0, False, bias.dtype is torch.float64
        found = None
        if start is not None:
            found = self._measure(bias, torch.mul(start, self.factor, out=z), double)
        if found is None or not found.relative < NEAR:  # start from zero
            z.zero_()
            found = Found(torch.tensor([1.0, 1.0, torch.inf]).double(), bias)
        # A residual below the rounding of its own evaluation says nothing.
        double = double or tol < torch.finfo(bias.dtype).eps / 2
        for number in range(ROUNDS):
            before = found.relative
            if before <= tol or not before < torch.inf or exhausted:
                break
            # Relative to a correction, which may exceed its right-hand side by 1 / (1 - L).
            target = SHARE * tol / before * (1 - worst if number or start is not None else 1)
            target = max(target, COARSE if self.half else GAIN * (1 - worst) if number else 0)
            factor = self.factor if found.residual is bias else 1.0
            left = max(budget - steps, 1)
            taken, exhausted = self._add((found.residual, factor), z, target, left)
            steps += taken
            del found  # frees its residual before the next one is computed
            found = self._measure(bias, z, double)
            if not double and found.relative > tol and not (self.half and number < 2):
                double, found = True, self._measure(bias, z, True)
            if number and found.relative > before / 2:
                if not self.half:
                    break
                self.half = False
        return found, steps, exhausted

    def _add(
        self, given: tuple[Tensor, float], z: Tensor, tol: float, max_iter: int
    ) -> tuple[int, bool]:
        """Adds the solution for a right-hand side and its factor to ``z``; returns iterations."""
        right, factor = given
        operator, expansion = self.operator, self.method.expand(tol, max_iter)
        z.add_(right, alpha=factor)
        steps, nodes = 0, right.size(0)
        with scratch(right) as take:
            memory = [take(nodes * COLUMNS)]
            for panel in torch.split(torch.argsort(expansion.degree, descending=True), COLUMNS):
                basis = self.vectors[:, panel.to(self.vectors.device)]
                total = shaped(memory[0], nodes, len(panel))
                taken = int(expansion.degree[panel].max())
                if self.half:
                    torch.mm(right, basis * factor, out=total)
                    # If not, the numbers exceed the range of float16.
                    self.half = sum_in_half(operator, expansion, panel, total)
                if not self.half:
                    # A kernel computes a term in one pass, without memory for the product.
                    kernel = operator.pattern.lines.fit(operator.values, total)
                    memory += [take(nodes * COLUMNS) for _ in range(4 - kernel - len(memory))]
                    c, before = (shaped(one, nodes, len(panel)) for one in memory[1:3])
                    torch.mm(right, basis * factor, out=c)
                    if kernel:
                        add_terms_of(operator, expansion, panel, (total, c, before))
                    else:
                        scale = self.scale if nodes * len(self.values) > SMALL else 0
                        taken = evaluate(operator, expansion, panel, memory, scale)
                steps = max(steps, taken)
                z.addmm_(total, basis.mT)
        return int(self.method.iterations(torch.tensor([[steps]]))), expansion.truncated

    def _measure(self, bias: Tensor, z: Tensor, double: bool) -> Found:
        """Measures the residual at ``z``, in float64 if asked for."""
        exact = double and z.dtype is not torch.float64
        dtype = torch.float64 if double else z.dtype
        operator = self.operator.double() if double else self.operator
        residual = torch.zeros_like(z) if exact else torch.mul(bias, self.factor).sub_(z)
        values = (self.equation.gamma * self.values).to(z.device, dtype)
        vectors = self.exact_vectors.to(dtype)
        one, other = torch.empty(2, z.size(0) * COLUMNS, dtype=dtype, device=z.device)
        for panel in torch.split(torch.arange(z.size(1)), COLUMNS):
            basis = vectors[:, panel.to(vectors.device)]
            x, out = (shaped(some, len(z), len(panel)) for some in (one, other))
            if exact:
                _product(z, basis, x)
            else:
                torch.mm(z, basis, out=x)
            for _ in range(self.scale):
                x, out = operator.multiply_into(out, x), x
            x.mul_(values[panel.to(values.device)])
            if exact:
                _product(bias, basis * self.factor, out)
                _product(z, -basis, x, beta=1)
                x.add_(out)
            residual.addmm_(x.to(z.dtype), basis.to(z.dtype).mT)
        del one, other, x, out  # the norms need memory too
        # Twice, because there is a product with Q before and after that with the operator.
        unit = torch.finfo(dtype).eps
        parts = (
            torch.linalg.vector_norm(self.factor * one, dim=1) for one in torch.split(bias, ROWS)
        )
        right = torch.cat(list(parts)).unsqueeze(1)  # a column with the same norms of rows
        right, states, rest = (one.unsqueeze(0) for one in (right, z, residual))
        numbers = certified_norms(self.equation, right, states, rest, unit).cpu().view(3)
        if exact:  # the residual itself was rounded at the end
            numbers[::2] *= 1 + 64 * torch.finfo(z.dtype).eps
        return Found(numbers, residual)


def _product(rows: Tensor, basis: Tensor, out: Tensor, beta: int = 0) -> None:
    """Writes (or adds) the product with a basis in float64, converting some rows at a time."""
    for part, result in zip(torch.split(rows, ROWS), torch.split(out, ROWS), strict=True):
        result.addmm_(part.to(basis.dtype), basis, beta=beta)


def sum_in_half(operator: Propagation, expansion: Expansion, columns: Tensor, c: Tensor) -> bool:
    """Overwrites right-hand sides with the change of an expansion, with terms stored as float16.

    Args:
        operator (Propagation): The operator.
        expansion (Expansion): The expansions of all columns.
        columns (Tensor): The columns to process.
        c (Tensor): The right-hand sides. They are divided by their largest absolute value before
            they are rounded.

    Shapes:
        - **columns:** ``(columns,)``
        - **c:** ``(num_nodes, columns)``

    Returns:
        bool: Whether all terms were within the range of float16. If not, ``c`` is lost.
    """
    highest = int(expansion.degree[columns].max())
    low, high = c.aminmax()
    size = max(float(high), -float(low)) or 1.0
    now = c.div_(size).to(STORED)
    before = torch.empty_like(now)
    coefficient = expansion.terms(columns, c)
    c.mul_(size * coefficient(0) - size)
    for k in range(1, highest + 1):
        before, now = now, multiply_half_into(operator, before, now, *expansion.step(k))
        c.addcmul_(now, size * coefficient(k))
    return bool(c.sum().isfinite())
