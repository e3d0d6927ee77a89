"""MLP: a baseline that ignores the graph."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers import mlp
from mgnni.layers.graph_module import GraphOptions
from mgnni.models.base import EncoderModel


class MLP(EncoderModel):
    r"""An MLP on the node features, without the graph.

    .. math::
        \mathbf{H}_{l+1} = \mathrm{ReLU}(\mathbf{H}_l \mathbf{W}_l + \mathbf{b}_l), \qquad
        \mathbf{H}_0 = \mathbf{X},

    without the last ReLU if nodes are classified.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of linear layers. (default: :obj:`2`)
        dropout (float, optional): Dropout probability before every layer. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)

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
        num_layers: int = 2,
        dropout: float = 0.5,
        level: str = "auto",
    ) -> None:
        # Edge weights are not used, so any weights are valid.
        graph = GraphOptions("none", self_loops=False)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        activate_last = self.readout is not None
        self.perceptron = mlp.MLP(self.layer_widths(num_layers), dropout, activate_last)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the last layer."""
        out: Tensor = self.perceptron(x)
        return out
