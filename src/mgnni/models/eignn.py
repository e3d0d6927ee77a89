"""EIGNN: a linear equilibrium of the features, and a head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice, check_int
from mgnni.graph.eigenbasis import leading_eigenbasis, published_eigenbasis
from mgnni.graph.propagation import Propagation
from mgnni.implicit.linear import equilibria
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.heads import HeadSizes, check_head, make_head
from mgnni.layers.mlp import MLP
from mgnni.layers.unit_rows import unit_rows
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog

VARIANTS = ("iterative", "closed", "truncated", "published")


class EIGNN(EncoderModel):
    r"""EIGNN: efficient infinite-depth graph neural network.

    From the `"EIGNN: Efficient Infinite-Depth Graph Neural Networks"
    <https://arxiv.org/abs/2202.10720>`_ paper.

    .. math::
        \mathbf{Z} = \gamma\, \mathbf{P} \mathbf{Z}\, g(\mathbf{F}) + \mathbf{X}, \qquad
        g(\mathbf{F}) = \mathbf{F}^{\top} \mathbf{F} / (\|\mathbf{F}^{\top} \mathbf{F}\|_F +
        \epsilon), \qquad \mathbf{Y} = \mathbf{Z} \mathbf{V}

    It is :class:`~mgnni.MGNNI` with the single scale 1 and the features as bias. The states have
    as many channels as the features.

    The variants differ in how the equation is solved:

    ``iterative``
        To the tolerance, with a certificate, by a solver that suits the graph.
    ``closed``
        By the closed form from all eigenpairs of an undirected graph. Directed graphs, which may
        have no eigenbasis, are solved as with ``iterative``.
    ``truncated``
        With :math:`\mathbf{P}_k` in place of :math:`\mathbf{P}`, which has the
        ``num_eigenpairs`` eigenvalues of largest magnitude of each graph; for undirected graphs.
        The certificate is that of the truncated equation and does not cover the truncation.
    ``published``
        As in the authors' code, to compare with published results. On undirected graphs it is
        ``closed``. On directed graphs it is wrong: the imaginary parts of the eigenvectors
        :math:`\mathbf{Q}` are dropped, :math:`\mathbf{Q}^{\top}` is used as
        :math:`\mathbf{Q}^{-1}`, and the gradient uses :math:`\mathbf{P}^{\top}` as
        :math:`\mathbf{P}`. The certificate is then that of the coordinates. Their graph is that
        of ``normalization="out"`` and ``flow="source_to_target"``.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the states, which must be equal to ``in_channels``.
        out_channels (int): Number of classes or labels.
        gamma (float, optional): Factor in front of the propagated states, at least 0 and below 1.
            With 0 nothing is propagated, and the factor :math:`\mathbf{F}` is not used.
            (default: :obj:`0.8`)
        variant (str, optional): How the equation is solved, :obj:`"iterative"`, :obj:`"closed"`,
            :obj:`"truncated"` or :obj:`"published"`. The first two agree up to the tolerance.
            (default: :obj:`"iterative"`)
        num_eigenpairs (int, optional): Number of eigenpairs per graph of the truncated variant.
            (default: :obj:`100`)
        unit_rows (bool, optional): Whether to normalise the states of each node to unit length.
            (default: :obj:`False`)
        head (str, optional): :obj:`"linear"`, :obj:`"mlp"`, :obj:`"residual"`, which is the deep
            head for PPI, or :obj:`"graph"`, an MLP before sum pooling. (default: :obj:`"linear"`)
        head_channels (int, optional): Size of the hidden layers of the head. :obj:`None` uses
            hidden_channels. (default: :obj:`None`)
        head_layers (int, optional): Number of hidden layers of the head, if it is not linear.
            (default: :obj:`3`)
        dropout (float, optional): Dropout probability in the head. (default: :obj:`0.0`)
        batch_norm (bool, optional): Whether to apply batch normalization before the dropout of the
            linear head. (default: :obj:`False`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)
        memory (str, optional): :obj:`"fast"` keeps propagated states for the backward pass,
            :obj:`"low"` computes them again and solves few columns at a time, :obj:`"half"` also
            stores vectors as float16. (default: :obj:`"fast"`)

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
        gamma: float = 0.8,
        variant: str = "iterative",
        num_eigenpairs: int = 100,
        unit_rows: bool = False,
        head: str = "linear",
        head_channels: int | None = None,
        head_layers: int = 3,
        dropout: float = 0.0,
        batch_norm: bool = False,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
        tol: float = 1e-6,
        memory: str = "fast",
    ) -> None:
        level = check_head(head, head_layers, batch_norm, level)
        width = hidden_channels
        if head_channels is not None:
            width = check_int("head_channels", head_channels)
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, width, out_channels, dropout, level, graph)
        if hidden_channels != in_channels:
            raise ArgumentError(
                f"'hidden_channels' must equal in_channels (got {hidden_channels} and "
                f"{in_channels}), because the features are the bias of the equation; set it so, or "
                "use MGNNI, which has an input map"
            )
        self.hidden_channels = hidden_channels
        self.variant = check_choice("variant", variant, VARIANTS)
        # Eigenvectors are not differentiated in the entries.
        self.supports_edge_mask = variant not in ("truncated", "published")
        self.num_eigenpairs = check_int("num_eigenpairs", num_eigenpairs)
        self.unit_rows = unit_rows
        self.equilibrium = MultiscaleEquilibrium(
            hidden_channels, (1,), gamma, tol=tol, memory=memory
        )
        self.head: nn.Module
        if head == "graph":
            widths = (hidden_channels, *[width] * head_layers)
            self.head = MLP(widths, dropout, activate_last=True)
        else:
            sizes = HeadSizes(in_channels, hidden_channels, width, self.node_channels, head_layers)
            self.head = make_head(head, sizes, dropout, batch_norm)

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved."""
        return self.equilibrium.log

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the head."""
        z = self.states(x, propagation)
        if self.unit_rows:
            z = unit_rows(z)
        out: Tensor = self.head(z) if isinstance(self.head, MLP) else self.head(z, x, None, 1)
        return out

    def states(self, x: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the solution of the equation.

        Args:
            x (Tensor): Node features.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F_{in})`
            - **output:** states :math:`(|\mathcal{V}|, F_{in})`
        """
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            bias = x.to(propagation.dtype)
            if not self.equilibrium.gamma:
                z = self._without_propagation(bias, propagation)
            elif self.variant == "truncated":
                basis = leading_eigenbasis(propagation, self.num_eigenpairs)
                part = basis.coordinates(bias)
                z = bias + basis.states(self.equilibrium(part, basis.operator)[0] - part)
            elif self.variant == "published" and not propagation.symmetric:
                z = self._published(bias, propagation)
            else:
                closed = self.variant != "iterative" and propagation.symmetric
                solver = "spectral" if closed else None
                z = self.equilibrium(bias, propagation, solver=solver)[0]
        return z.to(x.dtype)

    def _without_propagation(self, bias: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the states for :math:`\gamma = 0`, where no equation is left to solve.

        The solution is :math:`X`. The released closed form gives :math:`Q Q^{\top} X` instead.
        """
        self.equilibrium.log = SolveLog()
        if self.variant == "published" and not propagation.symmetric:
            basis = published_eigenbasis(propagation)
            return basis.states(basis.coordinates(bias))
        return bias

    def _published(self, bias: Tensor, propagation: Propagation) -> Tensor:
        r"""Return :math:`T(X) = Q Y` with :math:`Y = \gamma \Lambda Y W + Q^{\top} X`.

        For a cotangent :math:`G` the gradient of :math:`W` in the authors' code is
        :math:`\gamma\, U^{\top} P^{\top} Z` with :math:`U = T(G)`. This is the gradient of
        :math:`T(X + \gamma P^{\top} Z W)` for fixed :math:`Z` and :math:`T`, so the added term is
        included with its value subtracted.
        """
        basis, layer = published_eigenbasis(propagation), self.equilibrium
        weight = normalized_gram(layer.factor.to(bias.dtype))
        fixed = weight.detach()

        def transform(x: Tensor) -> Tensor:
            y, layer.log = equilibria(
                basis.operator,
                fixed,
                basis.coordinates(x),
                (1,),
                layer.gamma,
                options=layer.options,
                psd_norm=1.0,
            )
            return basis.states(y[0])

        with torch.no_grad():
            z = transform(bias)
            back = layer.gamma * propagation.adjoint().apply(z)
        if not torch.is_grad_enabled():
            return z
        added = back @ weight[0]
        return transform(bias + (added - added.detach()))
