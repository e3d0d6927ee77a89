"""Public functions that solve one equation, or the equations of several scales."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.memo import uncompiled
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_scale, check_scales
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options, SolveResult


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
    r"""Solves :math:`Z = \gamma P^m Z W + B` for :math:`Z`, with a certificate.

    The result is differentiable in ``bias``, in ``weight`` and in the edge weights of the
    propagation by the adjoint equation, any number of times.

    Args:
        propagation (Propagation): The operator :math:`P` of the graph.
        weight (Tensor): Any square matrix :math:`W` with :math:`\gamma \|W\|_2 \|P\|^m < 1`.
        bias (Tensor): The bias :math:`B`.
        scale (int, optional): The scale :math:`m`, the number of hops per implicit step.
            (default: :obj:`1`)
        gamma (float, optional): The factor :math:`\gamma`, in [0, 1). (default: :obj:`0.8`)
        solver (str, optional): ``"picard"``, ``"anderson"``, ``"cg"``, ``"gmres"``,
            ``"series"``, ``"chebyshev"``, ``"spectral"``, ``"wide"``, ``"deflated"``, ``"dense"``,
            or ``"auto"``, which chooses by symmetry, contraction and size. (default: :obj:`"auto"`)
        tol (float, optional): Bound on the residual relative to the larger of :math:`\|B\|_F`
            and :math:`\|Z\|_F`, in each graph. Also used for the adjoint equation.
            (default: :obj:`1e-6`)
        max_iter (int, optional): Largest number of iterations. By default, a number that
            provably suffices.
        memory (str, optional): ``"fast"`` keeps :math:`P^m Z` for the backward pass. ``"low"``
            recomputes it, and solves a few columns at a time. ``"half"`` also stores the vectors
            of the sweep as float16; the residual is still measured in full precision.
            (default: :obj:`"fast"`)
        on_failure (str, optional): ``"raise"`` a :class:`~mgnni.ConvergenceError`, or ``"warn"``.
            (default: :obj:`"raise"`)

    Returns:
        The solution with its residual, iterations, status and certified ``error_bound``.

    Shapes:
        - **weight:** ``(channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``value`` has shape ``(num_nodes, channels)``
    """
    check_scale(scale)
    if weight.dim() != 2:
        raise ArgumentError(
            f"'weight' must be a square matrix (got shape {tuple(weight.shape)}); for one weight "
            "per scale use solve_equilibria"
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


@uncompiled  # the numbers of a result depend on the solve
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
    """Solves the equations of several scales together.

    As :func:`solve_equilibrium`, with one weight per scale and a common bias. The scales share
    products with the operator where that is cheaper.

    Args:
        propagation (Propagation): The operator of the graph.
        weight (Tensor): One weight per scale.
        bias (Tensor): The common bias.
        scales (Sequence[int], optional): The scales. (default: :obj:`(1, 2)`)
        gamma (float, optional): See :func:`solve_equilibrium`. (default: :obj:`0.8`)
        solver (str, optional): See :func:`solve_equilibrium`. (default: :obj:`"auto"`)
        tol (float, optional): See :func:`solve_equilibrium`. (default: :obj:`1e-6`)
        max_iter (int, optional): See :func:`solve_equilibrium`. (default: :obj:`None`)
        memory (str, optional): See :func:`solve_equilibrium`. (default: :obj:`"fast"`)
        on_failure (str, optional): See :func:`solve_equilibrium`. (default: :obj:`"raise"`)

    Returns:
        One result per scale.

    Shapes:
        - **weight:** ``(scales, channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** each ``value`` has shape ``(num_nodes, channels)``
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
        options=Options(solver, tol, max_iter, memory=memory, on_failure=on_failure),
    )
    records = log.forward
    return tuple(
        SolveResult.of(value, records[index :: len(scales)]) for index, value in enumerate(z)
    )
