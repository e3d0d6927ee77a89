"""An expansion in the operator by CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import torch
from torch import Tensor

from mgnni.kernels import launches
from mgnni.kernels.terms import add_terms
from mgnni.solve.core import CoreEquations
from mgnni.solve.device import SHARE, DevicePlan, Launched, constant, fits_one_launch
from mgnni.solve.equation import Equations, one_if_shared
from mgnni.solve.expansion import recurrence, sufficient_terms
from mgnni.solve.plan import Plan
from mgnni.solve.result import Options
from mgnni.solve.weights import WIDE

# Multiply-adds that a core must save in every product to be worth the additional launches.
SAVED = 2**24


def worthwhile_core(equations: Equations) -> CoreEquations | None:
    """Returns the equations of the core, if solving these takes much less time."""
    operator = equations.operator
    width = len(equations) * launches.padded(equations.channels)
    if operator.pattern.nnz * width < SAVED or operator.core is None:
        return None
    left = operator.core.inner.pattern.nnz
    if left == 0 or (operator.pattern.nnz - left) * width < SAVED:
        return None
    return CoreEquations(equations, operator.core)


def _swept(equations: Equations) -> Equations:
    """Returns the equations that the kernels solve: those of the core, or all."""
    core = worthwhile_core(equations)
    return equations if core is None else core.inner


def fits(equations: Equations, options: Options) -> bool:
    """Whether :class:`DeviceSweep` can solve equations that have kernels."""
    swept = _swept(equations)
    sweeps = "chebyshev" if equations.operator.symmetric else "series"
    return (
        options.solver in ("auto", sweeps)
        and max(equations.scales) <= launches.MOST_ROOTS
        and equations.channels <= WIDE
        and (fits_one_launch(swept) or swept.operator.pattern.lines.usable)
    )


def synchronises(equations: Equations) -> bool:
    """Whether the host has to read degrees or eigenpairs."""
    widest = launches.widest(equations.weights.tensor.device)
    return not (fits_one_launch(_swept(equations)) and equations.channels <= widest)


class DeviceExpansion:
    """Eigenpairs of the weights and coefficients of all columns, on the device.

    The adjoint equations have the same.

    Args:
        equations (Equations): The equations.
        tol (float): Residual that the truncation may leave.
        basis (Tensor): Eigenvectors of similar weights to start from; overwritten.

    Shapes:
        - **basis:** ``(equations, channels * channels + 1)``, float64
    """

    def __init__(self, equations: Equations, tol: float, basis: Tensor) -> None:
        self.weights, self.scales, self.gamma = equations.weights, equations.scales, equations.gamma
        self.bound, self.chebyshev = equations.operator.norm_bound, equations.operator.symmetric
        self.tol, self.basis = tol, basis
        # Kept here, because a recorded CUDA graph reads it.
        self.device_scales = constant(self.scales, torch.int32, self.weights.tensor.device)

    @cached_property
    def eigenpairs(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(equations, padded)`` and vectors ``(equations, channels, padded)``."""
        return self.weights.device_eigenpairs(self.basis)

    @cached_property
    def table(self) -> launches.Table:
        """Coefficients and degrees of all columns."""
        scales, gamma, bound, tol = self.scales, self.gamma, self.bound, self.tol
        return launches.table(
            self.eigenpairs[0],
            self.device_scales,
            sufficient_terms(scales, gamma, bound, tol, self.chebyshev),
            chebyshev=self.chebyshev,
            gamma=gamma,
            bound=bound,
            tol=tol,
        )

    @cached_property
    def by_degree(self) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """Coefficients by falling degree, that order, its inverse, and columns per term.

        Reads the degrees from the device.
        """
        table = self.table
        width, equations = table.columns.numel(), table.needed.numel()
        ranked = torch.arange(width).view(-1, equations).T.flatten()  # equation by equation
        degrees = table.columns.cpu()[ranked]
        place = torch.argsort(degrees, descending=True, stable=True)
        widths: list[int] = torch.bincount(degrees).flip(0).cumsum(0).flip(0).tolist()
        sent = torch.stack([place, torch.argsort(place), ranked[place]]).to(table.columns.device)
        return table.coefficient.index_select(1, sent[2]), sent[0], sent[1], widths


