"""The implicit layer: one equilibrium equation per scale, solved together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.check import check_gamma, check_options, check_propagation, check_scales
from mgnni.implicit.linear import MEMORY, ON_FAILURE, equilibria
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.solve.prepare import SOLVERS
from mgnni.solve.result import Options, SolveLog


class MultiscaleEquilibrium(nn.Module):
    r"""The equilibria of a graph at several scales.

    From the `"MGNNI: Multiscale Graph Neural Networks with Implicit Layers"
    <https://arxiv.org/abs/2210.08353>`_ paper:

    .. math::  Z_m = \gamma\, P^m Z_m\, g(F_m) + B, \qquad
               g(F) = F^{\top} F / (\|F^{\top} F\|_F + \epsilon)

    Every scale :math:`m` has a unique solution :math:`Z_m`.

    Args:
        channels (int): Number of channels of the states.
        scales (Sequence[int], optional): The distinct scales :math:`m`. (default: :obj:`(1, 2)`)
        gamma (float, optional): The factor :math:`\gamma \in [0, 1)`.
            (default: :obj:`0.8`)
        solver (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"auto"`)
        tol (float, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`1e-6`)
        max_iter (int, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`None`)
        memory (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"fast"`)
        on_failure (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"raise"`)
        warm_start (bool, optional): If set to :obj:`True`, solves start from the states of the
            last pass over the same graph. The result meets the same tolerance, but depends on
            earlier passes within it. (default: :obj:`False`)

    Attributes:
        factor (Parameter): The factors :math:`F_m`, shape ``(scales, channels, channels)``.
        log (SolveLog): How the last pass was solved. Its ``backward`` records appear once
            gradients have been computed.

    Shapes:
        - **input:** the bias :math:`B` of shape ``(num_nodes, channels)`` and the operator
        - **output:** ``(scales, num_nodes, channels)``
    """

    def __init__(
        self,
        channels: int,
        scales: Sequence[int] = (1, 2),
        gamma: float = 0.8,
        *,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        memory: str = "fast",
        on_failure: str = "raise",
        warm_start: bool = False,
    ) -> None:
        super().__init__()
        self.scales = check_scales(scales)
        self.gamma = check_gamma(gamma)
        check_options(tol, max_iter)
        check_choice("solver", solver, SOLVERS)
        self.options = Options(solver, tol, max_iter, warm_start)
        self.memory = check_choice("memory", memory, MEMORY)
        self.on_failure = check_choice("on_failure", on_failure, ON_FAILURE)
        self.factor = nn.Parameter(torch.empty(len(self.scales), channels, channels))
        self.log = SolveLog()
        self._cache = Cache()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for factor in self.factor:
            nn.init.xavier_uniform_(factor)

    def forward(self, bias: Tensor, propagation: Propagation) -> Tensor:
        r"""Solves for the states of every scale.

        Args:
            bias (Tensor): The bias :math:`B`, shape ``(num_nodes, channels)``.
            propagation (Propagation): The operator of the graph.
        """
        check_propagation(propagation)
        double = self.factor.dtype is torch.float64 and bias.device == propagation.device
        if double and propagation.dtype is not torch.float64:
            raise ArgumentError(
                "'propagation' must be float64 like the layer (got "
                f"{propagation.dtype}); build it from float64 edge weights or with "
                "dtype=torch.float64, or use layer.float()"
            )
        cache = self._cache if self.memory == "fast" else None
        with torch.autocast(bias.device.type, enabled=False):  # certificates need full precision
            factor = self.factor.to(propagation.dtype)
            z, self.log = equilibria(
                propagation,
                normalized_gram(factor, cache=cache),
                bias.to(propagation.dtype),
                self.scales,
                self.gamma,
                options=self.options,
                memory=self.memory,
                on_failure=self.on_failure,
                cache=self._cache,
                gram=True,
            )
        return z

    def extra_repr(self) -> str:
        """Channels, scales, gamma and solver."""
        channels = self.factor.size(-1)
        return (
            f"{channels}, scales={self.scales}, gamma={self.gamma}, "
            f"solver={self.options.solver!r}, tol={self.options.tol:g}"
        )
