"""The implicit layer with the interface of PyG's convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch_geometric.nn import Linear

from mgnni.errors import check_choice, check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.fusion import Fusion, make_fusion
from mgnni.layers.graph_module import GraphModule, GraphOptions, report_non_finite
from mgnni.solve.result import SolveLog


class EquilibriumConv(GraphModule):
    r"""The multiscale implicit graph convolution of MGNNI.

    From the `"MGNNI: Multiscale Graph Neural Networks with Implicit Layers"
    <https://arxiv.org/abs/2210.08353>`_ paper.

    .. math::
        \mathbf{Z}_m = \gamma\, \mathbf{P}^m \mathbf{Z}_m\, g(\mathbf{F}_m) + \mathbf{X}
        \mathbf{\Theta} + \mathbf{b}, \qquad
        \mathbf{X}^{\prime} = \sum_m \alpha_m \mathbf{Z}_m,

    where :math:`g(\mathbf{F}) = \mathbf{F}^{\top} \mathbf{F} / (\|\mathbf{F}^{\top}
    \mathbf{F}\|_F + \epsilon)`, so that every equation has exactly one solution. The coefficients
    :math:`\alpha_m` are equal or computed by attention.

    It is used like any convolution of PyG, for example inside of
    :class:`torch_geometric.nn.Sequential`.

    Args:
        in_channels (int): Size of each input sample, or :obj:`-1` to derive the size from the
            first input.
        out_channels (int): Size of each output sample.
        scales (Sequence[int], optional): Distinct powers :math:`m` of the operator, one equation
            each. (default: :obj:`(1,)`)
        gamma (float, optional): Factor :math:`\gamma \in [0, 1)` in front of the propagated
            states.
            (default: :obj:`0.8`)
        fusion (str, optional): How several scales are combined, :obj:`"attention"` or
            :obj:`"mean"`. Not used for a single scale. (default: :obj:`"attention"`)
        attention_channels (int, optional): Size of the hidden layer of the attention.
            (default: :obj:`16`)
        bias (bool, optional): If set to :obj:`False`, the layer will not learn an additive bias.
            (default: :obj:`True`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph. PyG's name
            ``add_self_loops`` is accepted, too. (default: :obj:`True`)
        flow (str, optional): Direction of message passing. (default: :obj:`"source_to_target"`)
        solver (str, optional): Solver of the equations, see :func:`mgnni.solve_equilibrium`.
            (default: :obj:`"auto"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)
        max_iter (int, optional): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice. (default: :obj:`None`)
        memory (str, optional): :obj:`"fast"` keeps propagated states for the backward pass,
            :obj:`"low"` computes them again and solves few columns at a time, :obj:`"half"` also
            stores vectors as float16. (default: :obj:`"fast"`)
        on_failure (str, optional): :obj:`"raise"` a :class:`~mgnni.ConvergenceError` if a solve
            fails, or :obj:`"warn"`. (default: :obj:`"raise"`)
        warm_start (bool, optional): Whether to start from the solution of the previous pass over
            the same graph. (default: :obj:`False`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        scales: Sequence[int] = (1,),
        gamma: float = 0.8,
        *,
        fusion: str = "attention",
        attention_channels: int = 16,
        bias: bool = True,
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
        super().__init__(in_channels, out_channels, GraphOptions(normalization, self_loops, flow))
        if in_channels != -1:
            check_int("in_channels", in_channels)
        self.lin = Linear(in_channels, out_channels, bias=bias, weight_initializer="glorot")
        self.equilibrium = MultiscaleEquilibrium(
            out_channels,
            scales,
            gamma,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            memory=memory,
            on_failure=on_failure,
            warm_start=warm_start,
        )
        check_choice("fusion", fusion, ("attention", "mean"))
        check_int("attention_channels", attention_channels)
        self.fusion: Fusion | None = None
        if len(self.equilibrium.scales) > 1:
            self.fusion = make_fusion(fusion, out_channels, attention_channels)

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved."""
        return self.equilibrium.log

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the fused solutions of all scales.

        Args:
            x (Tensor): Node features.
            edge_index (Tensor or Propagation): The edge indices, a sparse adjacency matrix,
                or a :class:`~mgnni.Propagation`.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            batch (Tensor, optional): Index of the graph of each node. Each graph is solved
                to the tolerance on its own. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)
        """
        propagation = self.propagation(x, edge_index, edge_weight, batch, batch_size)
        with report_non_finite(x):
            z = self.equilibrium(self.lin(x), propagation).to(x.dtype)
        out: Tensor = z[0].clone() if self.fusion is None else self.fusion(z)[0]
        return out

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"scales={self.equilibrium.scales}, gamma={self.equilibrium.gamma})"
        )
