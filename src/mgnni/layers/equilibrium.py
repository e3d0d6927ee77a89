"""The implicit layer: one equilibrium equation per scale, solved together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.check import check_gamma, check_propagation, check_scales
from mgnni.implicit.linear import equilibria
from mgnni.implicit.normalized_gram import NORMS, normalized_gram
from mgnni.layers.edge_mask import EdgeMask
from mgnni.solve.prepare import SOLVERS
from mgnni.solve.result import Options, SolveLog

CONTRACTIONS = (*NORMS, "identity")
RATE = 2.0  # initial theta of a learned gamma; its sigmoid is 0.88


class MultiscaleEquilibrium(nn.Module):
    r"""The equilibria of a graph at several scales.

    From the `"MGNNI: Multiscale Graph Neural Networks with Implicit Layers"
    <https://arxiv.org/abs/2210.08353>`_ paper:

    .. math::  Z_m = \gamma\, P^m Z_m\, g(F_m) + B, \qquad
               g(F) = F^{\top} F / (\|F^{\top} F\| + \epsilon)

    Every scale :math:`m` has a unique solution :math:`Z_m`, because :math:`\gamma \|g(F)\|_2 < 1`
    for every choice of ``contraction``. The paper uses the Frobenius norm.

    Args:
        channels (int): Number of channels of the states.
        scales (Sequence[int], optional): The distinct scales :math:`m`. (default: :obj:`(1, 2)`)
        gamma (float, optional): The factor :math:`\gamma \in [0, 1)`.
            (default: :obj:`0.8`)
        contraction (str, optional): Norm in :math:`g(F)`, ``"frobenius"`` or ``"spectral"``, see
            :func:`mgnni.normalized_gram`; or ``"identity"``, which is :math:`g = I` without
            parameters. (default: :obj:`"frobenius"`)
        learn_gamma (bool, optional): Whether every scale learns its own factor
            :math:`\gamma_m = \gamma\, \sigma(\theta_m)`, which stays below :math:`\gamma`.
            (default: :obj:`False`)
        solver (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"auto"`)
        tol (float, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`1e-6`)
        max_iter (int, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`None`)
        memory (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"fast"`)
        on_failure (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"raise"`)
        warm_start (bool, optional): If set to :obj:`True`, solves start from the states of the
            last pass over the same graph. The result meets the same tolerance, but depends on
            earlier passes within it. (default: :obj:`False`)

    Attributes:
        factor (Parameter): The factors :math:`F_m`, shape ``(scales, channels, channels)``;
            :obj:`None` if ``contraction="identity"``.
        rate (Parameter): The numbers :math:`\theta_m`, shape ``(scales,)``; :obj:`None` unless
            ``learn_gamma``.
        log (SolveLog): How the last pass was solved. Its ``backward`` records appear once
            gradients have been computed.

    Shapes:
        - **input:** the bias :math:`B` of shape ``(num_nodes, channels)`` and the operator
        - **output:** ``(scales, num_nodes, channels)``
    """

    factor: nn.Parameter  # None if contraction="identity"

    def __init__(
        self,
        channels: int,
        scales: Sequence[int] = (1, 2),
        gamma: float = 0.8,
        *,
        contraction: str = "frobenius",
        learn_gamma: bool = False,
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
        check_choice("solver", solver, SOLVERS)
        self.options = Options(solver, tol, max_iter, warm_start, memory, on_failure)
        self.contraction = check_choice("contraction", contraction, CONTRACTIONS)
        shape = (len(self.scales), channels, channels)
        learned = contraction != "identity"
        self.channels = channels
        self.register_parameter("factor", nn.Parameter(torch.empty(shape)) if learned else None)
        self.rate = nn.Parameter(torch.empty(len(self.scales))) if learn_gamma else None
        self._cache = Cache()
        self.edge_mask = EdgeMask()
        self.reset_parameters()

    @property
    def log(self) -> SolveLog:
        """How the last pass was solved, compiled or not."""
        return self._cache.log

    @log.setter
    def log(self, log: SolveLog) -> None:
        self._cache.log = log

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for factor in () if self.contraction == "identity" else self.factor:
            nn.init.xavier_uniform_(factor)
        if self.rate is not None:
            nn.init.constant_(self.rate, RATE)

    def weight(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        r"""Returns :math:`g(F_m)` of every scale, times :math:`\sigma(\theta_m)` if it is learned.

        Args:
            dtype (torch.dtype): Data type of the equations.
            device (torch.device): Device of the equations.

        Shapes:
            - **output:** ``(scales, channels, channels)``
        """
        if self.contraction == "identity":
            eye = torch.eye(self.channels, dtype=dtype, device=device)
            weight = eye.expand(len(self.scales), -1, -1)
        else:
            cache = self._cache if self.options.memory == "fast" else None
            weight = normalized_gram(self.factor.to(dtype), norm=self.contraction, cache=cache)
        if self.rate is not None:
            weight = self.rate.to(dtype).sigmoid().view(-1, 1, 1) * weight
        return weight.contiguous()

    @property
    def dtype(self) -> torch.dtype | None:
        """Data type of the parameters; :obj:`None` if there are none."""
        one = self.rate if self.factor is None else self.factor
        return None if one is None else one.dtype

    def forward(
        self,
        bias: Tensor,
        propagation: Propagation,
        *,
        adjoint: bool = False,
        solver: str | None = None,
    ) -> Tensor:
        r"""Solves for the states of every scale.

        Args:
            bias (Tensor): The bias :math:`B`, shape ``(num_nodes, channels)``.
            propagation (Propagation): The operator of the graph.
            adjoint (bool, optional): Whether to solve with the transposed operator
                :math:`P^{\top}`. (default: :obj:`False`)
            solver (str, optional): Solver of this pass. :obj:`None` uses that of the layer.
                (default: :obj:`None`)
        """
        check_propagation(propagation)
        self.edge_mask.check(propagation)
        double = (self.dtype or bias.dtype) is torch.float64 and bias.device == propagation.device
        if double and propagation.dtype is not torch.float64:
            raise ArgumentError(
                "'propagation' must be float64 like the layer (got "
                f"{propagation.dtype}); build it from float64 edge weights or with "
                "dtype=torch.float64, or use layer.float()"
            )
        options = self.options if solver is None else replace(self.options, solver=solver)
        # Bound on the Frobenius norm of the weights.
        size = 1.0 if self.contraction == "frobenius" else max(self.channels, 1) ** 0.5
        with torch.autocast(bias.device.type, enabled=False):  # certificates need full precision
            z, _ = equilibria(
                propagation,
                self.weight(propagation.dtype, propagation.device),
                bias.to(propagation.dtype),
                self.scales,
                self.gamma,
                options=options,
                cache=self._cache,
                psd_norm=size,
                adjoint=adjoint,
            )
        return z

    def extra_repr(self) -> str:
        """Channels, scales, gamma, contraction if it is not the paper's, and solver."""
        paper = self.contraction == "frobenius"
        contraction = "" if paper else f"contraction={self.contraction!r}, "
        return (
            f"{self.channels}, scales={self.scales}, gamma={self.gamma}, {contraction}"
            f"solver={self.options.solver!r}, tol={self.options.tol:g}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"  # without the receiver of masks