class DeviceSweep(DevicePlan):
    """Expansion in the operator: in one launch, or term by term on large graphs.

    Args:
        equations (Equations): The equations.
        options (Options): How to solve them.
        fallback (Callable): See :class:`DevicePlan`.
        previous (DeviceExpansion, optional): The expansion of the previous pass. Its eigenvectors
            are the initial vectors of the eigenvalue kernel.
        reuse (bool, optional): Whether ``previous`` belongs to the same weights and is used as it
            is. (default: :obj:`False`)
    """

    def __init__(
        self,
        equations: Equations,
        options: Options,
        fallback: Callable[[], Plan],
        previous: DeviceExpansion | None = None,
        reuse: bool = False,
    ) -> None:
        super().__init__(equations, options, fallback)
        self.solver = "chebyshev" if equations.operator.symmetric else "series"
        if previous is None or not reuse:
            before = None if previous is None else previous.basis
            basis = launches.basis_for(equations.weights.tensor, before)
            previous = DeviceExpansion(equations, SHARE * options.tol, basis)
        self.expansion = self.device_expansion = previous
        self._core = worthwhile_core(equations)
        self._operator = _swept(equations).operator

    @cached_property
    def synchronises(self) -> bool:
        """Whether degrees or eigenpairs are read by the host."""
        return synchronises(self.equations)

    def adjoint(self) -> DeviceSweep:
        """Returns the plan for the adjoint equations; itself if the operator is symmetric."""
        adjoint = self.equations.adjoint()
        if adjoint is self.equations:
            return self

        def fallback() -> Plan:
            return self.fallback.adjoint()

        return DeviceSweep(adjoint, self.options, fallback, self.expansion, reuse=True)

    def _launch(self, bias: Tensor) -> Launched:
        eigenvalues, vectors = self.expansion.eigenpairs
        if self._core is None:
            z = self._sweep(bias, vectors)
            return Launched(z, eigenvalues, self.expansion.table.needed)
        whole = bias.expand(len(self.equations), -1, -1)
        inner, given = self._core.restrict(whole)
        z = self._sweep(one_if_shared(inner).contiguous(), vectors)
        z, hop, image = self._core.extend(whole, z, given)
        return Launched(z, eigenvalues, self.expansion.table.needed, hop, image)

    def _sweep(self, bias: Tensor, vectors: Tensor) -> Tensor:
        """Returns the states of the graph, or of its core."""
        if self.synchronises and self._operator.pattern.lines.usable:
            return self._by_terms(bias, vectors)
        return self._in_one_launch(bias, vectors)

    def _in_one_launch(self, bias: Tensor, vectors: Tensor) -> Tensor:
        """Sorts columns by the rank of their eigenvalues, so that slow ones share a group."""
        operator, table = self._operator, self.expansion.table
        count, h, wide = vectors.shape
        nodes = bias.size(1)
        if len(bias) == 1:
            columns = bias[0] @ vectors.permute(1, 2, 0).reshape(h, wide * count)
        else:
            columns = torch.bmm(bias, vectors).permute(1, 2, 0).reshape(nodes, wide * count)
        total = launches.sweep(
            operator.pattern.rows,
            operator.pattern.col,
            operator.values.detach(),
            columns,
            table.coefficient,
            table.degree,
            chebyshev=operator.symmetric,
            bound=self._bound,
        )
        return torch.bmm(total.view(nodes, wide, count).permute(2, 0, 1), vectors.mT)

    def _by_terms(self, bias: Tensor, vectors: Tensor) -> Tensor:
        """Sorts columns by degree, and moves the last ones together after the first terms.

        On large graphs a launch costs nothing, and the memory traffic is what matters.
        """
        operator = self._operator
        coefficient, place, back, widths = self.expansion.by_degree
        count, h, wide = vectors.shape
        nodes = bias.size(1)
        if len(bias) == 1:
            basis = vectors.permute(1, 0, 2).reshape(h, -1)
            columns = bias[0] @ basis.index_select(1, place)
        else:
            side_by_side = bias.new_empty(nodes, count, wide)
            for i in range(count):
                torch.mm(bias[i], vectors[i], out=side_by_side[:, i])
            columns = side_by_side.view(nodes, -1).index_select(1, place)
            del side_by_side  # as large as the states
        total = coefficient[0] * columns
        add_terms(
            operator.pattern.lines,
            operator.values.detach(),
            columns,
            torch.empty_like(columns),
            total,
            widths,
            coefficient.__getitem__,
            partial(recurrence, chebyshev=operator.symmetric, bound=self._bound),
        )
        del columns
        ordered = total.index_select(1, back).view(nodes, count, wide)
        return torch.bmm(ordered.permute(1, 0, 2), vectors.mT)

    @property
    def _bound(self) -> float:
        """The number that the operator is divided by in Chebyshev polynomials."""
        operator = self._operator
        return operator.norm_bound if operator.symmetric and operator.norm_bound else 1.0
