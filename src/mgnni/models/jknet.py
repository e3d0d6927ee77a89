"""JKNet: graph convolutions with jumping knowledge."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import JumpingKnowledge

from mgnni.errors import check_choice, check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel

MODES = ("cat", "max", "lstm")


class JKNet(EncoderModel):
    r"""JKNet: jumping knowledge network with GCN layers.

    From the `"Representation Learning on Graphs with Jumping Knowledge Networks"
    <https://arxiv.org/abs/1806.03536>`_ paper.

    .. math::
        \mathbf{H}_{l+1} = \mathrm{ReLU}(\mathbf{P} \mathbf{H}_l \mathbf{W}_l + \mathbf{b}_l),
        \qquad \mathbf{H} = \mathrm{JK}(\mathbf{H}_1, \dots, \mathbf{H}_L)\, \mathbf{V} +
        \mathbf{c}

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`4`)
        mode (str, optional): How the layers are combined: :obj:`"cat"` concatenates them,
            :obj:`"max"` takes the maximum per channel, and :obj:`"lstm"` weights them by attention
            scores of a bidirectional LSTM. (default: :obj:`"cat"`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`False`)
        dropout (float, optional): Dropout probability of the layers' outputs. Features are not
            dropped. (default: :obj:`0.5`)
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

    takes_sparse_features = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 4,
        mode: str = "cat",
        batch_norm: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_choice("mode", mode, MODES)
        widths = (in_channels, *(hidden_channels,) * check_int("num_layers", num_layers))
        self.stack = Stack(
            GCNConv, widths, dropout, batch_norm, activate_last=True, input_dropout=False
        )
        self.jump = JumpingKnowledge(mode, hidden_channels, num_layers)
        width = sum(widths[1:]) if mode == "cat" else hidden_channels
        self.last = MLP((width, self.node_channels), dropout, activate_last=False)
        self.supports_vmap = mode != "lstm"  # torch cannot vmap its LSTM

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the combined layers."""
        layers = self.stack(x, propagation)
        # cuDNN's LSTM has gradients in training mode only; torch's own always has.
        cudnn = self.training or not torch.is_grad_enabled()
        with torch.backends.cudnn.flags(enabled=cudnn and torch.backends.cudnn.enabled):
            out: Tensor = self.last(self.jump(layers))
        return out
