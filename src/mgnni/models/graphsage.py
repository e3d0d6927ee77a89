"""GraphSAGE: aggregated neighbours next to the node itself."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import AGGREGATIONS, SAGEConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel


class GraphSAGE(EncoderModel):
    r"""GraphSAGE without sampling of neighbours.

    From the `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ paper.

    .. math::
        \mathbf{h}_v^{\prime} = \mathrm{ReLU}\Big(\mathbf{W}_1 \mathbf{h}_v + \mathbf{W}_2
        \bigoplus_{u \to v} \mathbf{h}_u + \mathbf{b}\Big),

    without the last ReLU if nodes are classified. The operator has unnormalised edge weights: a
    :class:`~mgnni.Propagation` should be built with ``normalization="none"`` and
    ``self_loops=False``.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`2`)
        aggr (str, optional): Aggregation of the neighbours, :obj:`"mean"`, :obj:`"sum"` or
            :obj:`"max"`. (default: :obj:`"mean"`)
        project (bool, optional): Whether to apply a linear layer with a ReLU to the neighbours
            before aggregation. Together with max aggregation it is the paper's pooling
            aggregator. (default: :obj:`False`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`False`)
        dropout (float, optional): Dropout probability before every convolution.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
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
        aggr: str = "mean",
        project: bool = False,
        batch_norm: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions("none", self_loops=False, flow=flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.supports_edge_mask = aggr != "max"
        self.takes_sparse_features = aggr != "max" and not project
        conv = partial(SAGEConv, aggr=check_choice("aggr", aggr, AGGREGATIONS), project=project)
        widths, activate_last = self.layer_widths(num_layers), self.readout is not None
        self.stack = Stack(conv, widths, dropout, batch_norm, activate_last)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the last convolution."""
        out: Tensor = self.stack(x, propagation)[-1]
        return out
