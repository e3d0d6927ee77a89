"""FDGNN: untrained implicit layers with a trained readout."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from mgnni.errors import check_int
from mgnni.graph.memo import Memo
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.readout import RandomReadout
from mgnni.layers.reservoir import Reservoir
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog

_states: Memo[tuple[Tensor, SolveLog, list[Tensor]]] = Memo()


class FDGNN(EncoderModel):
    r"""FDGNN: fast and deep graph neural network.

    From the `"Fast and Deep Graph Neural Networks" <https://arxiv.org/abs/1911.08941>`_ paper.

    .. math::
        \mathbf{z}^{(i)}_v = \tanh\Big(\mathbf{W}^{(i)}_{in} \mathbf{z}^{(i-1)}_v
        + \frac{1}{k} \sum_{u \to v} \mathbf{W}^{(i)} \mathbf{z}^{(i)}_u\Big), \qquad
        \mathbf{z}^{(0)} = \mathbf{x}, \qquad
        \mathbf{y} = \mathbf{V} \tanh\Big(\mathbf{\Phi} \sum_v \mathbf{z}^{(L)}_v\Big) + \mathbf{b}

    Only :math:`\mathbf{V}` and :math:`\mathbf{b}` are trained. All other weights are buffers, and
    no gradients flow to features or edge weights. The states are solved for once per graph,
    features and weights, and cached as long as the operator and the features live. If nodes are
    classified, there is no sum over nodes.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the states of each layer.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of implicit layers. (default: :obj:`3`)
        rho (float, optional): Contraction constant of every layer, at least 0 and below 1.
            (default: :obj:`0.9`)
        omega (float, optional): Scaling of the input of every layer. (default: :obj:`1.0`)
        connections (int, optional): Number of non-zero weights per neuron, from its own layer and
            from the layer before. :obj:`None` is all of them. (default: :obj:`1`)
        max_degree (int, optional): Largest degree of all graphs. :obj:`None` uses that of each
            graph. (default: :obj:`None`)
        readout_channels (int, optional): Number of random features of the summed states.
            :obj:`None` uses the sum itself. (default: :obj:`500`)
        dropout (float, optional): Dropout probability of the random features.
            (default: :obj:`0.0`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        solver (str, optional): Solver of the equations, :obj:`"anderson"`, or :obj:`"picard"` as
            in the paper. (default: :obj:`"anderson"`)
        tol (float, optional): Relative residual to reach in every graph. (default: :obj:`1e-6`)
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

    own_readout = True
    supports_edge_mask = False  # states are computed once, outside of autograd
    supports_vmap = False  # the solves of different runs take different numbers of iterations

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 3,
        rho: float = 0.9,
        omega: float = 1.0,
        connections: int | None = 1,
        max_degree: int | None = None,
        readout_channels: int | None = 500,
        dropout: float = 0.0,
        level: str = "auto",
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        graph = GraphOptions("none", self_loops=False)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_int("num_layers", num_layers)
        for name, number in (
            ("connections", connections),
            ("max_degree", max_degree),
            ("readout_channels", readout_channels),
        ):
            if number is not None:
                check_int(name, number)
        options: dict[str, Any] = {
            "rho": rho,
            "omega": omega,
            "connections": connections,
            "max_degree": max_degree,
            "solver": solver,
            "tol": tol,
            "max_iter": max_iter,
        }
        h = hidden_channels
        first = Reservoir(in_channels, h, input_connections=None, **options)
        later = [
            Reservoir(h, h, input_connections=connections, **options) for _ in range(num_layers - 1)
        ]
        self.layers = nn.ModuleList([first, *later])
        self.node_channels = hidden_channels
        self.readout = RandomReadout(
            hidden_channels, readout_channels, out_channels, dropout, level
        )
        self._options = tuple(options.values())
        self._log = SolveLog()

    @property
    def solve_log(self) -> SolveLog:
        """How the current states were solved for, with one entry per layer."""
        return self._log

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states of the last layer."""
        weights = list(self.layers.buffers())
        states, self._log, used = _states.get(
            propagation, lambda: self._solve(x, propagation), (x, *weights), self._options
        )
        # Changes through .data have no version; the cache compares values on the CPU only.
        if x.device.type != "cpu" and not torch.cuda.is_current_stream_capturing():
            if not all(map(torch.equal, used, weights)):
                states, self._log, _ = self._solve(x, propagation)
        return states.to(x.dtype)

    def _solve(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, SolveLog, list[Tensor]]:
        weights = [weight.clone() for weight in self.layers.buffers()]
        layers = cast(list[Reservoir], list(self.layers))
        for layer in layers:
            x = layer(x, propagation)
        return x, SolveLog.merged(layer.solve.log for layer in layers), weights
