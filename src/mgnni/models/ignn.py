"""IGNN: nonlinear equilibria."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_int, check_ints, check_number
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.implicit_graph import ImplicitGraph
from mgnni.layers.regularization import Dropout
from mgnni.layers.unit_rows import unit_rows
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog


class IGNN(EncoderModel):
    r"""IGNN: implicit graph neural network.

    From the `"Implicit Graph Neural Networks" <https://arxiv.org/abs/2009.06211>`_ paper.

    .. math::
        \mathbf{Z} = \mathrm{ReLU}(\mathbf{P} \mathbf{Z} \mathbf{W}^{\top} + \mathbf{P} \mathbf{X}
        \mathbf{\Omega}^{\top}), \qquad
        \|\mathbf{W}\|_\infty \le \kappa / \lambda_{\mathrm{pf}}(\mathbf{P}), \qquad
        \mathbf{Y} = \mathrm{dropout}(\mathbf{Z})\, \mathbf{V}^{\top}

    Several equilibria are stacked. With ``residual``, :math:`\mathbf{X} \leftarrow
    \mathrm{ELU}(\mathbf{Z} + \mathbf{X} \mathbf{V}^{\top})` after every equilibrium, and the last
    one, without an ELU, has as many channels as there are classes.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Number of channels of the states.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of equilibria. (default: :obj:`1`)
        widths (tuple[int, ...], optional): Sizes of the equilibria, in place of num_layers and
            hidden_channels; with a residual connection, sizes of all but the last.
            (default: :obj:`None`)
        residual (bool, optional): Whether to add a linear map of its input to every equilibrium.
            (default: :obj:`False`)
        unit_rows (bool, optional): Whether to normalise the states of each node to unit length.
            (default: :obj:`False`)
        kappa (float, optional): Contraction constant of the equations, at least 0 and below 1.
            (default: :obj:`0.9`)
        dropout (float, optional): Dropout probability before the last linear layer; with a
            residual connection, before every layer but the first. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)
        solver (str, optional): Solver of the equation, :obj:`"anderson"` or :obj:`"picard"`.
            (default: :obj:`"anderson"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)
        max_iter (int, optional): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice. (default: :obj:`None`)

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
        *,
        num_layers: int = 1,
        widths: tuple[int, ...] | None = None,
        residual: bool = False,
        unit_rows: bool = False,
        kappa: float = 0.9,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_number("kappa", kappa, "[0, 1)", "0.9 is usual")
        check_int("num_layers", num_layers)
        if residual and unit_rows:
            raise ArgumentError(
                "'unit_rows' must be False with residual (got True), where the last equilibrium "
                "holds the logits; leave it out"
            )
        if widths is None:
            widths = (hidden_channels,) * (num_layers - residual)
        sizes = (*check_ints("widths", widths), *([self.node_channels] if residual else []))
        if not sizes or (level == "graph" and sizes[-1] != hidden_channels):
            raise ArgumentError(
                f"'widths' must not be empty and must end with hidden_channels, {hidden_channels}, "
                f"if nodes are pooled (got {sizes}); change one of the two"
            )
        pairs = list(pairwise((in_channels, *sizes)))
        self.layers = nn.ModuleList(
            ImplicitGraph(a, b, kappa, solver, tol, max_iter) for a, b in pairs
        )
        self.residuals = nn.ModuleList([nn.Linear(a, b) for a, b in pairs] if residual else [])
        self.unit_rows = unit_rows
        self.decoder = None
        if not residual and level != "graph":
            self.decoder = nn.Linear(sizes[-1], out_channels, bias=False)
        drops = len(pairs) - 1 if residual else int(self.decoder is not None)
        self.dropout = nn.ModuleList(Dropout(dropout) for _ in range(drops))

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved."""
        layers = cast(list[ImplicitGraph], list(self.layers))
        return SolveLog.merged(layer.steady_state.log for layer in layers)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the decoded equilibria."""
        out = self._equilibria(x, propagation)
        if self.unit_rows:
            out = unit_rows(out)
        if self.decoder is None:
            return out
        logits: Tensor = self.decoder(self.dropout[0](out))
        return logits

    def _equilibria(self, x: Tensor, propagation: Propagation) -> Tensor:
        for index, layer in enumerate(self.layers):
            if self.residuals and index:
                x = self.dropout[index - 1](nn.functional.elu(x))
            z = layer(x, propagation).to(x.dtype)
            x = z + self.residuals[index](x) if self.residuals else z
        return x
