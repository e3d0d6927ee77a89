"""The solution of a fixed-point equation as a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.distributed.propagation import needs_whole_graph
from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_options
from mgnni.implicit.nonlinear import implicit_fixed_point
from mgnni.solve.fixed_point import SOLVERS
from mgnni.solve.result import SolveLog


class SteadyState(nn.Module):
    """Solves ``z = map(z, *params)`` over a graph, differentiably.

    Args:
        solver (str): ``"anderson"`` or ``"picard"``.
        tol (float): Relative residual to reach in every graph, forward and backward.
        max_iter (int, optional): Largest number of steps. :obj:`None` uses a number that provably
            suffices.

    Attributes:
        log (SolveLog): How the last equation was solved. Its ``backward`` records appear once
            gradients have been computed.

    Shapes:
        - **z0:** ``(num_nodes, channels)``
        - **output:** ``(num_nodes, channels)``
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
        **proven: Any,
    ) -> Tensor:
        """Return the solution, differentiable in ``params``.

        Args:
            map (Callable): Takes states and ``params``, and returns the next states.
            params (tuple[Tensor, ...]): All tensors that the map depends on and that may require
                gradients.
            z0 (Tensor): The initial states.
            propagation (Propagation): Knows the graph of each node.
            proven: ``contraction`` and ``norm``, see
                :func:`~mgnni.implicit.nonlinear.implicit_fixed_point`.

        Shapes:
            - **z0:** ``(num_nodes, channels)``
            - **output:** ``(num_nodes, channels)``
        """
        if propagation.is_sharded:
            raise needs_whole_graph("whose equation is not linear")
        self.log = SolveLog()
        with torch.autocast(z0.device.type, enabled=False):  # certificates need full precision
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
