"""MGNNI: input map, equilibria at several scales, attention over them, head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.fusion import FUSIONS, ScaleAttention, ScaleMean
from mgnni.layers.heads import HEADS, GraphHead, LinearHead, ResidualHead
from mgnni.layers.inputs import INPUT_MAPS, MLP
from mgnni.models.base import OnGraphs
from mgnni.models.check import check_dropout, check_finite, check_width, check_widths
from mgnni.models.presets import preset
from mgnni.solve.result import SolveLog


class MGNNI(OnGraphs):
    r"""The multiscale implicit graph network of `Liu et al., NeurIPS 2022`.

    .. math::  B = f(X), \qquad Z_m = \gamma\, P^m Z_m\, g(F_m) + B, \qquad
               Z = \sum_m \alpha_m Z_m, \qquad \text{logits} = f_o(Z).

    Args:
        in_channels: features of a node.
        hidden_channels: width :math:`h` of the equilibria.
        out_channels: classes, or labels.
        scales: hops :math:`m` of one implicit step, one equilibrium each.
        gamma: contraction factor :math:`\gamma`, at least 0 and below 1.
        input_map: ``"mlp"``; ``"mlp-relu"``, with a ReLU at the end as the paper writes it; or
            ``"identity"``, the features themselves, with ``hidden_channels == in_channels``.
        input_widths: hidden widths of the perceptron; ``None`` uses one of ``hidden_channels``.
        dropout: probability, in the input map and the head.
        fusion: ``"attention"`` over scales, or their ``"mean"``.
        attention_channels: width of the attention.
        batch_norm: normalise the fused states, before the linear head.
        head: ``"linear"``; ``"residual"``, the authors' for PPI; ``"graph"``, theirs for graphs.
        head_channels: width of the residual head; ``None`` uses ``hidden_channels``.
        head_layers: hidden layers of the residual and the graph head.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization: of the graph, see :meth:`Propagation.from_edge_index`; ``"auto"`` is
            ``"sym"`` on an undirected graph and ``"dir"`` on a directed one.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
        solver: how the equations are solved; ``"auto"`` chooses by what is proven of the graph.
        tol: relative residual that every graph must reach, forward and backward.
        max_iter: limit on iterations; ``None`` allows as many as the contraction may need.
        memory: ``"fast"`` keeps propagated states for the backward pass, ``"low"`` recomputes them.
        on_failure: ``"raise"`` an error if a solve misses ``tol``, or ``"warn"``.
        warm_start: start from the states of the last pass over the same graph. They are solved
            for to the same tolerance, but within it depend on what was solved before.

    Shapes:
        - **input:** ``x``, ``(num_nodes, in_channels)``, dense, or sparse CSR if
          :attr:`takes_sparse_features`; ``edge_index``, ``(2, num_edges)``
        - **output:** logits, ``(num_nodes or num_graphs, out_channels)``
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        scales: Sequence[int] = (1, 2),
        gamma: float = 0.8,
        *,
        input_map: str = "mlp",
        input_widths: Sequence[int] | None = None,
        dropout: float = 0.5,
        fusion: str = "attention",
        attention_channels: int = 16,
        batch_norm: bool = False,
        head: str = "linear",
        head_channels: int | None = None,
        head_layers: int = 3,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        memory: str = "fast",
        on_failure: str = "raise",
        warm_start: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            level=level,
            normalization=normalization,
            self_loops=self_loops,
            flow=flow,
        )
        check_width("hidden_channels", hidden_channels)
        check_width("attention_channels", attention_channels)
        check_width("head_channels", hidden_channels if head_channels is None else head_channels)
        check_width("head_layers", head_layers, least=0)
        check_dropout(dropout)

        check_choice("input_map", input_map, INPUT_MAPS)
        if input_map == "identity":
            if hidden_channels != in_channels:
                raise ArgumentError(
                    "'hidden_channels' must equal in_channels with input_map='identity' (got "
                    f"{hidden_channels} and {in_channels}); set it so, or use input_map='mlp'"
                )
            self.input_map: nn.Module = nn.Identity()
        else:
            inner = (hidden_channels,) if input_widths is None else input_widths
            widths = (in_channels, *check_widths("input_widths", inner), hidden_channels)
            self.input_map = MLP(widths, dropout, activate_last=input_map == "mlp-relu")
        self.equilibrium = MultiscaleEquilibrium(
            hidden_channels,
            scales,
            gamma,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            memory=memory,
            on_failure=on_failure,
            warm_start=warm_start,
        )
        check_choice("fusion", fusion, FUSIONS)
        self.fusion: ScaleAttention | ScaleMean = (
            ScaleAttention(hidden_channels, attention_channels)
            if fusion == "attention"
            else ScaleMean()
        )
        check_choice("head", head, HEADS)
        self.head: nn.Module
        if head == "linear":
            self.head = LinearHead(hidden_channels, out_channels, dropout, batch_norm)
        elif batch_norm:
            raise ArgumentError(
                f"'batch_norm' belongs to head='linear' (got True with head={head!r}); leave it out"
            )
        elif head == "residual":
            width = head_channels or hidden_channels
            self.head = ResidualHead(
                in_channels, hidden_channels, width, out_channels, head_layers, dropout
            )
        elif level == "node":
            raise ArgumentError(
                "'level' must be 'graph' or 'auto' with head='graph' (got 'node'), which sums over "
                "the nodes; use head='linear' for one row a node"
            )
        else:
            self.level = "graph"
            self.head = GraphHead(hidden_channels, out_channels, head_layers, dropout)

    @classmethod
    def from_preset(cls, name: str, in_channels: int, out_channels: int, **changes: Any) -> MGNNI:
        """Build a configuration of the authors: ``webkb``, ``wikipedia``, ``ppi`` or ``tu``.

        Args:
            name: which one; see :mod:`mgnni.models.presets`.
            in_channels: features of a node.
            out_channels: classes, or labels.
            changes: any argument of :class:`MGNNI`, over that of the preset.
        """
        options = {**preset(name, in_channels), **changes}
        return cls(in_channels, options.pop("hidden_channels"), out_channels, **options)

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved, forward and, once run, backward."""
        return self.equilibrium.log

    @property
    def takes_sparse_features(self) -> bool:  # type: ignore[override]
        """Whether ``x`` may be a sparse CSR tensor: if a perceptron is all that sees it."""
        return isinstance(self.input_map, MLP) and not isinstance(self.head, ResidualHead)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        return_attention: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the logits, and the weight of each scale at each node if asked for.

        Args:
            x: features of the nodes.
            edge_index: the graph, or a :class:`~mgnni.Propagation` of it. The operator of an
                ``edge_index`` is built at the first call and kept while the tensor stays the same.
            edge_weight: weights of the edges.
            batch: graph of each node. Graphs are separate problems, each with its own certificate.
            return_attention: return ``(logits, weights)``; the weights have shape
                ``(num_nodes, scales)``.
        """
        propagation = self.propagation(x, edge_index, edge_weight, batch)
        try:
            z = self.equilibrium(self.input_map(x), propagation)
        except ArgumentError:
            check_finite(x)
            raise
        fused, weight = self.fusion(z.to(x.dtype))
        logits = self.head(fused, x, self.pooled(batch, propagation), propagation.num_graphs)
        return (logits, weight) if return_attention else logits
