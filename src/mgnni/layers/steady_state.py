"""The solution of a fixed-point equation as a part of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_options
from mgnni.implicit.nonlinear import implicit_fixed_point
from mgnni.solve.result import SolveLog
from mgnni.solve.fixed_point import SOLVERS


class SteadyState(nn.Module):
    """Solves ``z = map(z, *params)`` over a graph, and remembers how that went.

    Args:
        solver: ``"anderson"`` or ``"picard"``.
        tol: relative residual to be reached in every graph, forward and backward.
        max_iter: most steps of a solve; by default as many as are proven to be enough.

    Attributes:
        log: how the last equation was solved; its ``backward`` fills when gradients arrive.
    """

    def __init__(self, solver: str, tol: float, max_iter: int | None) -> None:
        super().__init__()
        check_options(tol, max_iter)
        self.solver = check_choice("solver", solver, SOLVERS)
        self.tol, self.max_iter = tol, max_iter
        self.log = SolveLog()

    def forward(
        self,
        map: Callable[..., Tensor],
        params: tuple[Tensor, ...],
        z0: Tensor,
        propagation: Propagation,
        log: SolveLog | None = None,
        **proven: Any,
    ) -> Tensor:
        """Return the solution, differentiable in ``params``.

        Args:
            map: takes a state and ``params``, and returns the next state.
            params: all that the map depends on and that gradients may be asked for.
            z0: where to start.
            propagation: tells which node is in which graph.
            log: that of several equations of one pass; by default one of its own.
            proven: ``contraction`` and ``norm``, see
                :func:`~mgnni.implicit.nonlinear.implicit_fixed_point`.
        """
        self.log = SolveLog() if log is None else log
        with torch.autocast(z0.device.type, enabled=False):  # a certificate needs full precision
            result = implicit_fixed_point(
                map,
                z0,
                params,
                solver=self.solver,
                tol=self.tol,
                max_iter=self.max_iter,
                batch=propagation.batch,
                num_graphs=propagation.num_graphs,
                log=self.log,
                **proven,
            )
        return result.value

    def extra_repr(self) -> str:
        """Solver and tolerance."""
        return f"solver={self.solver!r}, tol={self.tol:g}"
