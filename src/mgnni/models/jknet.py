"""JKNet: graph convolutions, and all of their outputs at the end."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import JumpingKnowledge

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.inputs import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width

MODES = ("cat", "max", "lstm")


class JKNet(GraphModel):
    r"""JKNet of `Xu et al., ICML 2018`, over the layers of a GCN.

    .. math::  H_{l+1} = \mathrm{ReLU}(P H_l W_l + b_l), \qquad
               \mathrm{JK}(H_1, \dots, H_L)\, V + c.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: graph convolutions.
        mode: ``"cat"``, the outputs of all layers side by side; ``"max"``, the largest in every
            channel; or ``"lstm"``, their mean by attention of a node over layers.
        batch_norm: normalise what goes into a ReLU.
        dropout: probability, before every convolution and the last map.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization: of the graph; ``"auto"``: ``"sym"`` if it is undirected, else ``"dir"``.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
    """

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
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization=normalization,
            self_loops=self_loops,
            flow=flow,
        )
        check_choice("mode", mode, MODES)
        widths = (in_channels, *(hidden_channels,) * check_width("num_layers", num_layers))
        self.stack = Stack(GCNConv, widths, dropout, batch_norm, activate_last=True)
        self.jump = JumpingKnowledge(mode, hidden_channels, num_layers)
        width = sum(widths[1:]) if mode == "cat" else hidden_channels
        self.last = MLP((width, self.row_channels), dropout, activate_last=False)
        self.shares_graph = mode != "lstm"  # torch has no rule to map over its LSTM

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the outputs of all layers."""
        layers = self.stack(x, propagation)
        # cuDNN differentiates its LSTM in training only; torch's own, always.
        fast = self.training or not torch.is_grad_enabled()
        with torch.backends.cudnn.flags(enabled=fast and torch.backends.cudnn.enabled):
            rows: Tensor = self.last(self.jump(layers))
        return rows
