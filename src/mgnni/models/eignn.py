"""EIGNN: one equilibrium over the features themselves, and a linear map."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.eigenbasis import leading_eigenbasis, published_eigenbasis
from mgnni.graph.propagation import Propagation
from mgnni.implicit.contraction import contraction
from mgnni.implicit.linear import equilibria
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.heads import HEADS, LinearHead, ResidualHead
from mgnni.layers.inputs import MLP
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width
from mgnni.solve.result import SolveLog

VARIANTS = ("iterative", "closed", "truncated", "published")


class EIGNN(GraphModel):
    r"""EIGNN of `Liu et al., NeurIPS 2021`: infinite depth by one linear equilibrium.

    .. math::  Z = \gamma\, P Z\, g(F) + X, \qquad
               g(F) = F^{\top} F / (\|F^{\top} F\|_F + \epsilon), \qquad \text{logits} = Z B.

    It is :class:`~mgnni.MGNNI` at the single scale 1 with the features as bias: nothing that learns
    stands before the equilibrium, and the states are as wide as the features.

    The variants differ in how the equation is solved:

    ``iterative``
        By what is proven of the graph and by size, to the tolerance, with a certificate.
    ``closed``
        By the closed form from all eigenpairs of an undirected graph. A directed graph may have no
        basis of eigenvectors; there, it is solved as by ``iterative``.
    ``truncated``
        With :math:`P_k`, made of the ``num_eigenpairs`` largest eigenvalues of every graph, in
        place of :math:`P`; for undirected graphs. The certificate is of that equation: how far
        its solution is from that of :math:`P` is not certified.
    ``published``
        As the released code does. On undirected graphs this is ``closed``. On directed ones it is
        wrong: imaginary parts of eigenvectors :math:`Q` are dropped and :math:`Q^{\top}` is taken
        for :math:`Q^{-1}`, so that :math:`Z` solves no equation over the graph, and its gradient
        takes :math:`P^{\top}` for :math:`P`; what is recorded of the solve is then of its
        coordinates. It is there to compare with published numbers.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the equilibrium, which must be ``in_channels``.
        out_channels: classes, or labels.
        gamma: contraction factor, at least 0 and below 1.
        variant: how the equation is solved; iterative and closed give the same to the tolerance.
        num_eigenpairs: eigenpairs of a graph that the truncated variant keeps.
        unit_rows: scale the states of every node to length one, as on chains.
        head: linear; residual, a deep one for PPI; graph, a perceptron before the sum over a graph.
        head_channels: width of the residual and the graph head; none, as wide as the equilibrium.
        head_layers: hidden layers of the residual and the graph head.
        dropout: probability, in the head.
        level: ``"node"``, ``"graph"``, or ``"auto"``, by graph if a ``batch`` is given.
        normalization: how the graph is normalised; auto, sym if it is undirected, else dir.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
        tol: relative residual to be reached in every graph, forward and backward.
        memory: keep propagated states for the backward pass, or compute them again.

    Shapes:
        - **input:** ``x``, ``(num_nodes, in_channels)``; ``edge_index``, ``(2, num_edges)``
        - **output:** logits, ``(num_nodes or num_graphs, out_channels)``
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        gamma: float = 0.8,
        variant: str = "iterative",
        num_eigenpairs: int = 100,
        unit_rows: bool = False,
        head: str = "linear",
        head_channels: int | None = None,
        head_layers: int = 3,
        dropout: float = 0.0,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
        tol: float = 1e-6,
        memory: str = "fast",
    ) -> None:
        check_choice("head", head, HEADS)
        check_width("head_layers", head_layers, least=0)
        width = hidden_channels
        if head_channels is not None:
            width = check_width("head_channels", head_channels)
        if head == "graph" and level == "node":
            raise ArgumentError(
                "'level' must be 'graph' or 'auto' with head='graph' (got 'node'), whose rows are "
                "summed over graphs; use head='linear' for one row a node"
            )
        super().__init__(
            in_channels,
            width,
            out_channels,
            dropout=dropout,
            level="graph" if head == "graph" else level,
            normalization=normalization,
            self_loops=self_loops,
            flow=flow,
        )
        if hidden_channels != in_channels:
            raise ArgumentError(
                f"'hidden_channels' must equal in_channels (got {hidden_channels} and "
                f"{in_channels}), for the features are the bias of the equation; set it so, or use "
                "MGNNI, which has an input map"
            )
        self.hidden_channels = hidden_channels
        self.variant = check_choice("variant", variant, VARIANTS)
        self.num_eigenpairs = check_width("num_eigenpairs", num_eigenpairs)
        self.unit_rows = unit_rows
        self.equilibrium = MultiscaleEquilibrium(
            hidden_channels, (1,), gamma, tol=tol, memory=memory
        )
        self.head: nn.Module
        if head == "linear":
            self.head = LinearHead(hidden_channels, self.row_channels, dropout, batch_norm=False)
        elif head == "residual":
            self.head = ResidualHead(
                in_channels, hidden_channels, width, self.row_channels, head_layers, dropout
            )
        else:
            widths = (hidden_channels, *[width] * head_layers)
            self.head = MLP(widths, dropout, activate_last=True)

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved, forward and, once run, backward."""
        return self.equilibrium.log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return ``(num_nodes, row_channels)``."""
        z = self.states(x, propagation)
        if self.unit_rows:
            z = nn.functional.normalize(z, dim=-1)
        rows: Tensor
        if isinstance(self.head, MLP):
            rows = self.head(z)
        else:
            rows = self.head(z, x, None, 1)
        return rows

    def states(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the equilibrium :math:`Z`, shape ``(num_nodes, hidden_channels)``."""
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            bias = x.to(propagation.dtype)
            if self.variant == "truncated":
                basis = leading_eigenbasis(propagation, self.num_eigenpairs)
                part = basis.coordinates(bias)
                z = bias + basis.states(self.equilibrium(part, basis.operator)[0] - part)
            elif self.variant == "published" and not propagation.symmetric:
                z = self._published(bias, propagation)
            else:
                closed = self.variant != "iterative" and propagation.symmetric
                options, solver = self.equilibrium.options, "spectral" if closed else "auto"
                self.equilibrium.options = dataclasses.replace(options, solver=solver)
                z = self.equilibrium(bias, propagation)[0]
        return z.to(x.dtype)

    def _published(self, bias: Tensor, propagation: Propagation) -> Tensor:
        r"""Return :math:`T(X) = Q Y` with :math:`Y = \gamma \Lambda Y W + Q^{\top} X`.

        For a cotangent :math:`G` the released gradient of :math:`W` is
        :math:`\gamma\, U^{\top} P^{\top} Z` with :math:`U = T(G)`. It is not that of :math:`T(X)`,
        but that of :math:`T(X + \gamma P^{\top} Z W)` where :math:`Z` and :math:`T` itself are held
        fixed; so that is what is added here, less its value.
        """
        basis, layer = published_eigenbasis(propagation), self.equilibrium
        weight = contraction(layer.factor.to(bias.dtype))
        held = weight.detach()

        def transform(x: Tensor) -> Tensor:
            y, layer.log = equilibria(
                basis.operator,
                held,
                basis.coordinates(x),
                (1,),
                layer.gamma,
                options=layer.options,
                memory=layer.memory,
                gram=True,
            )
            return basis.states(y[0])

        with torch.no_grad():
            z = transform(bias)
            back = layer.gamma * propagation.adjoint().apply(z)
        if not torch.is_grad_enabled():
            return z
        added = back @ weight[0]
        return transform(bias + (added - added.detach()))
