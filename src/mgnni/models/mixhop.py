"""MixHop: several powers of the operator per layer."""

from __future__ import annotations

from torch import Tensor

from mgnni.errors import check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import MixHopConv, check_powers
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel


class MixHop(EncoderModel):
    r"""MixHop: convolutions that concatenate several powers of the operator.

    From the `"MixHop: Higher-Order Graph Convolutional Architectures via Sparsified Neighborhood
    Mixing" <https://arxiv.org/abs/1905.00067>`_ paper.

    .. math::
        \mathbf{H}_{l+1} = \mathrm{ReLU}\Big(\big\Vert_{j \in \text{powers}} \mathbf{P}^j
        \mathbf{H}_l \mathbf{W}_{l,j} + \mathbf{b}_l\Big),

    followed by a linear layer.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample per power.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`2`)
        powers (tuple[int, ...], optional): Distinct powers of the operator.
            (default: :obj:`(0, 1, 2)`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`True`)
        dropout (float, optional): Dropout probability before every layer. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)

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
        num_layers: int = 2,
        powers: tuple[int, ...] = (0, 1, 2),
        batch_norm: bool = True,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        width = len(check_powers(powers)) * hidden_channels
        self.stack = Stack(
            lambda before, _: MixHopConv(before, hidden_channels, powers),
            (in_channels, *(width,) * check_int("num_layers", num_layers)),
            dropout,
            batch_norm,
            activate_last=True,
        )
        self.last = MLP((width, self.node_channels), dropout, activate_last=False)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the output of the last convolution."""
        out: Tensor = self.last(self.stack(x, propagation)[-1])
        return out
