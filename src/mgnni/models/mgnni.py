"""MGNNI: input map, equilibria at several scales, fusion, head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice, check_int
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_scales
from mgnni.layers.blocks import DIRECTIONS, DirectedEquilibrium, ResidualBlock
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.fusion import make_fusion
from mgnni.layers.graph_module import GraphOptions, report_non_finite, with_pyg_names
from mgnni.layers.heads import HeadSizes, ResidualHead, StateReadout, check_head, make_head
from mgnni.layers.input_map import GraphInput, apply_input_map, make_input_map
from mgnni.layers.mlp import MLP
from mgnni.layers.row_blocks import fits_row_blocks, in_row_blocks
from mgnni.models.base import GraphModel
from mgnni.models.mgnni_presets import preset
from mgnni.solve.result import SolveLog


class MGNNI(GraphModel):
    r"""MGNNI: multiscale graph neural network with implicit layers.

    From the `"MGNNI: Multiscale Graph Neural Networks with Implicit Layers"
    <https://arxiv.org/abs/2210.08353>`_ paper.

    .. math::
        \mathbf{B} = f(\mathbf{X}), \qquad
        \mathbf{Z}_m = \gamma\, \mathbf{P}^m \mathbf{Z}_m\, g(\mathbf{F}_m) + \mathbf{B}, \qquad
        \mathbf{Z} = \sum_m \alpha_m \mathbf{Z}_m, \qquad
        \mathbf{Y} = f_o(\mathbf{Z})

    with an input map :math:`f`, the normalised adjacency matrix :math:`\mathbf{P}` (targets as
    rows, as PyG's ``adj_t``), learnable matrices :math:`\mathbf{F}_m` with :math:`g(\mathbf{F}) =
    \mathbf{F}^{\top} \mathbf{F} / (\|\mathbf{F}^{\top} \mathbf{F}\|_F + \epsilon)`, attention
    weights :math:`\alpha_m` per node, and a head :math:`f_o`.

    The defaults are the model of the paper, except for the final ReLU of its input map
    (``input_map="mlp-relu"``). ``contraction``, ``learn_gamma``, ``directions``, ``skip``,
    ``own_bias``, ``blocks``, ``input_map="graph"`` and ``fusion="concat"`` generalise it within
    the same equation, so that every solution is still unique and certified.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Number of channels of the states.
        out_channels (int): Number of classes or labels.
        scales (Sequence[int], optional): Distinct powers of the operator, one equilibrium each.
            (default: :obj:`(1, 2)`)
        gamma (float, optional): Factor in front of the propagated states, at least 0 and below 1.
            (default: :obj:`0.8`)
        input_map (str, optional): Map from features to the bias: :obj:`"mlp"`,
            :obj:`"mlp-relu"`, which ends with a ReLU as in the paper, :obj:`"identity"`, which
            needs as many hidden channels as features, or :obj:`"graph"`, which also embeds the
            rows of the adjacency matrix and is bound to the graph of the training.
            (default: :obj:`"mlp"`)
        input_widths (Sequence[int], optional): Sizes of the hidden layers of the MLP. :obj:`None`
            uses one of size hidden_channels. (default: :obj:`None`)
        dropout (float, optional): Dropout probability in the input map and the head.
            (default: :obj:`0.5`)
        contraction (str, optional): Norm in :math:`g`, :obj:`"frobenius"` or :obj:`"spectral"`, or
            :obj:`"identity"` for :math:`g = I`. (default: :obj:`"frobenius"`)
        learn_gamma (bool, optional): Whether every scale learns a factor below gamma.
            (default: :obj:`False`)
        directions (str, optional): Equilibria along the message passing, :obj:`"in"`, against it,
            :obj:`"out"`, or :obj:`"both"`. (default: :obj:`"in"`)
        skip (bool, optional): Whether the bias is combined with the states of the scales.
            (default: :obj:`False`)
        own_bias (bool, optional): Whether the state of a node contains its own bias. If not, the
            bias is subtracted from the states of the last equilibrium, which leaves what was
            propagated. (default: :obj:`True`)
        blocks (int, optional): Number of equilibrium blocks. All but the last have layer
            normalization and a residual connection. (default: :obj:`1`)
        fusion (str, optional): How the scales are combined, :obj:`"attention"`, :obj:`"mean"` or
            :obj:`"concat"`. (default: :obj:`"attention"`)
        attention_channels (int, optional): Size of the hidden layer of the attention.
            (default: :obj:`16`)
        batch_norm (bool, optional): Whether to apply batch normalization before the linear head.
            (default: :obj:`False`)
        head (str, optional): :obj:`"linear"`, :obj:`"mlp"`, :obj:`"residual"`, which is the
            authors' deep head for PPI, or :obj:`"graph"`, theirs for graph classification.
            (default: :obj:`"auto"`, which is :obj:`"graph"` with ``level="graph"`` and without
            batch normalization, and otherwise :obj:`"linear"`)
        head_channels (int, optional): Size of the hidden layers of the MLP and the residual head.
            :obj:`None` uses hidden_channels. (default: :obj:`None`)
        head_layers (int, optional): Number of hidden layers of the head, if it is not linear.
            (default: :obj:`3`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)
        solver (str, optional): Solver of the equations, see :func:`mgnni.solve_equilibrium`.
            :obj:`"auto"` chooses one for the graph and the weights. (default: :obj:`"auto"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)
        max_iter (int, optional): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice. (default: :obj:`None`)
        memory (str, optional): :obj:`"fast"` keeps propagated states for the backward pass,
            :obj:`"low"` computes them and activations again, and solves few columns at a time,
            :obj:`"half"` also stores vectors as float16. (default: :obj:`"fast"`)
        on_failure (str, optional): Whether to :obj:`"raise"` an error or to :obj:`"warn"` if a
            solve fails. (default: :obj:`"raise"`)
        warm_start (bool, optional): Whether to start each solve from the solution of the
            previous pass over the same graph. Results then differ within the tolerance, depending
            on earlier passes. (default: :obj:`False`)
        num_nodes (int, optional): Number of nodes of the graph, for the input map
            :obj:`"graph"`. A training sets it. (default: :obj:`None`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
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
        contraction: str = "frobenius",
        learn_gamma: bool = False,
        directions: str = "in",
        skip: bool = False,
        own_bias: bool = True,
        blocks: int = 1,
        fusion: str = "attention",
        attention_channels: int = 16,
        batch_norm: bool = False,
        head: str = "auto",
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
        num_nodes: int | None = None,
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_int("head_channels", hidden_channels if head_channels is None else head_channels)
        self.input_map = make_input_map(
            input_map, in_channels, hidden_channels, input_widths, dropout, num_nodes
        )
        self.scales = check_scales(scales)
        self.directions = check_choice("directions", directions, DIRECTIONS)
        self.skip, self.own_bias, self.memory = skip, own_bias, memory
        self.supports_edge_mask = input_map != "graph"  # which embeds edges of its own
        layer = partial(
            MultiscaleEquilibrium,
            *(hidden_channels, scales, gamma),
            contraction=contraction,
            learn_gamma=learn_gamma,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            memory=memory,
            on_failure=on_failure,
            warm_start=warm_start,
        )
        combine = partial(make_fusion, fusion, hidden_channels, attention_channels)

        def equilibrium() -> MultiscaleEquilibrium | DirectedEquilibrium:
            return layer() if directions == "in" else DirectedEquilibrium(layer, directions)

        states = len(self.scales) * (2 if directions == "both" else 1)
        self.blocks = nn.ModuleList(
            ResidualBlock(hidden_channels, equilibrium(), combine(), states, dropout)
            for _ in range(check_int("blocks", blocks) - 1)
        )
        self.equilibrium: MultiscaleEquilibrium | DirectedEquilibrium = equilibrium()
        self.fusion = combine()
        width = self.fusion.width(hidden_channels, states + int(skip))
        if head == "auto":
            head = "graph" if level == "graph" and not batch_norm else "linear"
        self.level = check_head(head, head_layers, batch_norm, level)
        inner = head_channels or hidden_channels
        sizes = HeadSizes(in_channels, width, inner, out_channels, head_layers)
        self.head = make_head(head, sizes, dropout, batch_norm)

    @classmethod
    def from_preset(cls, name: str, in_channels: int, out_channels: int, **kwargs: Any) -> MGNNI:
        """Build one of the configurations that the authors released.

        Args:
            name (str): :obj:`"webkb"`, :obj:`"wikipedia"`, :obj:`"ppi"` or :obj:`"tu"`, see
                :mod:`mgnni.models.mgnni_presets`.
            in_channels (int): Size of each input sample.
            out_channels (int): Number of classes or labels.
            **kwargs (optional): Arguments of :class:`MGNNI` that override the preset.
        """
        options = {**preset(name, in_channels), **with_pyg_names(kwargs)}
        return cls(in_channels, options.pop("hidden_channels"), out_channels, **options)

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved."""
        inner = (cast(ResidualBlock, block).equilibrium for block in self.blocks)
        return SolveLog.merged(layer.log for layer in (*inner, self.equilibrium))

    @property
    def takes_sparse_features(self) -> bool:  # type: ignore[override]
        """Whether ``x`` may be a sparse CSR tensor, which is so if only an MLP uses it."""
        takes = isinstance(self.input_map, MLP | GraphInput)
        return takes and not isinstance(self.head, ResidualHead)

    def bias(self, x: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the bias of the last equilibria, given the features of all nodes.

        Shapes: :math:`(|\mathcal{V}|, F_{in})` to :math:`(|\mathcal{V}|, F)`.
        """
        bias = apply_input_map(self.input_map, x, propagation, self.memory != "fast")
        for block in self.blocks:
            bias = block(bias, propagation)
        return bias

    def fused_states(self, z: Tensor, bias: Tensor) -> Tensor:
        r"""Return the states that are fused, given those of all equilibria and their bias.

        Shapes: :math:`(M, |\mathcal{V}|, F)`; :math:`(M + 1, |\mathcal{V}|, F)` with ``skip``.
        """
        states = z if self.own_bias else z - bias
        return torch.cat([states, bias.unsqueeze(0)]) if self.skip else states

    def read_out(
        self, z: Tensor, x: Tensor | None, index: Tensor | None, num_graphs: int
    ) -> tuple[Tensor, Tensor]:
        r"""Return the output for the states that are fused, and the weight of each state.

        Shapes: :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`, and
        :math:`(|\mathcal{V}|, M)`.
        """
        fused, weight = self.fusion(z)
        return self.in_units(self.head(fused, x, index, num_graphs)), weight

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        *,
        return_attention: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Return the logits, one row per node or per graph.

        Args:
            x (Tensor): Node features, dense, or sparse CSR if :attr:`takes_sparse_features`.
            edge_index (Tensor or Propagation): The edge indices, a sparse adjacency matrix,
                or a :class:`~mgnni.Propagation`. The operator is cached between passes.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            batch (Tensor, optional): Index of the graph of each node. Each graph is solved
                to the tolerance, with a certificate of its own. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. Graphs without nodes at the end of a
                batch are counted only if it is given. (default: :obj:`None`)
            return_attention (bool, optional): Whether to return the tuple ``(logits, weights)``
                with the weight of each scale at each node. (default: :obj:`False`)

        Shapes:
            - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|,
              F_{out})`, and weights :math:`(|\mathcal{V}|, M)` if ``return_attention``
        """
        propagation = self.propagation(x, edge_index, edge_weight, batch, batch_size)
        with report_non_finite(x):
            bias = self.bias(x, propagation)
            z = self.equilibrium(bias, propagation).to(x.dtype)
        z = self.fused_states(z, bias.to(x.dtype))
        index = self.pooling_index(batch, propagation)
        if self.memory != "fast" and index is None and not return_attention:
            rowwise, device = StateReadout(self.fusion, self.head), propagation.device
            if fits_row_blocks(rowwise, x, device):
                return self.in_units(in_row_blocks(rowwise, z, device))
        out, weight = self.read_out(z, x, index, self.num_graphs(propagation, batch, batch_size))
        return (out, weight) if return_attention else out
