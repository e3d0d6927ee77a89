"""The public solve of one equation, or of several scales together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_scale, check_scales
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import SolveResult, SolveStats
from mgnni.solve.solve import Options


def solve_equilibrium(
    propagation: Propagation,
    weight: Tensor,  # shape: (channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scale: int = 1,
    gamma: float = 0.8,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    memory: str = "fast",
    on_failure: str = "raise",
) -> SolveResult:
    r"""Solve :math:`Z = \gamma P^m Z W + B` for :math:`Z`, with a certificate.

    The result is differentiable, any number of times, in ``bias``, in ``weight`` and in the edge
    weights of the propagation, by the adjoint equation.

    Args:
        propagation: the operator :math:`P` of the graph.
        weight: :math:`W`, any square matrix with :math:`\gamma \|W\|_2 \|P\|^m < 1`.
        bias: :math:`B`.
        scale: :math:`m`, hops of one implicit step.
        gamma: :math:`\gamma`, in [0, 1).
        solver: ``"auto"``, ``"picard"``, ``"anderson"``, ``"cg"``, ``"gmres"``, ``"series"``,
            ``"chebyshev"``, ``"spectral"`` or ``"wide"``; ``"auto"`` goes by what is proven and
            by size.
        tol: bound on the residual relative to the larger of :math:`\|B\|_F`, :math:`\|Z\|_F`,
            in each graph; of the adjoint equation too.
        max_iter: iteration budget; by default as many as the contraction proves to be enough.
        memory: ``"fast"`` keeps :math:`P^m Z` for the backward pass, ``"low"`` computes it again.
        on_failure: ``"raise"`` a :class:`~mgnni.ConvergenceError`, or ``"warn"``.

    Returns:
        The solution with its residual, iterations, status and certified ``error_bound``.
    """
    check_scale(scale)
    if weight.dim() != 2:
        raise ArgumentError(
            f"'weight' must be a square matrix (got shape {tuple(weight.shape)}); for one weight a "
            "scale use solve_equilibria"
        )
    (result,) = solve_equilibria(
        propagation,
        weight.unsqueeze(0),
        bias,
        (scale,),
        gamma,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        memory=memory,
        on_failure=on_failure,
    )
    return result


def solve_equilibria(
    propagation: Propagation,
    weight: Tensor,  # shape: (scales, channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scales: Sequence[int] = (1, 2),
    gamma: float = 0.8,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    memory: str = "fast",
    on_failure: str = "raise",
) -> tuple[SolveResult, ...]:
    """Solve the equations of several scales together; one result a scale.

    As :func:`solve_equilibrium`, with one weight a scale and a common bias. Solving them together
    shares the products with the operator where that is cheaper.
    """
    scales = check_scales(scales)
    if bias.dim() != 2:
        raise ArgumentError(
            f"'bias' must have shape (num_nodes, channels) (got {tuple(bias.shape)}); a single "
            "channel is bias.unsqueeze(1)"
        )
    z, log = equilibria(
        propagation,
        weight,
        bias,
        scales,
        gamma,
        options=Options(solver, tol, max_iter),
        memory=memory,
        on_failure=on_failure,
    )
    names = [field.name for field in fields(SolveStats)]
    results = []
    for index, value in enumerate(z.unbind()):
        # Under vmap there is a record for every member of the batch; the worst speaks for all.
        records = log.forward[index :: len(scales)]
        stats = max(records, key=lambda record: record.relative_residual)
        kept = {name: getattr(stats, name) for name in names}
        results.append(SolveResult(value=value, **kept))
    return tuple(results)
