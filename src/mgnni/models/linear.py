"""Logistic regression: a baseline that ignores the graph."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.models.base import EncoderModel


class Linear(EncoderModel):
    r"""Logistic regression on the node features, or on their sum per graph.

    .. math::
        \mathbf{H} = \mathbf{X} \mathbf{W} + \mathbf{b}

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Not used; it is an argument of all models.
        out_channels (int): Number of classes or labels.
        dropout (float, optional): Dropout probability of the features. (default: :obj:`0.0`)
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
    own_readout = True  # there is none: the sum of linear maps is the linear map of the sum

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        level: str = "auto",
    ) -> None:
        # Edge weights are not used, so any weights are valid.
        graph = GraphOptions("none", self_loops=False)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.linear = MLP((in_channels, out_channels), dropout, activate_last=False)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the features."""
        out: Tensor = self.linear(x)
        return out
